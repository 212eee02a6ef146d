// What the CUDA kernels of the continuous memory share: the normal densities of a tile of queries,
// and the order of the queries.
#pragma once

#include <cstdint>

#include "basis_grid.hpp"
#include "mneme_kernels/cuda/launch.hpp"
#include "mneme_kernels/cuda/tiles.cuh"

namespace continuous_ltm::device {

using namespace mneme::cuda;  // NOLINT

constexpr int kTile = 64;  // queries, or functions, that a block's registers hold results for
constexpr int kPatch = 4;  // a thread's results are kPatch x kPatch
static_assert(kThreads * kPatch * kPatch == kTile * kPanel);

constexpr int64_t kMaxIndices = 2147483647;  // of queries and of functions

constexpr int kOrderLevels = 32;
constexpr int kBuckets = kOrderLevels * kOrderLevels;

// BasisGrid for the device.
struct DeviceGrid {
  int32_t centres;
  int32_t widths;
  double cutoff;
  double widest;
  double width[kMaxWidths];
};

// Whether the centres can be counted in an int32 and the widths fit into DeviceGrid::width.
inline bool is_usable(const BasisGrid& grid) {
  return grid.centres > 0 && grid.centres <= kMaxIndices && grid.widths > 0 &&
         grid.widths <= kMaxWidths;
}

inline DeviceGrid device_grid(const BasisGrid& grid, bool is_f64) {
  DeviceGrid out = {};
  out.centres = static_cast<int32_t>(grid.centres);
  out.widths = grid.widths;
  out.cutoff = grid.cutoff(is_f64);
  for (int32_t w = 0; w < grid.widths; ++w) {
    out.width[w] = grid.width[w];
    out.widest = grid.width[w] > out.widest ? grid.width[w] : out.widest;
  }
  return out;
}

// Every function of one width within a density's cutoff is among first .. last - 1.
struct Range {
  int32_t first;
  int32_t last;
};

// A NaN includes every function.
__device__ inline Range range_of(double mean, double half, const DeviceGrid& grid) {
  const double steps = grid.centres - 1;
  const double begin = (mean - half) * steps;
  const double end = (mean + half) * steps;
  Range range = {0, grid.centres};
  if (grid.cutoff == 0.0 || !(begin <= end)) return range;
  if (begin > 0.0) range.first = begin < steps ? static_cast<int32_t>(begin) : grid.centres - 1;
  if (end < steps) range.last = end > 0.0 ? static_cast<int32_t>(end) + 1 : 1;
  return range;
}

// Queries in shared memory, `count` of at most kTile, with their terms for one width sigma and
// v = sigma^2 + s2: N(mu; mu_c, v) = height * 2^(rate * (mu - mu_c)^2).
template <typename T>
struct Queries {
  int count;
  int32_t place[kTile];  // of the query among its head's
  T mu[kTile];
  T mu_low[kTile];  // mu + mu_low is the mean
  T variance[kTile];
  T inverse[kTile];  // 1 / v
  T rate[kTile];     // -log2(e) / (2 v)
  T height[kTile];   // 1 / sqrt(2 pi v)
  int32_t first;     // functions within the cutoff of any of the queries
  int32_t last;
};

// Fills mu, mu_low and variance of queries begin .. begin + size - 1 counted along `order`, by the
// block's first kTile threads. variance null reads as 0. Ends without a barrier.
template <typename T, typename Mean>
__device__ void load_queries(Queries<T>& q, const int32_t* order, const Mean* mu, const T* variance,
                             int64_t begin, int64_t queries, int size) {
  const int i = static_cast<int>(threadIdx.x);
  if (i == 0) q.count = static_cast<int>(queries - begin < size ? queries - begin : size);
  if (i >= kTile) return;
  const bool is_there = i < size && begin + i < queries;
  const int32_t place = is_there ? order[begin + i] : 0;
  const Mean mean = is_there ? mu[place] : Mean(0);
  q.place[i] = place;
  q.mu[i] = static_cast<T>(mean);
  q.mu_low[i] = static_cast<T>(mean - static_cast<Mean>(q.mu[i]));
  q.variance[i] = !is_there ? T(1) : variance == nullptr ? T(0) : variance[place];
}

// The terms for one width and the joint range, by all threads; begins and ends with a barrier.
template <typename T>
__device__ void set_width(Queries<T>& q, const DeviceGrid& grid, int32_t w) {
  __syncthreads();
  if (threadIdx.x == 0) {
    q.first = grid.centres;
    q.last = 0;
  }
  __syncthreads();
  const int i = static_cast<int>(threadIdx.x);
  if (i < kTile) {
    const T v = q.variance[i] + static_cast<T>(grid.width[w] * grid.width[w]);
    const T inverse = T(1) / v;
    q.inverse[i] = inverse;
    q.rate[i] = inverse * static_cast<T>(-kHalfLog2E);
    // A mean that is not finite makes a NaN here as well.
    q.height[i] =
        i < q.count ? sqrt(inverse * static_cast<T>(kInverseTwoPi)) + (q.mu[i] - q.mu[i]) : T(0);
    if (i < q.count) {
      const Range range = range_of(q.mu[i], grid.cutoff * static_cast<double>(sqrt(v)), grid);
      atomicMin(&q.first, range.first);  // of integers: the order does not matter
      atomicMax(&q.last, range.last);
    }
  }
  __syncthreads();
}

// Centres of a block of functions as sums of two numbers: mu - high is exact near the centre.
template <typename T>
struct Centres {
  T high[kTile];
  T low[kTile];
};

// Centres first .. first + size - 1 by the block's first `size` threads; ends without a barrier.
template <typename T>
__device__ void load_centres(Centres<T>& centres, const DeviceGrid& grid, int32_t first, int size) {
  const int i = static_cast<int>(threadIdx.x);
  if (i >= size) return;
  const double place = grid.centres > 1 ? static_cast<double>(first + i) / (grid.centres - 1) : 0.0;
  centres.high[i] = static_cast<T>(place);
  centres.low[i] = static_cast<T>(place - static_cast<double>(centres.high[i]));
}

template <typename T>
__device__ T distance_of(const Queries<T>& q, int i, const Centres<T>& centres, int c) {
  return (q.mu[i] - centres.high[c]) + (q.mu_low[i] - centres.low[c]);
}

template <typename T>
__device__ T weight_of(const Queries<T>& q, int i, T distance) {
  return power_of_two(distance * distance * q.rate[i]) * q.height[i];
}

// The order of the queries: those that use the same functions stand next to each other, so that a
// block's functions are few.
//
//   Equation       key = (first step, last step) of [0,1] in 32 steps within the cutoff of the
//                  widest function's v; order = a stable counting sort of a head's queries by key
//   Requires       T < 2^31
//   Decomposition  one warp per head: counts, their prefix sums, then 32 queries at a time, whose
//                  ranks within a bucket come from a warp match: the same order always
//   Shared memory  4 KiB of counts
//   Bytes          B * H * T * (two densities + 4); one square root a query

__device__ inline int level_of(double place) {  // NaN to 0
  const double step = place * kOrderLevels;
  return step > 0.0 ? static_cast<int>(step < kOrderLevels - 1 ? step : kOrderLevels - 1) : 0;
}

template <typename T, typename Mean>
__device__ int bucket_of(const DeviceGrid& grid, const Mean* mu, const T* variance, int64_t i) {
  if (grid.cutoff == 0.0) return 0;
  const double s2 = variance == nullptr ? 0.0 : static_cast<double>(variance[i]);
  const double half = grid.cutoff * sqrt(s2 + grid.widest * grid.widest);
  const double mean = static_cast<double>(mu[i]);
  return level_of(mean - half) * kOrderLevels + level_of(mean + half);
}

// Counts to starts, by one warp.
__device__ inline void sum_up(int32_t* counts) {
  constexpr int kEach = kBuckets / 32;
  const int lane = static_cast<int>(threadIdx.x);
  int32_t own = 0;
  for (int k = 0; k < kEach; ++k) own += counts[lane * kEach + k];
  int32_t before = own;
  for (int step = 1; step < 32; step *= 2) {
    const int32_t other = __shfl_up_sync(0xFFFFFFFFU, before, step);
    if (lane >= step) before += other;
  }
  before -= own;
  for (int k = 0; k < kEach; ++k) {
    const int32_t count = counts[lane * kEach + k];
    counts[lane * kEach + k] = before;
    before += count;
  }
}

template <typename T, typename Mean>
__global__ void __launch_bounds__(32) order_kernel(DeviceGrid grid, int64_t queries, const Mean* mu,
                                                   const T* variance, int32_t* order) {
  __shared__ int32_t starts[kBuckets];
  const int lane = static_cast<int>(threadIdx.x);
  const int64_t head = static_cast<int64_t>(blockIdx.x) * queries;
  mu += head;
  variance = variance == nullptr ? nullptr : variance + head;
  for (int k = lane; k < kBuckets; k += 32) starts[k] = 0;
  __syncwarp();
  for (int64_t i = lane; i < queries; i += 32) {
    atomicAdd(&starts[bucket_of(grid, mu, variance, i)], 1);
  }
  __syncwarp();
  sum_up(starts);
  __syncwarp();
  for (int64_t begin = 0; begin < queries; begin += 32) {
    const int64_t i = begin + lane;
    // A lane without a query is in a bucket of its own.
    const int bucket = i < queries ? bucket_of(grid, mu, variance, i) : kBuckets + lane;
    const unsigned same = __match_any_sync(0xFFFFFFFFU, bucket);
    const int rank = __popc(same & ((1U << lane) - 1U));
    const int32_t start = i < queries ? starts[bucket] : 0;
    if (i < queries) order[head + start + rank] = static_cast<int32_t>(i);
    __syncwarp();
    if (i < queries && rank == 0) starts[bucket] = start + __popc(same);
    __syncwarp();
  }
}

}  // namespace continuous_ltm::device
