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

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define MNEME_HAS_SANITIZER
#endif
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define MNEME_HAS_SANITIZER
#endif

namespace {

bool is_loaded(const char* library) {
  void* const found = ::dlopen(library, RTLD_NOW | RTLD_NOLOAD);
  if (found != nullptr) ::dlclose(found);
  return found != nullptr;
}

bool runs_python() {
  using IsInitialised = int (*)();
  const auto is_initialised =
      reinterpret_cast<IsInitialised>(::dlsym(RTLD_DEFAULT, "Py_IsInitialized"));
  return is_initialised != nullptr && is_initialised() != 0;
}

// Ends the process without destructors. Those of LibTorch take a tenth of a second, in a fork two.
// Those of its part in Python would use an interpreter that nobody has ended, and ending it would
// run code of the memories' libraries. Without Python, sanitizers and profilers of a GPU write what
// they saw at an ordinary end.
void end_at_once(int code) {
#ifndef MNEME_HAS_SANITIZER
  if (!runs_python() && is_loaded("libcuda.so.1")) return;
#else
  if (!runs_python()) return;
#endif
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
  end_at_once(code);
  return code;
}
