// Products of tiles in shared memory, by blocks of kThreads threads: a thread's results are
// neighbouring rows, and columns 16 apart so that neighbouring threads read neighbouring columns.
#pragma once

#include <cstdint>

#include "mneme_kernels/cuda/elements.cuh"

namespace mneme {
inline namespace sdk_0_1 {
namespace cuda {

constexpr int kThreads = 256;
constexpr int kPanel = 64;  // columns of a block's results
constexpr int kChunk = 32;  // what a product sums over at a time, through shared memory

// Rows, `each` of a thread, and columns of the thread's results.
template <int each>
__device__ int patch_row(int i) {
  return static_cast<int>(threadIdx.x) / 16 * each + i;
}
__device__ inline int patch_column(int j) { return static_cast<int>(threadIdx.x) % 16 + 16 * j; }

__device__ inline float power_of_two(float x) { return exp2f(x); }
__device__ inline double power_of_two(double x) { return exp2(x); }

// Over the 16 threads that share rows, in a fixed order.
template <typename T>
__device__ T sum_of_row(T value) {
  for (int step = 8; step > 0; step /= 2) value += __shfl_xor_sync(0xFFFFFFFFU, value, step);
  return value;
}
template <typename T>
__device__ T max_of_row(T value) {
  for (int step = 8; step > 0; step /= 2) {
    const T other = __shfl_xor_sync(0xFFFFFFFFU, value, step);
    value = other > value ? other : value;
  }
  return value;
}

// to[column][r] = value(r, column) for kChunk columns of `size` rows, 0 from `columns` on. The odd
// stride keeps the stores apart.
template <int size, typename T, typename Value>
__device__ void fill_turned(T (*to)[size + 1], int64_t columns, const Value& value) {
  for (int i = static_cast<int>(threadIdx.x); i < size * kChunk; i += kThreads) {
    const int r = i / kChunk;
    const int j = i % kChunk;
    to[j][r] = j < columns ? value(r, j) : T(0);
  }
}
// to[r][column] = value(r, column) for kPanel columns of `size` rows, 0 from `columns` on.
template <typename T, typename Value>
__device__ void fill_rows(T (*to)[kPanel], int size, int64_t columns, const Value& value) {
  for (int i = static_cast<int>(threadIdx.x); i < size * kPanel; i += kThreads) {
    const int r = i / kPanel;
    const int j = i % kPanel;
    to[r][j] = j < columns ? value(r, j) : T(0);
  }
}

// The same of rows that lie `stride` apart; zeros from `count` rows on.
template <int size, typename T, typename E>
__device__ void load_turned(T (*to)[size + 1], const E* from, int64_t stride, int64_t count,
                            int64_t columns) {
  fill_turned<size>(to, columns, [&](int r, int j) {
    return r < count ? static_cast<T>(widen(from[r * stride + j])) : T(0);
  });
}
template <typename T, typename E>
__device__ void load_rows(T (*to)[kPanel], const E* from, int64_t stride, int64_t count,
                          int64_t columns) {
  fill_rows(to, kChunk, columns, [&](int r, int j) {
    return r < count ? static_cast<T>(widen(from[r * stride + j])) : T(0);
  });
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

}  // namespace cuda
}  // namespace sdk_0_1
}  // namespace mneme
