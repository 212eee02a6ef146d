// Dropout, residual sum and norm, and rotary turns, on CUDA (rows.hpp has the equations). One pass
// over the rows, in the backward pass of sums a second kernel for the gradients of parameters. No
// allocation, no synchronisation, the same launches for the same shapes, the same bits for the same
// inputs.
//
//   Shapes         h, x, y, out [rows,width]; mean and scale [rows]; of turns x, out [sizes,width]
//   Presumptions   width <= kMostRowWidth where there is a norm; blocks < 2^31, of turns threads too
//   Decomposition  a thread has 8 columns, and a block the width, of one row or, in the backward
//                  pass, of the rows of a strip one after another, with the strip's sums of its
//                  columns in registers. The variance is that of deviations from the mean. Without
//                  a norm a block has up to 4,096 columns. Of turns a thread has 8 pairs of a head
//   Shared memory  128 bytes (f64: 256); of the sums over strips 2 KiB (f64: 4 KiB); of turns none
//   Bytes          each input is read once and each result written once; of sums, 8 (f64: 16) a
//                  strip and column. Heads of one place read the same cosines and sines
#include <cstdint>

#include "host/kernel/cuda/rows.cuh"

namespace mneme::kernel {
namespace rows {

constexpr int kTileColumns = kMostThreads * kGroup;
static_assert(kTileColumns == kMostRowWidth);

struct SumTask {
  SumRows a;
  std::int64_t tiles;
  Strips strips;
};

// A group of y.
template <typename S>
__device__ void load_sum(const SumRows& a, std::int64_t row, std::int64_t column, int count,
                         S (&y)[kGroup]) {
  const std::int64_t first = row * a.width + column;
  load(a.h, a.residual, first, count, y);
  if (a.x != nullptr) {
    S x[kGroup];
    S bias[kGroup];
    load(a.x, a.element, first, count, x);
    load_sums(a.bias, column, count, bias);
#pragma unroll
    for (int i = 0; i < kGroup; ++i) x[i] += bias[i];
    drop(a.dropout, first, x);
#pragma unroll
    for (int i = 0; i < kGroup; ++i) y[i] += x[i];
  }
  round_to(a.residual, y);
}

// Of rows of which each thread of the block has a group.
template <typename S>
struct Statistics {
  S mean;
  S scale;
};

template <typename S>
__device__ Statistics<S> statistics_of(const SumRows& a, int count, const S (&y)[kGroup]) {
  const S width = static_cast<S>(a.width);
  S total[1] = {S(0)};
  if (!a.is_rms) {
#pragma unroll
    for (int i = 0; i < kGroup; ++i) total[0] += y[i];  // 0 behind the end
    sum_over_block(total);
  }
  const S mean = total[0] / width;
  total[0] = S(0);
#pragma unroll
  for (int i = 0; i < kGroup; ++i) total[0] += i < count ? (y[i] - mean) * (y[i] - mean) : S(0);
  sum_over_block(total);
  return {mean, S(1) / square_root(total[0] / width + static_cast<S>(a.epsilon))};
}

template <typename S>
__global__ void __launch_bounds__(kMostThreads) add_kernel(SumTask t, SumResults r) {
  const SumRows& a = t.a;
  const std::int64_t row = static_cast<std::int64_t>(blockIdx.x) / t.tiles;
  const std::int64_t tile = static_cast<std::int64_t>(blockIdx.x) % t.tiles;
  const std::int64_t column = tile * kTileColumns + static_cast<std::int64_t>(threadIdx.x) * kGroup;
  const int count = entries_of_group(a.width, column);
  S y[kGroup];
  load_sum(a, row, column, count, y);
  store(r.y, a.residual, row * a.width + column, count, y);
  if (a.weight == nullptr) return;
  const Statistics<S> s = statistics_of(a, count, y);
  if (threadIdx.x == 0 && r.mean != nullptr) static_cast<S*>(r.mean)[row] = s.mean;
  if (threadIdx.x == 0 && r.scale != nullptr) static_cast<S*>(r.scale)[row] = s.scale;
  S weight[kGroup];
  S shift[kGroup];
  load_sums(a.weight, column, count, weight);
  load_sums(a.shift, column, count, shift);
#pragma unroll
  for (int i = 0; i < kGroup; ++i) y[i] = (y[i] - s.mean) * s.scale * weight[i] + shift[i];
  store(r.out, a.result, row * a.width + column, count, y);
}

// What a thread sums over the rows of a strip.
template <typename S>
struct ParameterSums {
  S weight[kGroup] = {};
  S shift[kGroup] = {};
  S bias[kGroup] = {};
};

// grad += what arrives through the norm.
template <typename S>
__device__ void add_through_norm(const SumRows& a, const SumGradients& g, std::int64_t row,
                                 std::int64_t column, int count, const S (&weight)[kGroup],
                                 S (&grad)[kGroup], ParameterSums<S>& sums) {
  const std::int64_t first = row * a.width + column;
  const S mean = a.is_rms ? S(0) : static_cast<const S*>(g.kept.mean)[row];
  const S scale = static_cast<const S*>(g.kept.scale)[row];
  S normal[kGroup];
  S of_normal[kGroup];
  load(g.kept.y, a.residual, first, count, normal);
  load(g.out, a.result, first, count, of_normal);
  S totals[2] = {S(0), S(0)};
#pragma unroll
  for (int i = 0; i < kGroup; ++i) {
    normal[i] = (normal[i] - mean) * scale;
    sums.weight[i] += of_normal[i] * normal[i];
    sums.shift[i] += of_normal[i];
    of_normal[i] *= weight[i];
    totals[0] += of_normal[i];
    totals[1] += of_normal[i] * normal[i];
  }
  sum_over_block(totals);
  const S width = static_cast<S>(a.width);
  const S level = a.is_rms ? S(0) : totals[0] / width;
  const S along = totals[1] / width;
#pragma unroll
  for (int i = 0; i < kGroup; ++i) grad[i] += (of_normal[i] - level - normal[i] * along) * scale;
}

template <typename S>
__global__ void __launch_bounds__(kMostThreads)
    add_backward_kernel(SumTask t, SumGradients g, S* to) {
  const SumRows& a = t.a;
  const std::int64_t strip = static_cast<std::int64_t>(blockIdx.x) / t.tiles;
  const std::int64_t tile = static_cast<std::int64_t>(blockIdx.x) % t.tiles;
  const std::int64_t column = tile * kTileColumns + static_cast<std::int64_t>(threadIdx.x) * kGroup;
  const int count = entries_of_group(a.width, column);
  ParameterSums<S> sums;
  S weight[kGroup];
  load_sums(a.weight, column, count, weight);
  const std::int64_t end = end_of_strip(t.strips, strip, a.rows);
  for (std::int64_t row = strip * t.strips.rows; row < end; ++row) {
    const std::int64_t first = row * a.width + column;
    S grad[kGroup];
    load(g.y, a.residual, first, count, grad);
    if (g.out != nullptr) add_through_norm(a, g, row, column, count, weight, grad, sums);
    store(g.h, a.residual, first, count, grad);
    if (g.x == nullptr && g.bias == nullptr) continue;
    drop(a.dropout, first, grad);
    store(g.x, a.element, first, count, grad);
#pragma unroll
    for (int i = 0; i < kGroup; ++i) sums.bias[i] += grad[i];
  }
  if (to == nullptr) return;
  to += strip * 3 * a.width + column;
  if (g.weight != nullptr) store_to(to, count, sums.weight);
  if (g.shift != nullptr) store_to(to + a.width, count, sums.shift);
  if (g.bias != nullptr) store_to(to + 2 * a.width, count, sums.bias);
}

SumTask task_of(const SumRows& a) {
  SumTask t = {a, tiles_of(a.width, kTileColumns), {}};
  t.strips = strips_of(a.rows, t.tiles);
  return t;
}

const char* add(const SumRows& a, const SumResults& r, void* stream) {
  if (a.width == 0) return nullptr;
  const SumTask t = task_of(a);
  if (a.weight != nullptr && t.tiles > 1) return message_of(cudaErrorInvalidValue);
  const auto kernel = a.residual == Element::kF64 ? add_kernel<double> : add_kernel<float>;
  return message_of(launch(a.rows * t.tiles, threads_of(a.width, kMostThreads),
                           static_cast<cudaStream_t>(stream), kernel, t, r));
}

template <typename S>
cudaError_t launch_add_backward(const SumTask& t, const SumGradients& g, void* workspace,
                                cudaStream_t stream) {
  const bool has_sums = g.weight != nullptr || g.shift != nullptr || g.bias != nullptr;
  S* const sums = has_sums ? static_cast<S*>(workspace) : nullptr;
  const std::int64_t width = t.a.width;
  const cudaError_t status = launch(t.tiles * t.strips.count, threads_of(width, kMostThreads),
                                    stream, add_backward_kernel<S>, t, g, sums);
  if (status != cudaSuccess || !has_sums) return status;
  return launch_sum_strips<S>({sums, t.strips.count, 3 * width, width, {g.weight, g.shift, g.bias}},
                              stream);
}

const char* add_backward(const SumRows& a, const SumGradients& g, void* workspace, void* stream) {
  if (a.width == 0) return nullptr;
  const SumTask t = task_of(a);
  if (g.out != nullptr && t.tiles > 1) return message_of(cudaErrorInvalidValue);
  const auto launch_as =
      a.residual == Element::kF64 ? launch_add_backward<double> : launch_add_backward<float>;
  return message_of(launch_as(t, g, workspace, static_cast<cudaStream_t>(stream)));
}

constexpr int kTurnThreads = 256;

struct TurnTask {
  TurnRows a;
  std::int64_t groups;  // of a head
  std::int64_t threads;
};

// Places have 32 bits, so that finding them costs little beside what is read and written.
template <typename S>
__global__ void __launch_bounds__(kTurnThreads) turn_kernel(TurnTask t, void* out) {
  const TurnRows& a = t.a;
  const unsigned own = static_cast<unsigned>(blockIdx.x) * kTurnThreads + threadIdx.x;
  if (own >= static_cast<unsigned>(t.threads)) return;
  const unsigned groups = static_cast<unsigned>(t.groups);
  const unsigned inner = static_cast<unsigned>(a.sizes[2]);
  const unsigned middle = static_cast<unsigned>(a.sizes[1]);
  const unsigned head = own / groups;
  const unsigned rest = head / inner;
  const std::int64_t place[3] = {rest / middle, rest % middle, head % inner};
  const std::int64_t column = static_cast<std::int64_t>(own % groups) * kGroup;
  const auto first_of = [&](const std::int64_t(&strides)[3]) {
    return place[0] * strides[0] + place[1] * strides[1] + place[2] * strides[2] + column;
  };
  const std::int64_t half = a.width / 2;
  const int count = entries_of_group(half, column);
  const std::int64_t x = first_of(a.x_strides);
  const std::int64_t angles = first_of(a.angle_strides);
  S first[kGroup];
  S second[kGroup];
  S cos[kGroup];
  S sin[kGroup];
  load(a.x, a.element, x, count, first);
  load(a.x, a.element, x + half, count, second);
  load(a.cos, a.element, angles, count, cos);
  load(a.sin, a.element, angles, count, sin);
#pragma unroll
  for (int i = 0; i < kGroup; ++i) {
    const S sine = a.is_back ? -sin[i] : sin[i];
    const S turned = first[i] * cos[i] - second[i] * sine;
    second[i] = second[i] * cos[i] + first[i] * sine;
    first[i] = turned;
  }
  const std::int64_t to = first_of(a.out_strides);
  store(out, a.element, to, count, first);
  store(out, a.element, to + half, count, second);
}

const char* turn(const TurnRows& a, void* out, void* stream) {
  const std::int64_t groups = tiles_of(a.width / 2, kGroup);
  const TurnTask t = {a, groups, a.sizes[0] * a.sizes[1] * a.sizes[2] * groups};
  if (t.threads > kMaxBlocks) return message_of(cudaErrorInvalidValue);
  const auto kernel = a.element == Element::kF64 ? turn_kernel<double> : turn_kernel<float>;
  return message_of(launch(tiles_of(t.threads, kTurnThreads), kTurnThreads,
                           static_cast<cudaStream_t>(stream), kernel, t, out));
}

// Of any width: most strips there are where a row is one tile.
std::uint64_t workspace(std::int64_t rows, std::int64_t columns, Element element) {
  const std::int64_t numbers = strips_of(rows, 1).count * columns;
  return static_cast<std::uint64_t>(numbers) * (element == Element::kF64 ? 8 : 4);
}

}  // namespace rows

const RowKernels* cuda_row_kernels() {
  static constexpr RowKernels kKernels = {
      rows::workspace, rows::activate, rows::activate_backward, rows::add, rows::add_backward,
      rows::mask,      rows::turn};
  return &kKernels;
}

}  // namespace mneme::kernel
