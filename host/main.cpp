#include <csignal>

#include "host/base/process/child_process.hpp"
#include "host/cli/cli.hpp"
#include "host/cli/interrupt.hpp"
#include "host/cli/plugins/warm_program.hpp"
#include "host/cli/unread_output.hpp"

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
  if (const auto code = mneme::cli::serve_if_asked()) return *code;
  return mneme::cli::main_entry(argc, argv, mneme::cli::standard_streams());
}
