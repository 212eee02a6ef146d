// Losses and gradients of a softmax over rows of logits that lie in memory, on a device: for a block
// of neighbouring ids at a time, so that the logits of all ids need not be there together. Nothing
// of the size of the logits is made in another dtype.
//
//   log_sum_i = log sum_j exp(x_ij)       nll_i = log_sum_i - x_it      t = target of row i
//   d nll_i / d x_ij = exp(x_ij - log_sum_i) - [j = t]        d log_sum_i / d x_ij = exp(x_ij - log_sum_i)
#pragma once

#include <cstdint>

#include "host/kernel/attention.hpp"

namespace mneme::kernel {

// Logits of ids first .. first + ids - 1, at least one of them. Sums ("S") are f64 for f64, else
// f32.
struct LogitBlock {
  Element element = Element::kF32;
  std::int64_t rows = 0;
  std::int64_t ids = 0;
  std::int64_t first = 0;
  std::int64_t stride = 0;               // of rows, in elements; a row's ids lie side by side
  const std::int64_t* target = nullptr;  // [rows], of all ids; below 0: the row has none
};

// Results of each row, S [rows] but for `best`. A block with first > 0 adds to those of the blocks
// before it, which must be there.
struct CrossEntropySummary {
  void* log_sum = nullptr;
  void* own = nullptr;           // the target's logit; any number while no block had it
  void* nll = nullptr;           // 0 without a target; null = not wanted
  void* highest = nullptr;       // the largest, and a NaN counts as largest; null with ...
  std::int64_t* best = nullptr;  // ... its first id; null = not wanted
};

struct CrossEntropyGradient {
  const void* log_sum = nullptr;  // S [rows], of all ids
  const void* scale = nullptr;    // S: the gradients of the rows' losses ...
  std::int64_t scale_stride = 1;  // ... which lie so far apart; 0 = one number for all
  void* bias =
      nullptr;  // receives S [ids], the sums over the rows before rounding; null = unwanted
  const void* sum_scale = nullptr;  // S [rows]: the gradients of log_sum; null = there are none
};

// The functions of a device. All arrays are in its memory. A function puts its work on `stream` and
// returns null, or a message when that failed; it neither allocates nor waits. Equal inputs give
// equal bits.
struct CrossEntropyKernels {
  const char* (*summarize)(const LogitBlock& block, const void* logits,
                           const CrossEntropySummary& out, void* stream);
  // Bytes that `differentiate` needs for the gradient of a bias. Of the extents alone.
  std::uint64_t (*workspace)(const LogitBlock& block);
  // Turns logits into their gradients of sum_i (scale_i nll_i + sum_scale_i log_sum_i), which are 0
  // in rows without a target.
  const char* (*differentiate)(const LogitBlock& block, void* logits,
                               const CrossEntropyGradient& out, void* workspace, void* stream);

  // Null in a program that was built without CUDA sources. `stream` is a cudaStream_t of the
  // current device.
  static const CrossEntropyKernels* for_cuda();
  // The definition, by loops in f64, for arrays in the CPU's memory. `stream` is ignored.
  static const CrossEntropyKernels& by_definition();
};

}  // namespace mneme::kernel
