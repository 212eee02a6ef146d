#include <csignal>

#include "host/base/process/child_process.hpp"
#include "host/cli/cli.hpp"
#include "host/cli/interrupt.hpp"
#include "host/cli/unread_output.hpp"
#include "host/trial/warm_program.hpp"

int main(int argc, char** argv) {
  mneme::stop_with_parent();
  mneme::cli::take_stop_signals();
  mneme::cli::take_broken_pipes();
  mneme::cli::report_crashes();
  // A starter may ignore it, and this program inherits that: then the ends of the programs that it
  // starts itself would be lost.
  std::signal(SIGCHLD, SIG_DFL);
  // At a limit of the files' size (ulimit -f) write(2) fails with a reason, as on a full disk.
  std::signal(SIGXFSZ, SIG_IGN);
  const auto run = [](int count, const char* const* words) {
    return mneme::cli::main_entry(count, words, mneme::cli::standard_streams());
  };
  if (const auto code = mneme::trial::serve_if_asked(run)) return *code;
  return run(argc, argv);
}
