// Queries that use the same functions next to each other, so that a block's functions are few.
//
//   Equation       key = (first step, last step) of [0,1] in 32 steps within the cutoff of the
//   widest
//                  function's v; order = a stable counting sort of a head's queries by key
//   Presumptions   T < 2^31
//   Decomposition  one warp a head: counts, their prefix sums, then 32 queries at a time, whose
//                  ranks within a bucket come from a warp match: the same order always
//   Shared memory  4 KiB of counts
//   Bytes          B * H * T * (two densities + 4); one square root a query
#pragma once

#include "kernels/cuda/densities.cuh"

namespace continuous_ltm::device {

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
