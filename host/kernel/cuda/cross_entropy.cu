// Losses and gradients of a softmax over rows of logits on CUDA (cross_entropy.hpp has the
// equations). No allocation, no synchronisation, the same launches for the same shapes, the same
// bits for the same inputs.
//
//   Shapes         logits [rows,ids] with a row stride; results [rows]; the bias's gradient [ids]
//   Presumptions   blocks < 2^31
//   Decomposition  summary: a warp has a row of up to kShortRow ids, a block of threads a longer
//                  one. A thread takes 16 bytes of logits at a time; its sum is over its largest
//                  logit so far, so that one pass gives both. Gradient: a block has a tile of ids,
//                  16 bytes of every row a thread, and a stripe of rows, of which each warp takes
//                  every eighth. It sums up columns on its way; a second kernel adds the stripes
//   Shared memory  at most 8 KiB
//   Bytes          the logits once for a summary, twice for gradients, and kBlocks * 2 KiB for a
//                  bias's
#include <algorithm>
#include <cmath>
#include <cstdint>

#include "host/kernel/cross_entropy.hpp"
#include "mneme_kernels/cuda/launch.hpp"
#include "mneme_kernels/cuda/tiles.cuh"

namespace mneme::kernel {
namespace {

using namespace mneme::cuda;  // NOLINT

constexpr double kLog2E = 1.4426950408889634074;
constexpr int kWarp = 32;
constexpr int kWarps = kThreads / kWarp;
constexpr std::int64_t kShortRow = 2048;
constexpr std::int64_t kBlocks = 8192;  // of a gradient: several times as many as run at once
constexpr std::int64_t kStripe = 64;    // rows that a block of them has at least
constexpr std::int64_t kMostStripes = 1024;
constexpr std::int64_t kNone = INT64_MAX;  // no id yet

template <typename E>
constexpr int kEach = 16 / static_cast<int>(sizeof(E));

template <typename E>
struct alignas(16) Sixteen {
  E at[kEach<E>];
};

template <typename E>
struct Logits {
  LogitBlock block;
  E* data;
  bool is_aligned;  // every row to 16 bytes

