// What the reconstruction error's kernels share: shapes and pointers.
#pragma once

#include <cstdint>

#include "mneme_kernels/cuda/tiles.cuh"

namespace compressive::device {

using namespace mneme::cuda;  // NOLINT

constexpr int kQueries = 64;  // of a block
// Rows that are worked on together: twice as many bytes would not fit a block's shared memory.
template <typename T>
constexpr int kRows = sizeof(T) == 4 ? 64 : 32;

__device__ inline float logarithm_of_two(float x) { return log2f(x); }
__device__ inline double logarithm_of_two(double x) { return log2(x); }

struct DeviceShape {
  int64_t heads;     // H
  int64_t queries;   // T
  int64_t width;     // d
  int64_t old_rows;  // E
  int64_t new_rows;  // N
  int64_t tiles;     // of queries, ceil(T / kQueries)
  int64_t panels;    // ceil(d / kPanel)
  double scale;
};

template <typename T, typename E>
struct DevicePointers {
  const E* q;
  const E* k_old;
  const E* v_old;
  const E* k_new;
  const E* v_new;
  const int64_t* counts;
  T* error;
  T* k_grad;  // null without gradients, and the next three
  T* v_grad;
  T* change;       // [B,T,H,d] derivatives by the new attention
  T* normaliser;   // [B,H,T] log2 of the sum of 2^score over the new rows
  T* inner;        // [B,H,T,panels] sums over a panel of change times the new attention
  double* errors;  // [B,H,tiles,panels]
};

// Old and new rows that a lane has; none when there are none of either.
struct RowCounts {
  int64_t of_old;
  int64_t of_new;
};
__device__ inline RowCounts counts_of(const DeviceShape& s, const int64_t* counts, int64_t lane) {
  const int64_t of_old = counts[2 * lane] < s.old_rows ? counts[2 * lane] : s.old_rows;
  const int64_t of_new = counts[2 * lane + 1] < s.new_rows ? counts[2 * lane + 1] : s.new_rows;
  if (of_old <= 0 || of_new <= 0) return {0, 0};
  return {of_old, of_new};
}

}  // namespace compressive::device
