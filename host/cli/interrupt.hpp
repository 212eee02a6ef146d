// SIGINT and SIGTERM as a request to stop at the next step.
#pragma once

#include <string>

namespace mneme::cli {

// While one lives, the first SIGINT or SIGTERM is remembered and the second, of either kind, ends
// the process as usual. One at a time.
class InterruptGuard {
 public:
  InterruptGuard();
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

  // The signal that arrived; 0 = none.
  [[nodiscard]] static int signal();
};

// Thrown at a step boundary to leave a run. No std::exception: nothing but the command that threw
// it may catch it.
struct Interrupted {
  int signal = 0;
};

// Throws Interrupted when a signal has arrived.
void throw_if_interrupted();

// "SIGINT" or "SIGTERM".
[[nodiscard]] std::string signal_name(int signal);

}  // namespace mneme::cli
