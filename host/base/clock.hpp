// Time that tests can hold in their hands.
#pragma once

#include <chrono>

namespace mneme {

// A monotonic clock in seconds since an arbitrary moment.
class Clock {
 public:
  Clock() = default;
  Clock(const Clock&) = delete;
  Clock& operator=(const Clock&) = delete;
  virtual ~Clock() = default;
  [[nodiscard]] virtual double seconds() const = 0;
};

// The machine's steady clock.
class SteadyClock final : public Clock {
 public:
  [[nodiscard]] double seconds() const override {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
  }
};

// A clock that moves only when told to.
class ManualClock final : public Clock {
 public:
  [[nodiscard]] double seconds() const override { return now_; }
  void advance(double seconds) { now_ += seconds; }

 private:
  double now_ = 0.0;
};

// The process-wide steady clock.
[[nodiscard]] inline const Clock& steady_clock() {
  static const SteadyClock clock;
  return clock;
}

}  // namespace mneme
