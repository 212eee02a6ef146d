// Rows of memory that are read or written next, asked for while a product is computed. They lie too
// far apart for the processor to guess them, and each is used once.
#pragma once

#include "mneme_kernels/cpu/rows.inl"

namespace mneme::kernel::cpu {
namespace {

using namespace mneme::cpu;  // NOLINT: all of it has internal linkage

class Prefetch {
 public:
  // `bytes` at `from` and at each of the places, `count` in all, that follow `stride` bytes apart.
  void add(const void* from, std::int64_t bytes, std::int64_t stride, std::int64_t count) {
    if (n_runs_ == kMaxRuns || count <= 0) return;
    runs_[n_runs_++] = {static_cast<const char*>(from), stride, count, divide_up(bytes, kLine) + 1};
    lines_ += count * runs_[n_runs_ - 1].lines;
  }

  // To ask for all of it in about so many calls of some().
  void spread(std::int64_t calls) { lines_a_call_ = divide_up(lines_, larger(calls, 1)); }

  MNEME_INLINE void some() {
    for (std::int64_t i = 0; i < lines_a_call_ && run_ < n_runs_; ++i) {
      Run& run = runs_[run_];
      __builtin_prefetch(run.at + line_ * kLine, 0, kIntoSecondCache);
      if (++line_ < run.lines) continue;
      line_ = 0;
      run.at += run.stride;
      if (--run.count == 0) ++run_;
    }
  }

 private:
  static constexpr std::int64_t kLine = 64;
  static constexpr int kIntoSecondCache = 2;
  static constexpr int kMaxRuns = 16;  // what is beyond is left to the processor
  struct Run {
    const char* at;
    std::int64_t stride;
    std::int64_t count;
    std::int64_t lines;
  };
  Run runs_[kMaxRuns];
  int n_runs_ = 0;
  int run_ = 0;
  std::int64_t line_ = 0;
  std::int64_t lines_ = 0;
  std::int64_t lines_a_call_ = 0;
};

}  // namespace
}  // namespace mneme::kernel::cpu