  __device__ E* row(std::int64_t i) const { return data + i * block.stride; }
};

// The thread's logits from `id` on, -infinity behind the last.
template <typename T, typename E>
__device__ void read(const Logits<E>& logits, const E* row, std::int64_t id, T (&to)[kEach<E>]) {
  if (logits.is_aligned && id + kEach<E> <= logits.block.ids) {
    const Sixteen<E> all = *reinterpret_cast<const Sixteen<E>*>(row + id);
#pragma unroll
    for (int i = 0; i < kEach<E>; ++i) to[i] = static_cast<T>(widen(all.at[i]));
    return;
  }
#pragma unroll
  for (int i = 0; i < kEach<E>; ++i) {
    to[i] = id + i < logits.block.ids ? static_cast<T>(widen(row[id + i])) : T(-INFINITY);
  }
}

template <typename T, typename E>
__device__ void write(const Logits<E>& logits, E* row, std::int64_t id, const T (&from)[kEach<E>]) {
  if (logits.is_aligned && id + kEach<E> <= logits.block.ids) {
    Sixteen<E> all;
#pragma unroll
    for (int i = 0; i < kEach<E>; ++i) narrow(from[i], all.at[i]);
    *reinterpret_cast<Sixteen<E>*>(row + id) = all;
    return;
  }
#pragma unroll
  for (int i = 0; i < kEach<E>; ++i) {
    if (id + i < logits.block.ids) narrow(from[i], row[id + i]);
  }
}

template <typename T>
__device__ T exponential(T x) {
  return power_of_two(static_cast<T>(kLog2E) * x);
}

// What sums of exponentials are over, so that none overflows: the largest, unless it is infinite.
template <typename T>
__device__ T base_of(T most) {
  return most == T(INFINITY) || most == T(-INFINITY) ? T(0) : most;
}

// What is known of some of a row's logits.
template <typename T>
struct Part {
  T most;
  T sum;  // of exponentials, over base_of(most)
  std::int64_t best;
};

// Whether a logit comes before another one: a NaN counts as largest, of equal ones the first does.
template <typename T>
__device__ bool is_before(T logit, std::int64_t id, T other, std::int64_t other_id) {
  const bool is_nan = logit != logit;
  const bool is_other_nan = other != other;
  if (logit > other || (is_nan && !is_other_nan)) return true;
  return (logit == other || (is_nan && is_other_nan)) && id < other_id;
}

// With logits of ids behind those it has.
template <typename T, int each>
__device__ void add(const T (&logits)[each], std::int64_t id, Part<T>& part) {
  bool may_be_best = part.best == kNone;
#pragma unroll
  for (int i = 0; i < each; ++i) may_be_best |= !(logits[i] <= part.most);
  if (may_be_best) {
    const T before = part.most;
#pragma unroll
    for (int i = 0; i < each; ++i) {
      if (!is_before(logits[i], id + i, part.most, part.best)) continue;
      part.most = logits[i];
      part.best = id + i;
    }
    part.sum *= exponential(before - base_of(part.most));
  }
  const T base = base_of(part.most);
#pragma unroll
  for (int i = 0; i < each; ++i) part.sum += exponential(logits[i] - base);
}

template <typename T>
__device__ void join(Part<T>& part, const Part<T>& other) {
  const Part<T> before = part;
  if (is_before(other.most, other.best, part.most, part.best)) {
    part.most = other.most;
    part.best = other.best;
  }
  const T base = base_of(part.most);
  part.sum =
      before.sum * exponential(before.most - base) + other.sum * exponential(other.most - base);
}

// The first lane receives that of all of a warp's.
template <typename T>
__device__ void join_warp(Part<T>& part) {
  for (int step = kWarp / 2; step > 0; step /= 2) {
    Part<T> other;
    other.most = __shfl_xor_sync(0xFFFFFFFFU, part.most, step);
    other.sum = __shfl_xor_sync(0xFFFFFFFFU, part.sum, step);
    other.best = __shfl_xor_sync(0xFFFFFFFFU, part.best, step);
    join(part, other);
  }
}

// The logarithm of exp(a) + exp(b).
template <typename T>
__device__ T log_of_both(T a, T b) {
  const T base = base_of(a > b ? a : b);
  return base + log(exponential(a - base) + exponential(b - base));
}

template <typename T>
struct Summary {
  T* log_sum;
  T* own;
  T* nll;
  T* highest;
  std::int64_t* best;
};

template <typename T, typename E>
__device__ void finish(const Logits<E>& logits, const Summary<T>& out, std::int64_t row,
                       Part<T> part) {
  const LogitBlock& block = logits.block;
  const bool is_first = block.first == 0;
  const std::int64_t target = block.target[row];
  const std::int64_t place = target - block.first;
  T own = is_first ? T(0) : out.own[row];
  if (place >= 0 && place < block.ids) own = static_cast<T>(widen(logits.row(row)[place]));
  T log_sum = base_of(part.most) + log(part.sum);
  if (!is_first) log_sum = log_of_both(out.log_sum[row], log_sum);
  out.own[row] = own;
  out.log_sum[row] = log_sum;
  if (out.nll != nullptr) out.nll[row] = target < 0 ? T(0) : log_sum - own;
  if (out.best == nullptr) return;
  const std::int64_t best = block.first + part.best;
  if (!is_first && !is_before(part.most, best, out.highest[row], out.best[row])) return;
  out.highest[row] = part.most;
  out.best[row] = best;
}

// `lanes` threads a row.
template <typename T, typename E, int lanes>
__global__ void __launch_bounds__(kThreads) summarize_kernel(Logits<E> logits, Summary<T> out) {
  const int lane = static_cast<int>(threadIdx.x) % lanes;
  const std::int64_t row =
      static_cast<std::int64_t>(blockIdx.x) * (kThreads / lanes) + threadIdx.x / lanes;
  Part<T> part = {T(-INFINITY), T(0), kNone};
  if (row < logits.block.rows) {
    for (std::int64_t id = lane * kEach<E>; id < logits.block.ids; id += lanes * kEach<E>) {
      T own[kEach<E>];
      read(logits, logits.row(row), id, own);
      add(own, id, part);
    }
  }
  join_warp(part);
  if constexpr (lanes > kWarp) {
    __shared__ Part<T> parts[kWarps];
    if (threadIdx.x % kWarp == 0) parts[threadIdx.x / kWarp] = part;
    __syncthreads();
    for (int warp = 1; warp < kWarps && lane == 0; ++warp) join(part, parts[warp]);
  }
  if (lane == 0 && row < logits.block.rows) finish(logits, out, row, part);
}

template <typename T>
struct Gradient {
  const T* log_sum;
  const T* scale;
  std::int64_t scale_stride;
  const T* sum_scale;  // [rows]; null = 0
  T* sums;             // [stripes,ids], over a stripe's rows; null = not wanted
};

// Of the ids and rows of a problem.
struct Cut {
  std::int64_t tiles;    // of ids
  std::int64_t stripes;  // of rows
  std::int64_t stripe;   // rows of one
};

template <typename T, typename E>
__global__ void __launch_bounds__(kThreads)
    differentiate_kernel(Logits<E> logits, Gradient<T> out, Cut cut) {
  constexpr int kTileIds = kWarp * kEach<E>;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const std::int64_t stripe = blockIdx.x / cut.tiles;
  const std::int64_t first = blockIdx.x % cut.tiles * kTileIds;
  const std::int64_t id = first + lane * kEach<E>;
  const std::int64_t rows = logits.block.rows;
  const std::int64_t end = (stripe + 1) * cut.stripe < rows ? (stripe + 1) * cut.stripe : rows;
  T sums[kEach<E>] = {};
  for (std::int64_t row = stripe * cut.stripe + warp; row < end; row += kWarps) {
    if (id >= logits.block.ids) break;
    const std::int64_t target = logits.block.target[row];
    const std::int64_t place = target - logits.block.first - id;
    const T log_sum = out.log_sum[row];
    const T scale = out.scale[row * out.scale_stride];
    const T sum_scale = out.sum_scale == nullptr ? T(0) : out.sum_scale[row];
    T own[kEach<E>];
    read(logits, logits.row(row), id, own);
#pragma unroll
    for (int i = 0; i < kEach<E>; ++i) {
      const T share = exponential(own[i] - log_sum);
      const T gradient = (share - (place == i ? T(1) : T(0))) * scale + share * sum_scale;
      own[i] = target < 0 ? T(0) : gradient;
      sums[i] += own[i];
    }
    write(logits, logits.row(row), id, own);
  }
  if (out.sums == nullptr) return;
  __shared__ T of_warps[kWarps][kTileIds];
  for (int i = 0; i < kEach<E>; ++i) of_warps[warp][lane * kEach<E> + i] = sums[i];
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < kTileIds; i += kThreads) {
    T sum = T(0);
    for (int w = 0; w < kWarps; ++w) sum += of_warps[w][i];
    if (first + i < logits.block.ids) out.sums[stripe * logits.block.ids + first + i] = sum;
  }
}

// The stripes' sums, a warp every eighth of them; a block kWarp ids.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    add_stripes_kernel(const T* sums, T* to, std::int64_t ids, std::int64_t stripes) {
  __shared__ T of_warps[kWarps][kWarp];
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const std::int64_t id = static_cast<std::int64_t>(blockIdx.x) * kWarp + lane;
  T sum = T(0);
  for (std::int64_t s = warp; s < stripes && id < ids; s += kWarps) sum += sums[s * ids + id];
  of_warps[warp][lane] = sum;
  __syncthreads();
  if (warp > 0 || id >= ids) return;
  for (int w = 1; w < kWarps; ++w) sum += of_warps[w][lane];
  to[id] = sum;
}

