// The status with which a process ends after a signal.
#pragma once

namespace mneme {

// The exit status of a command that a signal has stopped, as a shell reports the end by the signal
// itself: 130 after SIGINT, 143 after SIGTERM, 129 after SIGHUP.
[[nodiscard]] constexpr int exit_code_of_signal(int signal) { return 128 + signal; }

}  // namespace mneme
