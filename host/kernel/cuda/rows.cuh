// What the kernels of rows.hpp on CUDA share: groups of neighbouring entries, dropout masks, sums.
#pragma once

#include <cstdint>
#include <cstring>

#include "host/kernel/cuda/kept_words.cuh"
#include "host/kernel/rows.hpp"
#include "mneme_kernels/cuda/elements.cuh"
#include "mneme_kernels/cuda/launch.hpp"

namespace mneme::kernel::rows {

using namespace mneme::cuda;  // NOLINT

constexpr int kGroup = 8;  // entries of a row that a thread takes together
constexpr int kWarpThreads = 32;
constexpr int kMostThreads = 512;
constexpr int kMostWarps = kMostThreads / kWarpThreads;

__device__ inline float exponential(float x) { return expf(x); }
__device__ inline double exponential(double x) { return exp(x); }
__device__ inline float error_function(float x) { return erff(x); }
__device__ inline double error_function(double x) { return erf(x); }
__device__ inline float hyperbolic_tangent(float x) { return tanhf(x); }
__device__ inline double hyperbolic_tangent(double x) { return tanh(x); }
__device__ inline float square_root(float x) { return sqrtf(x); }
__device__ inline double square_root(double x) { return sqrt(x); }

// 16 bytes, read and written by one access.
template <typename E>
struct alignas(16) Packed {
  E at[16 / sizeof(E)];
};
template <typename E>
__device__ Packed<E> read_pack(const E* from) {
  return *reinterpret_cast<const Packed<E>*>(from);
}
template <typename E>
__device__ void write_pack(const Packed<E>& pack, E* to) {
  if constexpr (sizeof(E) == 2) {  // nvcc makes eight stores of a structure
    std::uint64_t halves[2] = {0, 0};
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      std::uint16_t bits;
      memcpy(&bits, &pack.at[i], sizeof(bits));
      halves[i / 4] |= std::uint64_t{bits} << (16 * (i % 4));
    }
    *reinterpret_cast<unsigned __int128*>(to) =
        static_cast<unsigned __int128>(halves[1]) << 64 | halves[0];
  } else {
    *reinterpret_cast<Packed<E>*>(to) = pack;
  }
}

__device__ inline bool is_aligned(const void* at) {
  return reinterpret_cast<std::uintptr_t>(at) % 16 == 0;
}

// Of a group's entries, from here; 0 behind the end of the row.
__device__ inline int entries_of_group(std::int64_t width, std::int64_t column) {
  const std::int64_t left = width - column;
  return left >= kGroup ? kGroup : left > 0 ? static_cast<int>(left) : 0;
}

template <typename E, typename S>
__device__ void load_from(const E* from, int count, S (&to)[kGroup]) {
  constexpr int kPack = 16 / sizeof(E);
  if (count == kGroup && is_aligned(from)) {
#pragma unroll
    for (int first = 0; first < kGroup; first += kPack) {
      const Packed<E> pack = read_pack(from + first);
#pragma unroll
      for (int i = 0; i < kPack; ++i) to[first + i] = static_cast<S>(widen(pack.at[i]));
    }
    return;
  }
#pragma unroll
  for (int i = 0; i < kGroup; ++i) to[i] = i < count ? static_cast<S>(widen(from[i])) : S(0);
}

template <typename E, typename S>
__device__ void store_to(E* to, int count, const S (&from)[kGroup]) {
  constexpr int kPack = 16 / sizeof(E);
  if (count == kGroup && is_aligned(to)) {
#pragma unroll
    for (int first = 0; first < kGroup; first += kPack) {
      Packed<E> pack;
#pragma unroll
      for (int i = 0; i < kPack; ++i) narrow(from[first + i], pack.at[i]);
      write_pack(pack, to + first);
    }
    return;
  }
#pragma unroll
  for (int i = 0; i < kGroup; ++i) {
    if (i < count) narrow(from[i], to[i]);
  }
}

// body(E{}) for the type of an element whose sums are in S.
template <typename S, typename Body>
__device__ void with_type(Element element, const Body& body) {
  if constexpr (sizeof(S) == 8) {
    body(double{});
  } else if (element == Element::kBF16) {
    body(__nv_bfloat16{});
  } else {
    body(float{});
  }
}

// Entries `first` and the next `count` - 1 of an array, zeros where there is none.
template <typename S>
__device__ void load(const void* from, Element element, std::int64_t first, int count,
                     S (&to)[kGroup]) {
  if (from == nullptr) count = 0;
  with_type<S>(element, [&](auto type) {
    load_from(count == 0 ? nullptr : static_cast<const decltype(type)*>(from) + first, count, to);
  });
}
// Of parameters and statistics.
template <typename S>
__device__ void load_sums(const void* from, std::int64_t first, int count, S (&to)[kGroup]) {
  if (from == nullptr) count = 0;
  load_from(count == 0 ? nullptr : static_cast<const S*>(from) + first, count, to);
}
template <typename S>
__device__ void store(void* to, Element element, std::int64_t first, int count,
                      const S (&from)[kGroup]) {
  if (to == nullptr) return;
  with_type<S>(element,
               [&](auto type) { store_to(static_cast<decltype(type)*>(to) + first, count, from); });
}
// As they are after store() and load().
template <typename S>
__device__ void round_to(Element element, S (&values)[kGroup]) {
  if constexpr (sizeof(S) == 4) {
    if (element != Element::kBF16) return;
#pragma unroll
    for (int i = 0; i < kGroup; ++i) {
      __nv_bfloat16 narrowed;
      narrow(values[i], narrowed);
      values[i] = widen(narrowed);
    }
  }
}

