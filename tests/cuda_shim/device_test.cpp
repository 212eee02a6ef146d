// The device of the shim itself: what a kernel sees, and what of a wrong kernel is seen.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <numeric>
#include <vector>

#include "mneme_kernels/cuda/launch.hpp"

namespace mneme::cuda_shim {
namespace {

using cuda::launch;

constexpr int kThreads = 96;  // three warps

template <typename... Parameters, typename... Arguments>
void run(int64_t blocks, int threads, void (*kernel)(Parameters...),
         const Arguments&... arguments) {
  ASSERT_EQ(launch(blocks, threads, nullptr, kernel, arguments...), cudaSuccess);
}

// Every thread adds one at its place: [z][y][x] of the grid's blocks, then of their threads.
__global__ void count_kernel(int* counts) {
  const unsigned block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  const unsigned thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  ++counts[block * blockDim.x * blockDim.y * blockDim.z + thread];
}

TEST(CudaShim, RunsEveryThreadOfEveryBlockOnce) {
  const dim3 grid(3, 2, 2), block(5, 3, 4);
  std::vector<int> counts(std::size_t{3} * 2 * 2 * 5 * 3 * 4);
  ASSERT_EQ(launch(grid, block, nullptr, count_kernel, counts.data()), cudaSuccess);
  EXPECT_THAT(counts, testing::Each(1));
}

TEST(CudaShim, RefusesLaunchesThatADeviceRefuses) {
  int count = 0;
  EXPECT_EQ(launch(1, 1025, nullptr, count_kernel, &count), cudaErrorInvalidConfiguration);
  EXPECT_EQ(launch(dim3(1, 65536), dim3(1), nullptr, count_kernel, &count),
            cudaErrorInvalidConfiguration);
  EXPECT_EQ(launch(cuda::kMaxBlocks + 1, 1, nullptr, count_kernel, &count), cudaErrorInvalidValue);
  EXPECT_EQ(launch(0, 1, nullptr, count_kernel, &count), cudaSuccess);
  EXPECT_EQ(count, 0);
}

// Sums of a block by halves, `has_barrier` or not between them.
template <bool has_barrier>
__global__ void sum_kernel(const int* from, int* sums) {
  __shared__ int parts[64];
  parts[threadIdx.x] = from[blockIdx.x * 64 + threadIdx.x];
  for (unsigned half = 32; half > 0; half /= 2) {
    if (has_barrier) __syncthreads();
    if (threadIdx.x < half) parts[threadIdx.x] += parts[threadIdx.x + half];
  }
  if (threadIdx.x == 0) sums[blockIdx.x] = parts[0];
}

std::vector<int> sums_of(void (*kernel)(const int*, int*)) {
  std::vector<int> from(64 * 20), sums(20);
  std::iota(from.begin(), from.end(), 1);
  run(20, 64, kernel, from.data(), sums.data());
  return sums;
}

TEST(CudaShim, AMissingBarrierChangesTheResult) {
  std::vector<int> expected;
  for (int b = 0; b < 20; ++b) expected.push_back(64 * (64 * b) + 64 * 65 / 2);
  EXPECT_EQ(sums_of(sum_kernel<true>), expected);
  EXPECT_NE(sums_of(sum_kernel<false>), expected);
}

// A tile that is filled anew before all have read the one in front of it.
template <bool has_barrier>
__global__ void shift_kernel(int* to, int rounds) {
  __shared__ int tile[kThreads];
  int sum = 0;
  for (int round = 0; round < rounds; ++round) {
    tile[threadIdx.x] = round * kThreads + static_cast<int>(threadIdx.x);
    __syncthreads();
    sum += tile[(threadIdx.x + 40) % kThreads];
    if (has_barrier) __syncthreads();
  }
  to[threadIdx.x] = sum;
}

TEST(CudaShim, AMissingBarrierBehindATileChangesTheResult) {
  const auto result = [](void (*kernel)(int*, int)) {
    std::vector<int> to(kThreads);
    run(1, kThreads, kernel, to.data(), 5);
    return to;
  };
  std::vector<int> expected;
  for (int t = 0; t < kThreads; ++t) expected.push_back(10 * kThreads + 5 * ((t + 40) % kThreads));
  EXPECT_EQ(result(shift_kernel<true>), expected);
  EXPECT_NE(result(shift_kernel<false>), expected);
}

__global__ void warp_kernel(int* sums, int* before, int* behind, int* second, unsigned* same,
                            double* halves) {
  const int t = static_cast<int>(threadIdx.x);
  int sum = t;
  for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xFFFFFFFFU, sum, step);
  sums[t] = sum;
  before[t] = __shfl_up_sync(0xFFFFFFFFU, t, 3);
  behind[t] = __shfl_down_sync(0xFFFFFFFFU, t, 3);
  second[t] = __shfl_sync(0xFFFFFFFFU, t, 1);
  __syncwarp();
  same[t] = __match_any_sync(0xFFFFFFFFU, t % 5);
  if (t % 32 < 16) halves[t] = __shfl_xor_sync(0x0000FFFFU, 0.5 * t, 1);
}

TEST(CudaShim, WarpsExchangeValues) {
  std::vector<int> sums(kThreads), before(kThreads), behind(kThreads), second(kThreads);
  std::vector<unsigned> same(kThreads);
  std::vector<double> halves(kThreads, -1.0);
  run(1, kThreads, warp_kernel, sums.data(), before.data(), behind.data(), second.data(),
      same.data(), halves.data());
  for (int t = 0; t < kThreads; ++t) {
    const int warp = t / 32 * 32, place = t % 32;
    unsigned mask = 0;
    for (int l = 0; l < 32; ++l) mask |= (warp + l) % 5 == t % 5 ? 1U << l : 0U;
    EXPECT_EQ(sums[t], 32 * warp + 31 * 16);
    EXPECT_EQ(before[t], place < 3 ? t : t - 3);
    EXPECT_EQ(behind[t], place > 28 ? t : t + 3);
    EXPECT_EQ(second[t], warp + 1);
    EXPECT_EQ(same[t], mask);
    EXPECT_EQ(halves[t], place < 16 ? 0.5 * (t ^ 1) : -1.0);
  }
}

__global__ void atomic_kernel(int* sum, int* least, int* most) {
  const int value = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x) - 50;
  atomicAdd(sum, value);
  atomicMin(least, value);
  atomicMax(most, value);
}

