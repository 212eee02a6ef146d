#include <csignal>

#include "host/cli/cli.hpp"

int main(int argc, char** argv) {
  // At a limit of the files' size (ulimit -f) write(2) fails with a reason, as on a full disk.
  std::signal(SIGXFSZ, SIG_IGN);
  return mneme::cli::main_entry(argc, argv, mneme::cli::standard_streams());
}
