// Code of plugins that is run in a process of its own: how that process is started and limited, and
// what its output says.
#pragma once

#include <signal.h>

#include <cstdint>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "host/base/process/child.hpp"

namespace mneme::trial {

// The file of this program, also when it was replaced.
inline constexpr const char* kOwnProgram = "/proc/self/exe";
// In the environment of such a process: its seconds.
inline constexpr const char* kSecondsVariable = "MNEME_TRIAL";

// How to start this program again with these arguments, limited to this number of seconds. Such a
// process names the call that does not return and ends itself; one that cannot is killed later.
[[nodiscard]] ChildOptions limited_child(std::vector<std::string> arguments, std::int64_t seconds,
                                         const std::optional<sigset_t>& signal_mask = std::nullopt);

// The message that a process of ours wrote last, without "mneme: error: "; "" when there is none.
[[nodiscard]] std::string message_in(const std::string& err);

// Says why a process has to end now, on any thread, and ends it with a plugin's exit status.
using EndLate = void (*)(const std::string& message);

// Sets the limits of a process that limited_child() describes: it ends in time, it ends with the
// process that started it, even where a plugin keeps signals from being taken, and its crash needs
// no core file. Time is limited until the thread is stopped, which its destructor does; when it is
// over, `end` gets a message that names the running call. Gives no thread and sets no limits where
// the process was started in another way, as under a debugger. `option` of the command line gives
// more time; `uncounted` names what was done before ("the import of torch"), "" = nothing.
[[nodiscard]] std::jthread limit_this_process(const char* option, EndLate end,
                                              const char* uncounted = "");

}  // namespace mneme::trial
