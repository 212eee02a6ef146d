// Pooling: groups of c rows to one row each, and back.
//
//   Equation       pooled[b][i] = sum_t rows[b][ic + t] / c, or their max; drows = dpooled / c, or
//                  all of it to the first of the largest
//   Shapes         rows, drows [B,m,D]; pooled, dpooled [B,m/c,D]
//   Presumptions   ceil(B * (m/c + 1) * D / 256) < 2^31
//   Decomposition  a thread has one column of one window, and all of its rows; backward, one more
//                  window a lane stands for the rows behind the last, which get zeros
//   Bytes          rows read and pooled written once; backward the rows, where the max asks for
//                  them, and dpooled read, drows written once
#include "cuda/pool.cuh"
#include "mneme/cuda/elements.cuh"

namespace compressive::cuda {
namespace {

using mneme::cuda::narrow;
using mneme::cuda::widen;

constexpr int kThreads = 256;
constexpr int64_t kMostBlocks = 2147483647;

__device__ int64_t windows_of(const PoolShape& s) { return s.rows / s.rate; }

// A column of one window: index / width is the window among `windows` of each lane.
struct Place {
  int64_t lane;
  int64_t window;
  int64_t column;
};

__device__ Place place_of(const PoolShape& s, int64_t index, int64_t windows) {
  const int64_t window = index / s.width;
  return {window / windows, window % windows, index % s.width};
}

__device__ int64_t first_row(const PoolShape& s, const Place& at) {
  return (at.lane * s.rows + at.window * s.rate) * s.width + at.column;
}

// The first of the largest rows of a column; a NaN is the largest.
template <typename T, typename E>
__device__ int64_t largest_row(const PoolShape& s, const E* rows, T& most) {
  int64_t largest = 0;
  most = widen(rows[0]);
  for (int64_t t = 1; t < s.rate; ++t) {
    const T value = widen(rows[t * s.width]);
    if (value <= most || most != most) continue;
    most = value;
    largest = t;
  }
  return largest;
}

template <typename T, typename E>
__global__ void __launch_bounds__(kThreads) pool_kernel(PoolShape s, const E* rows, E* pooled) {
  const int64_t index = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (index >= s.lanes * windows_of(s) * s.width) return;
  rows += first_row(s, place_of(s, index, windows_of(s)));
  T value = T(0);
  if (s.kind == PoolKind::kMax) {
    largest_row(s, rows, value);
  } else {
    for (int64_t t = 0; t < s.rate; ++t) value += widen(rows[t * s.width]);
    value /= static_cast<T>(s.rate);
  }
  narrow(value, pooled[index]);
}

template <typename T, typename E>
__global__ void __launch_bounds__(kThreads)
    pool_backward_kernel(PoolShape s, const E* rows, const E* arriving, E* grad) {
  const int64_t index = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  const int64_t windows = windows_of(s) + 1;
  if (index >= s.lanes * windows * s.width) return;
  const Place at = place_of(s, index, windows);
  grad += first_row(s, at);
  if (at.window == windows_of(s)) {
    for (int64_t t = 0; t < s.rows % s.rate; ++t) narrow(T(0), grad[t * s.width]);
    return;
  }
  const int64_t from = (at.lane * windows_of(s) + at.window) * s.width + at.column;
  const T value = arriving == nullptr ? T(0) : widen(arriving[from]);
  if (s.kind == PoolKind::kMean) {
    for (int64_t t = 0; t < s.rate; ++t) narrow(value / static_cast<T>(s.rate), grad[t * s.width]);
    return;
  }
  T most;
  const int64_t largest = largest_row(s, rows + first_row(s, at), most);
  for (int64_t t = 0; t < s.rate; ++t) narrow(t == largest ? value : T(0), grad[t * s.width]);
}

bool is_usable(const PoolShape& s) {
  return s.lanes >= 0 && s.rows >= 0 && s.width >= 0 && s.rate >= 1 &&
         (s.kind == PoolKind::kMean || s.kind == PoolKind::kMax);
}

// The kernel's blocks for so many threads; 0 when there are too many.
int64_t blocks_of(int64_t threads) {
  const int64_t blocks = (threads + kThreads - 1) / kThreads;
  return blocks > kMostBlocks ? 0 : blocks;
}

}  // namespace

cudaError_t launch_pool(const PoolShape& s, const PoolBuffers& buffers, cudaStream_t stream) {
  if (!is_usable(s)) return cudaErrorInvalidValue;
  const int64_t threads = s.lanes * s.windows() * s.width;
  if (threads == 0) return cudaSuccess;
  const int64_t blocks = blocks_of(threads);
  if (blocks == 0 || buffers.rows == nullptr || buffers.pooled == nullptr) {
    return cudaErrorInvalidValue;
  }
  return mneme::cuda::with_elements(s.element, [&](auto sum, auto element) {
    using E = decltype(element);
    pool_kernel<decltype(sum), E><<<static_cast<unsigned>(blocks), kThreads, 0, stream>>>(
        s, static_cast<const E*>(buffers.rows), static_cast<E*>(buffers.pooled));
    return cudaGetLastError();
  });
}

cudaError_t launch_pool_backward(const PoolShape& s, const PoolGradients& gradients,
                                 cudaStream_t stream) {
  if (!is_usable(s)) return cudaErrorInvalidValue;
  if (gradients.rows_grad == nullptr || s.lanes * s.rows * s.width == 0) return cudaSuccess;
  const int64_t blocks = blocks_of(s.lanes * (s.windows() + 1) * s.width);
  if (blocks == 0 || gradients.rows == nullptr) return cudaErrorInvalidValue;
  return mneme::cuda::with_elements(s.element, [&](auto sum, auto element) {
    using E = decltype(element);
    pool_backward_kernel<decltype(sum), E><<<static_cast<unsigned>(blocks), kThreads, 0, stream>>>(
        s, static_cast<const E*>(gradients.rows), static_cast<const E*>(gradients.arriving),
        static_cast<E*>(gradients.rows_grad));
    return cudaGetLastError();
  });
}

}  // namespace compressive::cuda