TEST(CudaShim, AtomicOperationsReachAllThreads) {
  int sum = 0, least = 0, most = 0;
  run(3, 40, atomic_kernel, &sum, &least, &most);
  EXPECT_EQ(sum, 119 * 60 - 50 * 120);
  EXPECT_EQ(least, -50);
  EXPECT_EQ(most, 69);
}

__global__ void early_end_kernel(int* to) {
  __shared__ int value;
  if (threadIdx.x > 40) return;
  if (threadIdx.x == 40) value = 7;
  __syncthreads();
  to[threadIdx.x] = value;
}

TEST(CudaShim, BarriersDoNotWaitForThreadsThatHaveEnded) {
  std::vector<int> to(kThreads);
  run(1, kThreads, early_end_kernel, to.data());
  EXPECT_EQ(std::count(to.begin(), to.end(), 7), 41);
}

__global__ void divergent_barrier_kernel() {
  if (threadIdx.x < 40) {
    __syncthreads();
  } else {
    __syncthreads();
  }
}
__global__ void divergent_warp_kernel(int* to) {
  if (threadIdx.x % 2 == 0) {
    to[threadIdx.x] = __shfl_xor_sync(0xFFFFFFFFU, 1, 2);
  } else {
    to[threadIdx.x] = __shfl_xor_sync(0xFFFFFFFFU, 2, 2);
  }
}
__global__ void ended_lane_kernel(int* to) {
  if (threadIdx.x == 20) return;
  to[threadIdx.x] = __shfl_xor_sync(0xFFFFFFFFU, 1, 2);
}
__global__ void absent_lane_kernel(int* to) {
  if (threadIdx.x >= 16) return;
  to[threadIdx.x] = __shfl_xor_sync(0x0000FFFFU, 1, 16);
}
__global__ void foreign_mask_kernel(int* to) {
  to[threadIdx.x] = __shfl_xor_sync(0x0000FFFFU, 1, 2);
}
__global__ void barrier_in_warp_kernel(int* to) {
  if (threadIdx.x == 20) __syncthreads();
  to[threadIdx.x] = __shfl_xor_sync(0xFFFFFFFFU, 1, 2);
}

