#include <dlfcn.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <iostream>

#include "host/base/process/child_process.hpp"
#include "host/cli/cli.hpp"
#include "host/cli/interrupt.hpp"
#include "host/cli/unread_output.hpp"
#include "host/trial/warm_program.hpp"

namespace {

// Ends a process in which memories in Python ran. The destructors of LibTorch's part in Python would
// use an interpreter that nobody has ended, and ending it would run code of the memories' libraries.
void end_with_python(int code) {
  using IsInitialised = int (*)();
  const auto is_initialised =
      reinterpret_cast<IsInitialised>(::dlsym(RTLD_DEFAULT, "Py_IsInitialized"));
  if (is_initialised == nullptr || is_initialised() == 0) return;
  std::cout.flush();
  std::cerr.flush();
  std::fflush(nullptr);
  std::_Exit(code);
}

}  // namespace

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
  const auto served = mneme::trial::serve_if_asked(run);
  const int code = served ? *served : run(argc, argv);
  end_with_python(code);
  return code;
}
