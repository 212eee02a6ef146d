#include "host/cli/crash.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <string_view>

#include "host/base/error.hpp"
#include "host/plugin/running_call.hpp"

namespace mneme::cli {
namespace {

using plugin::RunningCall;

struct Fault {
  int signal;
  std::string_view words;
};
constexpr std::array kFaults = {Fault{SIGSEGV, "segmentation fault (SIGSEGV)"},
                                Fault{SIGBUS, "bus error (SIGBUS)"},
                                Fault{SIGILL, "illegal instruction (SIGILL)"},
                                Fault{SIGFPE, "integer division by zero or overflow (SIGFPE)"},
                                Fault{SIGABRT, "abort (SIGABRT)"}};

// AVX-512's registers alone take 2.7 KB of a signal's frame.
constexpr std::size_t kStackBytes = 64 * 1024;

bool g_is_terminal = false;  // stderr

// One line, put together without memory of its own: in a signal handler nothing else may be done.
class Line {
 public:
  Line& add(std::string_view text) {
    const std::size_t size = std::min(text.size(), text_.size() - size_);
    std::memcpy(text_.data() + size_, text.data(), size);
    size_ += size;
    return *this;
  }
  void write() const {
    [[maybe_unused]] const auto written = ::write(STDERR_FILENO, text_.data(), size_);
  }

 private:
  std::array<char, 1024> text_{};
  std::size_t size_ = 0;
};

extern "C" void say_and_die(int signal, siginfo_t* info, void* /*context*/) {
  const auto* const fault =
      std::ranges::find_if(kFaults, [&](const Fault& each) { return each.signal == signal; });
  const RunningCall::Text call = RunningCall::text();
  Line line;
  line.add(g_is_terminal ? "\nmneme: error: " : "mneme: error: ");  // behind a progress bar
  if (call.size > 0) {
    line.add(call.view()).add(": ").add(fault->words).add(": the process ends; ");
    line.add("gdb --args mneme ... shows the line\n");
  } else {
    line.add(fault->words).add(" outside of calls into plugins: the process ends; ");
    line.add("please report it with the command that you gave\n");
  }
  line.write();
  // SA_RESETHAND gave the signal up: the instruction faults again, abort() raises again. What was
  // sent does not come again by itself.
  if (info->si_code <= 0) std::raise(signal);
}

void refuse_exit() {
  const RunningCall::Text call = RunningCall::text();
  if (call.size == 0) return;
  std::cout.flush();
  Line line;
  line.add("mneme: error: ").add(call.view());
  line.add(": the plugin called exit() in the middle of the run: expected a status; report it to ");
  line.add("the plugin's author\n");
  line.write();
  ::_exit(static_cast<int>(ErrorKind::kPlugin));
}

}  // namespace

void name_culprits() {
  g_is_terminal = ::isatty(STDERR_FILENO) == 1;
  static std::array<char, kStackBytes> stack;
  stack_t other{};
  sigaltstack(nullptr, &other);
  if ((other.ss_flags & SS_DISABLE) != 0) {
    other = {.ss_sp = stack.data(), .ss_flags = 0, .ss_size = stack.size()};
    sigaltstack(&other, nullptr);
  }
  for (const Fault& fault : kFaults) {
    struct sigaction before {};
    sigaction(fault.signal, nullptr, &before);
    if (before.sa_handler != SIG_DFL) continue;
    struct sigaction action {};
    action.sa_sigaction = &say_and_die;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | static_cast<int>(SA_RESETHAND);
    sigemptyset(&action.sa_mask);
    sigaction(fault.signal, &action, nullptr);
  }
  std::atexit(&refuse_exit);
  std::at_quick_exit(&refuse_exit);
}

}  // namespace mneme::cli
