// How long OpenMP's threads look for work before they sleep.
//
// libgomp, which LibTorch computes with, lets a thread that waits look for work in a loop for
// milliseconds. Alone on a machine that is twice as fast for small products as sleeping at once.
// Beside other programs, or in a container with fewer cores than it shows, such threads take the
// cores that the working ones need, and two threads were twelve times slower than one
// (docs/performance.md, "Threads"). libgomp itself loops for some microseconds only where there are
// more OpenMP threads than cores (its manual, GOMP_SPINCOUNT). So threads that sleep are added
// while other programs want the cores.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>

namespace mneme::tensor {

// While one lives, OpenMP's waiting threads sleep after some microseconds. It holds one sleeping
// thread for each core of the process.
class ShortWaits {
 public:
  ShortWaits();
  ~ShortWaits();
  ShortWaits(const ShortWaits&) = delete;
  ShortWaits& operator=(const ShortWaits&) = delete;

 private:
  struct Crowd;
  std::unique_ptr<Crowd> crowd_;
};

// What has used the cores that the process may run on since they were started, in seconds.
struct CoreUse {
  double all = 0.0;   // all programs
  double own = 0.0;   // this process
  double wall = 0.0;  // of a clock that only goes forwards
  int cores = 0;
};
// Of this process and moment; absent where the system does not say. `root` holds proc/.
[[nodiscard]] std::optional<CoreUse> core_use(const std::filesystem::path& root = "/");

// Whether other programs want cores that a computation wants, from uses at successive times.
class CoreContention {
 public:
  // True from the first interval in which the others used half a core more than `threads` leave
  // them, until kQuietIntervals in a row in which they used less than a quarter more.
  bool update(const CoreUse& now, int threads);

  static constexpr int kQuietIntervals = 10;

 private:
  std::optional<CoreUse> before_;
  int quiet_ = 0;
  bool is_wanted_ = false;
};

// From now on waits are short while other programs want the cores that a computation with this
// number of threads wants. Does nothing where the system does not say who uses them, and where the
// environment says how to wait: OMP_WAIT_POLICY, GOMP_SPINCOUNT, or KMP_BLOCKTIME for other OpenMP
// libraries. Looks ten times a second.
void watch_waits(std::int64_t threads);

}  // namespace mneme::tensor
