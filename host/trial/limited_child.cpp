#include "host/trial/limited_child.hpp"

#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdlib>
#include <mutex>
#include <stop_token>
#include <string_view>
#include <utility>

#include "host/base/process/child_process.hpp"
#include "host/base/text.hpp"
#include "host/plugin/reported_call.hpp"

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

std::jthread limit_this_process(const char* option, EndLate end, const char* uncounted) {
  const char* const variable = std::getenv(kSecondsVariable);
  if (variable == nullptr) return {};
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // stop_with_parent() asked for SIGTERM
  const rlimit none{0, 0};
  ::setrlimit(RLIMIT_CORE, &none);
  const std::int64_t seconds = std::max<std::int64_t>(1, std::atoll(variable));
  const std::string without =
      *uncounted == '\0' ? "" : str(", in which ", uncounted, " is not counted");
  return std::jthread([seconds, option, end, without](const std::stop_token& stop) {
    std::mutex mutex;
    std::unique_lock lock(mutex);
    std::condition_variable_any stopped;
    stopped.wait_for(lock, stop, std::chrono::seconds(seconds), [] { return false; });
    if (stop.stop_requested()) return;
    const plugin::ReportedCall::Text call = plugin::ReportedCall::text();
    end(str(call.size > 0 ? call.view() : std::string_view("the trial"),
            call.size > 0 ? ": has not returned after " : ": has not ended after ", seconds, " s",
            without, ": the trial ends; correct the plugin, or allow more time with ", option));
  });
}

}  // namespace mneme::trial
