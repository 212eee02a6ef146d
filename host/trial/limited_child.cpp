#include "host/trial/limited_child.hpp"

#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "host/base/process/child_process.hpp"
#include "host/base/text.hpp"
#include "host/plugin/running_call.hpp"

namespace mneme::trial {
namespace {

// Between the seconds of a process and its being killed: time for loading the program on a busy
// machine.
constexpr double kGraceSeconds = 30.0;

}  // namespace

ChildOptions limited_child(std::vector<std::string> arguments, std::int64_t seconds,
                           const std::optional<sigset_t>& signal_mask) {
  return {.launch = {.program = kOwnProgram,
                     .arguments = std::move(arguments),
                     .environment = {str(kSecondsVariable, '=', seconds),
                                     str(kParentVariable, '=', ::getpid())},
                     .signal_mask = signal_mask},
          .limits = {.seconds = static_cast<double>(seconds) + kGraceSeconds}};
}

std::string message_in(const std::string& err) {
  const std::string mark = "mneme: error";
  const std::size_t at = err.rfind(mark);
  if (at == std::string::npos) return "";
  std::size_t begin = err.find_first_of(":\n", at + mark.size());
  if (begin == std::string::npos) return "";
  begin = err.find_first_not_of(":\n ", begin);
  if (begin == std::string::npos) return "";
  const std::size_t end = err.find_last_not_of('\n');
  return err.substr(begin, end + 1 - begin);
}

Deadline::Deadline(std::int64_t seconds, const char* option, EndLate end)
    : thread_([this, seconds, option, end] { watch(seconds, option, end); }) {}

Deadline::~Deadline() {
  {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
  }
  condition_.notify_all();
  thread_.join();
}

void Deadline::watch(std::int64_t seconds, const char* option, EndLate end) {
  std::unique_lock lock(mutex_);
  if (condition_.wait_for(lock, std::chrono::seconds(seconds), [this] { return is_over_; })) return;
  const plugin::RunningCall::Text call = plugin::RunningCall::text();
  end(str(call.size > 0 ? call.view() : std::string_view("the trial"),
          call.size > 0 ? ": has not returned after " : ": has not ended after ", seconds,
          " s: the trial ends; correct the plugin, or allow more time with ", option));
}

std::unique_ptr<Deadline> limit_this_process(const char* option, EndLate end) {
  const char* const seconds = std::getenv(kSecondsVariable);
  if (seconds == nullptr) return nullptr;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // stop_with_parent() asked for SIGTERM
  const rlimit none{0, 0};
  ::setrlimit(RLIMIT_CORE, &none);
  return std::make_unique<Deadline>(std::max<std::int64_t>(1, std::atoll(seconds)), option, end);
}

}  // namespace mneme::trial
