// Pooling: groups of c rows to one row each, and back.
//
//   Equation       pooled[b][i] = sum_t rows[b][ic + t] / c, or their max; drows = dpooled / c, or
//                  all of it to the first of the largest
//   Shapes         rows, drows [B,m,D]; pooled, dpooled [B,m/c,D]
//   Presumptions   ceil(B * (m/c + 1) * D / 256) < 2^31
//   Decomposition  a thread has one column of one window, and all of its rows; backward, one more
//                  window a lane stands for the rows behind the last, which get zeros
//   Launches       one each way, which fills the result whole: no allocation, no synchronisation,
//                  the same launch for the same shapes, the same bits for the same inputs
//   Bytes          rows read and pooled written once; backward the rows, where the max asks for
//                  them, and dpooled read, drows written once
#include "kernels/pool.hpp"
#include "mneme_kernels/cuda/elements.cuh"
#include "mneme_kernels/cuda/launch.hpp"

namespace compressive {
namespace {

using namespace mneme::cuda;  // NOLINT

constexpr int kThreads = 256;

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

}  // namespace

void Pool::forward_cuda(const mneme::KernelCall& call) const {
  const PoolShape s = shape_of(call);
  const PoolBuffers buffers = buffers_of(call);
  check_buffers(call, {call.input(0), call.output(0)});
  check_launch(with_elements(s.element, [&](auto sum, auto element) {
    using E = decltype(element);
    return launch(tiles_of(s.lanes * s.windows() * s.width, kThreads), kThreads, stream_of(call),
                  pool_kernel<decltype(sum), E>, s, static_cast<const E*>(buffers.rows),
                  static_cast<E*>(buffers.pooled));
  }));
}

void Pool::backward_cuda(const mneme::KernelCall& call) const {
  const PoolShape s = shape_of(call);
  const PoolGradients gradients = gradients_of(call);
  if (gradients.rows_grad == nullptr) return;
  check_buffers(call, {call.input(0)});
  check_launch(with_elements(s.element, [&](auto sum, auto element) {
    using E = decltype(element);
    return launch(tiles_of(s.lanes * (s.windows() + 1) * s.width, kThreads), kThreads,
                  stream_of(call), pool_backward_kernel<decltype(sum), E>, s,
                  static_cast<const E*>(gradients.rows), static_cast<const E*>(gradients.arriving),
                  static_cast<E*>(gradients.rows_grad));
  }));
}

}  // namespace compressive