std::int64_t bytes_of(Element element) {
  return element == Element::kF64 ? 8 : element == Element::kF32 ? 4 : 2;
}

Cut cut_of(const LogitBlock& block) {
  Cut cut = {};
  cut.tiles = tiles_of(block.ids * bytes_of(block.element), kWarp * 16);
  const std::int64_t most =
      std::clamp<std::int64_t>(tiles_of(block.rows, kStripe), 1, kMostStripes);
  cut.stripe = tiles_of(block.rows, std::clamp<std::int64_t>(kBlocks / cut.tiles, 1, most));
  cut.stripes = block.rows == 0 ? 1 : tiles_of(block.rows, cut.stripe);
  return cut;
}

template <typename E>
Logits<E> logits_of(const LogitBlock& block, const void* data) {
  const std::int64_t row = block.stride * static_cast<std::int64_t>(sizeof(E));
  return {block, static_cast<E*>(const_cast<void*>(data)),
          reinterpret_cast<std::uintptr_t>(data) % 16 == 0 && row % 16 == 0};
}

template <typename T, typename E>
cudaError_t launch_summarize(const LogitBlock& block, const void* data,
                             const CrossEntropySummary& to, cudaStream_t stream) {
  const Logits<E> logits = logits_of<E>(block, data);
  const Summary<T> out = {static_cast<T*>(to.log_sum), static_cast<T*>(to.own),
                          static_cast<T*>(to.nll), static_cast<T*>(to.highest), to.best};
  if (block.ids > kShortRow) {
    return launch(block.rows, kThreads, stream, summarize_kernel<T, E, kThreads>, logits, out);
  }
  return launch(tiles_of(block.rows, kWarps), kThreads, stream, summarize_kernel<T, E, kWarp>,
                logits, out);
}