// Dropout of a tensor's entries from `first` on.
template <typename S>
__device__ void drop(const Dropout& d, std::int64_t first, S (&values)[kGroup]) {
  if (!d.is_on) return;
  const unsigned kept = kept_words<kGroup>(d, d.first + static_cast<std::uint64_t>(first));
  const S factor = static_cast<S>(d.factor);
#pragma unroll
  for (int i = 0; i < kGroup; ++i) values[i] = (kept >> i & 1U) != 0 ? values[i] * factor : S(0);
}

// Each of `values` summed over the block's threads, whole warps, in a fixed order.
template <int count, typename S>
__device__ void sum_over_block(S (&values)[count]) {
  __shared__ S sums[count][kMostWarps];
  const int warp = static_cast<int>(threadIdx.x) / kWarpThreads;
  const int warps = static_cast<int>(blockDim.x) / kWarpThreads;
#pragma unroll
  for (int i = 0; i < count; ++i) {
#pragma unroll
    for (int step = kWarpThreads / 2; step > 0; step /= 2) {
      values[i] += __shfl_xor_sync(0xFFFFFFFFU, values[i], step);
    }
    if (threadIdx.x % kWarpThreads == 0) sums[i][warp] = values[i];
  }
  __syncthreads();
#pragma unroll
  for (int i = 0; i < count; ++i) {
    values[i] = S(0);
    for (int w = 0; w < warps; ++w) values[i] += sums[i][w];
  }
  __syncthreads();
}

// Rows are divided into strips, each with sums of its own for every parameter.
struct Strips {
  std::int64_t count = 1;
  std::int64_t rows = 1;  // of each, but for the last
};

// For blocks of which each has a strip and a tile of the columns. Of the shape alone.
inline Strips strips_of(std::int64_t rows, std::int64_t tiles) {
  constexpr std::int64_t kBlocks = 1024;  // that keep a large device busy
  Strips s;
  const std::int64_t wanted = tiles >= kBlocks ? 1 : kBlocks / tiles;
  s.rows = rows <= wanted ? 1 : tiles_of(rows, wanted);
  s.count = tiles_of(rows, s.rows);
  return s;
}

__device__ inline std::int64_t end_of_strip(const Strips& s, std::int64_t strip,
                                            std::int64_t rows) {
  const std::int64_t end = (strip + 1) * s.rows;
  return end < rows ? end : rows;
}

constexpr int kSumColumns = 32;
constexpr int kSumParts = 16;

// The sums over strips [strips,columns] of parameters that have `width` columns each.
template <typename S>
struct StripSums {
  const S* sums;
  std::int64_t strips;
  std::int64_t columns;
  std::int64_t width;
  void* to[3];  // null = not wanted, and not in `sums`
};

template <typename S>
__global__ void __launch_bounds__(kSumColumns* kSumParts) sum_strips_kernel(StripSums<S> a) {
  __shared__ S parts[kSumParts][kSumColumns];
  const int own = static_cast<int>(threadIdx.x) % kSumColumns;
  const int part = static_cast<int>(threadIdx.x) / kSumColumns;
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.x) * kSumColumns + own;
  S* const to = column < a.columns ? static_cast<S*>(a.to[column / a.width]) : nullptr;
  S sum = S(0);
  if (to != nullptr) {
    for (std::int64_t strip = part; strip < a.strips; strip += kSumParts) {
      sum += a.sums[strip * a.columns + column];
    }
  }
  parts[part][own] = sum;
  __syncthreads();
  if (part != 0 || to == nullptr) return;
  for (int i = 1; i < kSumParts; ++i) sum += parts[i][own];
  to[column % a.width] = sum;
}

template <typename S>
cudaError_t launch_sum_strips(const StripSums<S>& sums, cudaStream_t stream) {
  return launch(tiles_of(sums.columns, kSumColumns), kSumColumns * kSumParts, stream,
                sum_strips_kernel<S>, sums);
}

inline const char* message_of(cudaError_t status) {
  return status == cudaSuccess ? nullptr : cudaGetErrorString(status);
}

// As many threads as a row of groups has, whole warps.
inline int threads_of(std::int64_t width, int most) {
  const std::int64_t groups = tiles_of(width, kGroup);
  if (groups >= most) return most;
  return static_cast<int>(tiles_of(groups, kWarpThreads)) * kWarpThreads;
}

// Members of RowKernels (activation.cu).
const char* activate(const ActivationRows& a, void* out, void* stream);
const char* activate_backward(const ActivationRows& a, const ActivationGradients& g,
                              void* workspace, void* stream);
const char* mask(const MaskRows& m, void* stream);

}  // namespace mneme::kernel::rows
