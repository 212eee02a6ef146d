// What losses and predictions need of rows of logits, in one pass over memory.
#pragma once

#include <cstdint>

#include "mneme_kernels/cpu/instruction_sets.hpp"

namespace mneme::kernel {

template <typename T>
struct LogitRows {
  const T* logits = nullptr;  // rows of `ids` numbers, `row` apart
  std::int64_t row = 0;
  std::int64_t ids = 0;  // at least 1
  T* log_sum = nullptr;  // the logarithm of the sum of each row's exponentials; null = not wanted
  T* highest = nullptr;  // the largest, and a NaN counts as larger than anything; null with ...
  std::int64_t* best = nullptr;  // ... its first place; null = not wanted
};

// The functions of one instruction set, for any thread: rows begin .. end - 1.
struct LogitKernels {
  void (*summarize_f32)(const LogitRows<float>&, std::int64_t begin, std::int64_t end);
  void (*summarize_f64)(const LogitRows<double>&, std::int64_t begin, std::int64_t end);
  MNEME_DECLARE_KERNELS(LogitKernels);
};

}  // namespace mneme::kernel