template <typename T, typename E>
cudaError_t launch_differentiate(const LogitBlock& block, void* data,
                                 const CrossEntropyGradient& to, void* workspace,
                                 cudaStream_t stream) {
  const Cut cut = cut_of(block);
  T* const bias = static_cast<T*>(to.bias);
  T* const sums = bias == nullptr || cut.stripes == 1 ? bias : static_cast<T*>(workspace);
  const Gradient<T> out = {static_cast<const T*>(to.log_sum), static_cast<const T*>(to.scale),
                           to.scale_stride, static_cast<const T*>(to.sum_scale), sums};
  const cudaError_t status =
      launch(cut.tiles * cut.stripes, kThreads, stream, differentiate_kernel<T, E>,
             logits_of<E>(block, data), out, cut);
  if (status != cudaSuccess || sums == bias) return status;
  return launch(tiles_of(block.ids, kWarp), kThreads, stream, add_stripes_kernel<T>, sums, bias,
                block.ids, cut.stripes);
}

template <typename Run>
const char* with_element(Element element, const Run& run) {
  const cudaError_t status = element == Element::kF64   ? run(double{}, double{})
                             : element == Element::kF32 ? run(float{}, float{})
                                                        : run(float{}, __nv_bfloat16{});
  return status == cudaSuccess ? nullptr : cudaGetErrorString(status);
}

const char* summarize_block(const LogitBlock& block, const void* logits,
                            const CrossEntropySummary& out, void* stream) {
  return with_element(block.element, [&](auto sum, auto element) {
    return launch_summarize<decltype(sum), decltype(element)>(block, logits, out,
                                                              static_cast<cudaStream_t>(stream));
  });
}

std::uint64_t workspace_of(const LogitBlock& block) {
  const Cut cut = cut_of(block);
  if (cut.stripes == 1) return 0;
  return static_cast<std::uint64_t>(cut.stripes * block.ids) *
         (block.element == Element::kF64 ? 8 : 4);
}

const char* differentiate_block(const LogitBlock& block, void* logits,
                                const CrossEntropyGradient& out, void* workspace, void* stream) {
  return with_element(block.element, [&](auto sum, auto element) {
    return launch_differentiate<decltype(sum), decltype(element)>(
        block, logits, out, workspace, static_cast<cudaStream_t>(stream));
  });
}

}  // namespace

const CrossEntropyKernels* CrossEntropyKernels::for_cuda() {
  static constexpr CrossEntropyKernels all = {summarize_block, workspace_of, differentiate_block};
  return &all;
}

}  // namespace mneme::kernel
