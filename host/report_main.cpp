// The program mneme-report.
#include <csignal>

#include "host/cli/cli.hpp"
#include "host/cli/unread_output.hpp"

int main(int argc, char** argv) {
  mneme::cli::take_broken_pipes();
  // As in main.cpp: pictures are drawn by another program, and a write at a limit of the files' size
  // fails with a reason.
  std::signal(SIGCHLD, SIG_DFL);
  std::signal(SIGXFSZ, SIG_IGN);
  return mneme::cli::report_entry(argc, argv, mneme::cli::standard_streams());
}
