// What the reconstruction error's kernels share: shapes, pointers, tiles in shared memory and their
// products.
#pragma once

#include <cstdint>

#include "mneme/cuda/elements.cuh"
#include "reconstruction_args.hpp"

namespace compressive::cuda {

using mneme::cuda::widen;

constexpr int kThreads = 256;
constexpr int kQueries = 64;  // of a block
constexpr int kPanel = 64;    // columns of a block's results
constexpr int kChunk = 32;    // what a product sums over at a time, through shared memory
// Rows that are worked on together: twice as many bytes would not fit a block's shared memory.
template <typename T>
constexpr int kRows = sizeof(T) == 4 ? 64 : 32;

// A thread's results of a product are neighbouring rows, and columns 16 apart so that neighbouring
// threads read neighbouring columns.
template <int each>
__device__ int patch_row(int i) {
  return static_cast<int>(threadIdx.x) / 16 * each + i;
}
__device__ inline int patch_column(int j) { return static_cast<int>(threadIdx.x) % 16 + 16 * j; }

__device__ inline float power_of_two(float x) { return exp2f(x); }
__device__ inline double power_of_two(double x) { return exp2(x); }
__device__ inline float logarithm_of_two(float x) { return log2f(x); }
__device__ inline double logarithm_of_two(double x) { return log2(x); }

// Over the 16 threads that share rows, in a fixed order.
template <typename T>
__device__ T sum_of_row(T value) {
  for (int step = 8; step > 0; step /= 2) value += __shfl_xor_sync(0xFFFFFFFFU, value, step);
  return value;
}
template <typename T>
__device__ T most_of_row(T value) {
  for (int step = 8; step > 0; step /= 2) {
    const T other = __shfl_xor_sync(0xFFFFFFFFU, value, step);
    value = other > value ? other : value;
  }
  return value;
}

// sums[i][j] += sum_k left[k][row i] * right[k][column j] for k < kChunk.
template <int rows, int columns, int left_stride, int right_stride, typename T>
__device__ void multiply(const T (*left)[left_stride], const T (*right)[right_stride],
                         T (&sums)[rows][columns]) {
#pragma unroll 8
  for (int k = 0; k < kChunk; ++k) {
    T a[rows];
    T b[columns];
#pragma unroll
    for (int i = 0; i < rows; ++i) a[i] = left[k][patch_row<rows>(i)];
#pragma unroll
    for (int j = 0; j < columns; ++j) b[j] = right[k][patch_column(j)];
#pragma unroll
    for (int i = 0; i < rows; ++i) {
#pragma unroll
      for (int j = 0; j < columns; ++j) sums[i][j] += a[i] * b[j];
    }
  }
}

// kChunk columns of `size` rows that lie `stride` apart, turned: to[column][row]; zeros beyond
// `count` rows and `columns` columns. The odd stride keeps the stores apart.
template <int size, typename T, typename E>
__device__ void load_turned(T (*to)[size + 1], const E* from, int64_t stride, int64_t count,
                            int64_t columns) {
  for (int i = static_cast<int>(threadIdx.x); i < size * kChunk; i += kThreads) {
    const int r = i / kChunk;
    const int j = i % kChunk;
    to[j][r] = r < count && j < columns ? static_cast<T>(widen(from[r * stride + j])) : T(0);
  }
}

// kPanel columns of kChunk rows; zeros beyond `count` rows and `columns` columns.
template <typename T, typename E>
__device__ void load_rows(T (*to)[kPanel], const E* from, int64_t stride, int64_t count,
                          int64_t columns) {
  for (int i = static_cast<int>(threadIdx.x); i < kChunk * kPanel; i += kThreads) {
    const int r = i / kPanel;
    const int j = i % kPanel;
    to[r][j] = r < count && j < columns ? static_cast<T>(widen(from[r * stride + j])) : T(0);
  }
}

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

}  // namespace compressive::cuda