TEST(CudaShimDeathTest, ThreadsThatWaitForEachOtherEndTheProgram) {
  std::vector<int> to(kThreads);
  EXPECT_DEATH(launch(1, kThreads, nullptr, divergent_barrier_kernel),
               "block \\(0,0,0\\), thread .*: threads of a block wait at different barriers: "
               ".*device_test.cpp:[0-9]+");
  EXPECT_DEATH(launch(1, 32, nullptr, divergent_warp_kernel, to.data()),
               "lanes of a warp wait at different operations");
  EXPECT_DEATH(launch(1, 32, nullptr, ended_lane_kernel, to.data()),
               "an operation of a warp waits for a lane that has ended");
  EXPECT_DEATH(launch(1, 32, nullptr, absent_lane_kernel, to.data()),
               "a value of a lane that is not in the mask");
  EXPECT_DEATH(launch(1, 32, nullptr, foreign_mask_kernel, to.data()),
               "a lane that is not in the mask it gives");
  EXPECT_DEATH(launch(1, 32, nullptr, barrier_in_warp_kernel, to.data()),
               "an operation of a warp waits for lanes that wait elsewhere");
}

__global__ void beyond_shared_kernel(int* to, int by) {
  __shared__ int tile[kThreads];
  int* const at = tile;
  at[threadIdx.x] = 1;
  __syncthreads();
  to[threadIdx.x] = at[static_cast<int>(threadIdx.x) + by];
}
__global__ void beyond_row_kernel(int* to, int column) {
  __shared__ int tile[4][8];
  for (int r = 0; r < 4; ++r) tile[r][threadIdx.x] = r;
  __syncthreads();
  to[threadIdx.x] = tile[1][column];
}
__global__ void beyond_global_kernel(unsigned char* to, int by) {
  to[static_cast<int>(threadIdx.x) + by] = 1;
}

TEST(CudaShimDeathTest, AccessesBeyondMemoryEndTheProgram) {
  std::vector<int> to(kThreads);
  run(1, kThreads, beyond_shared_kernel, to.data(), 0);
  EXPECT_DEATH(launch(1, kThreads, nullptr, beyond_shared_kernel, to.data(), 1),
               "global-buffer-overflow");
  run(1, 8, beyond_row_kernel, to.data(), 7);
  EXPECT_DEATH(launch(1, 8, nullptr, beyond_row_kernel, to.data(), 8), "index 8 out of bounds");
  void* memory = nullptr;
  ASSERT_EQ(cudaMalloc(&memory, 33), cudaSuccess);
  auto* const bytes = static_cast<unsigned char*>(memory);
  run(1, 33, beyond_global_kernel, bytes, 0);
  EXPECT_DEATH(launch(1, 33, nullptr, beyond_global_kernel, bytes, 1), "heap-buffer-overflow");
  EXPECT_DEATH(launch(1, 33, nullptr, beyond_global_kernel, bytes, -1), "heap-buffer-overflow");
  ASSERT_EQ(cudaFree(memory), cudaSuccess);
}

__global__ void vector_kernel(uint4* to, int by) {
  __shared__ unsigned from[16];
  if (threadIdx.x < 16) from[threadIdx.x] = threadIdx.x;
  __syncthreads();
  if (threadIdx.x < 2)
    to[threadIdx.x] = *reinterpret_cast<const uint4*>(from + 4 * threadIdx.x + by);
}

// A GPU ends the program there too.
TEST(CudaShimDeathTest, MisalignedVectorsEndTheProgram) {
  void* memory = nullptr;
  ASSERT_EQ(cudaMalloc(&memory, 64), cudaSuccess);
  EXPECT_DEATH(launch(1, kThreads, nullptr, vector_kernel, static_cast<uint4*>(memory), 1),
               "misaligned address .* requires 16 byte alignment");
  auto* const off = reinterpret_cast<uint4*>(static_cast<unsigned char*>(memory) + 8);
  EXPECT_DEATH(launch(1, kThreads, nullptr, vector_kernel, off, 0), "misaligned address");
  ASSERT_EQ(cudaFree(memory), cudaSuccess);
}

}  // namespace
}  // namespace mneme::cuda_shim
