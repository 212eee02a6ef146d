// The shim's instructions of kernels on tensor cores: products, loads of matrices, asynchronous
// copies, barriers of a part of a block; and whether wrong uses of them are seen.
#include "mneme_kernels/cuda/tensor_core.cuh"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "mneme_kernels/cuda/launch.hpp"
#include "tests/seed.hpp"

namespace mneme::cuda_shim {
namespace {

using cuda::launch;
using cuda::launch_with_shared;

enum class Fault { kNone, kNoBarrier, kLayout, kEarlyStage, kNoWait };

constexpr int kTile = 64;      // of rows and columns of a block, whose warps have 16 rows each
constexpr int kDepth = 32;     // what a stage sums over
constexpr int kStages = 3;     // of the pipeline
constexpr int kThreads = 128;  // of a block

// c = a b, b given as [k,n] or turned as [n,k].
struct Product {
  const BFloat16* a;  // [rows,depth]
  const BFloat16* b;
  float* c;  // [rows,columns]
  int rows, columns, depth;
};

constexpr int kStride = kDepth + 8;     // of rows along the depth
constexpr int kWideStride = kTile + 8;  // of rows along columns
struct alignas(16) Stage {
  BFloat16 a[kTile][kStride];
  BFloat16 b[kTile * kStride > kDepth* kWideStride ? kTile* kStride : kDepth* kWideStride];
};

// Rows of a matrix, its last ones and what is behind its width as zeros.
__device__ void copy_rows(BFloat16* to, int stride, const BFloat16* from, int width, int first_row,
                          int end_row, int rows, int first_column, int columns) {
  for (int i = static_cast<int>(threadIdx.x); i < rows * columns / 8; i += kThreads) {
    const int row = i / (columns / 8), column = i % (columns / 8) * 8;
    const int left = first_row + row < end_row ? width - first_column - column : 0;
    const int count = std::max(std::min(left, 8), 0);
    const BFloat16* at =
        count > 0 ? from + (first_row + row) * width + first_column + column : from;
    cuda::copy_async<16>(to + row * stride + column, at, 2 * count);
  }
}

template <bool is_turned>
__device__ void begin_stage(Stage& stage, const Product& p, int k) {
  const int row = static_cast<int>(blockIdx.x) * kTile,
            column = static_cast<int>(blockIdx.y) * kTile;
  if (k < p.depth) {
    copy_rows(&stage.a[0][0], kStride, p.a, p.depth, row, p.rows, kTile, k, kDepth);
    if (is_turned) {
      copy_rows(stage.b, kStride, p.b, p.depth, column, p.columns, kTile, k, kDepth);
    } else {
      copy_rows(stage.b, kWideStride, p.b, p.columns, k, p.depth, kDepth, column, kTile);
    }
  }
  cuda::commit_copies();
}

template <bool is_turned, Fault fault>
__device__ void multiply_stage(const Stage& stage, float (&sums)[kTile / 8][4]) {
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  for (int k = 0; k < kDepth; k += 16) {
    unsigned a[4];
    cuda::load_matrices(a, &stage.a[warp * 16 + lane % 16][k + lane / 16 * 8]);
    if (fault == Fault::kLayout) std::swap(a[1], a[2]);
    for (int n = 0; n < kTile; n += 16) {
      unsigned b[4];
      if (is_turned) {
        const int row = n + lane / 16 * 8 + lane % 8;
        cuda::load_matrices(b, stage.b + row * kStride + k + lane / 8 % 2 * 8);
      } else {
        cuda::load_turned(b, stage.b + (k + lane % 16) * kWideStride + n + lane / 16 * 8);
      }
      cuda::multiply_add(sums[n / 8], a, {b[0], b[1]});
      cuda::multiply_add(sums[n / 8 + 1], a, {b[2], b[3]});
    }
  }
}

template <bool is_turned, Fault fault>
__global__ void product_kernel(Product p) {
  auto* const stages = static_cast<Stage*>(cuda::dynamic_shared());
  float sums[kTile / 8][4] = {};
  for (int s = 0; s + 1 < kStages; ++s) begin_stage<is_turned>(stages[s], p, s * kDepth);
  for (int s = 0; s * kDepth < p.depth; ++s) {
    const int next = s + kStages - 1;
    if (fault == Fault::kEarlyStage)
      begin_stage<is_turned>(stages[next % kStages], p, next * kDepth);
    if (fault == Fault::kNoWait) {
      cuda::wait_for_copies<kStages - 1>();
    } else {
      cuda::wait_for_copies<fault == Fault::kEarlyStage ? kStages - 1 : kStages - 2>();
    }
    if (fault != Fault::kNoBarrier) __syncthreads();
    if (fault != Fault::kEarlyStage)
      begin_stage<is_turned>(stages[next % kStages], p, next * kDepth);
    multiply_stage<is_turned, fault>(stages[s % kStages], sums);
  }
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  for (int i = 0; i < kTile / 8 * 4; ++i) {
    const int row = static_cast<int>(blockIdx.x) * kTile + warp * 16 + lane / 4 + i % 4 / 2 * 8;
    const int column = static_cast<int>(blockIdx.y) * kTile + i / 4 * 8 + lane % 4 * 2 + i % 2;
    if (row < p.rows && column < p.columns) p.c[row * p.columns + column] = sums[i / 4][i % 4];
  }
}

// The largest difference from the product in f64; infinity where it is no number.
template <bool is_turned, Fault fault = Fault::kNone>
double error_of(int rows, int columns, int depth) {
  std::mt19937 random(test::drawn_seed("numbers"));
  std::uniform_real_distribution<float> number(-1.0F, 1.0F);
  const auto numbers = [&](int count) {
    std::vector<BFloat16> out(static_cast<std::size_t>(count));
    for (BFloat16& x : out) x = BFloat16(number(random));
    return out;
  };
  // Copies are of whole 16 bytes from multiples of them.
  void *a = nullptr, *b = nullptr;
  const auto put = [](void** to, const std::vector<BFloat16>& from) {
    EXPECT_EQ(cudaMalloc(to, from.size() * 2), cudaSuccess);
    EXPECT_EQ(cudaMemcpy(*to, from.data(), from.size() * 2, cudaMemcpyHostToDevice), cudaSuccess);
  };
  const std::vector<BFloat16> left = numbers(rows * depth), right = numbers(depth * columns);
  put(&a, left);
  put(&b, right);
  std::vector<float> c(static_cast<std::size_t>(rows * columns), 99.0F);
  const Product product = {
      static_cast<BFloat16*>(a), static_cast<BFloat16*>(b), c.data(), rows, columns, depth};
  const dim3 blocks(static_cast<unsigned>(cuda::tiles_of(rows, kTile)),
                    static_cast<unsigned>(cuda::tiles_of(columns, kTile)));
  EXPECT_EQ(launch_with_shared(blocks, dim3(kThreads), kStages * sizeof(Stage), nullptr,
                               product_kernel<is_turned, fault>, product),
            cudaSuccess);
  double worst = 0.0;
  for (int i = 0; i < rows * columns; ++i) {
    double sum = 0.0;
    for (int k = 0; k < depth; ++k) {
      const int at = is_turned ? i % columns * depth + k : k * columns + i % columns;
      sum += double{left[static_cast<std::size_t>(i / columns * depth + k)]} *
             double{right[static_cast<std::size_t>(at)]};
    }
    const double error = std::abs(double{c[static_cast<std::size_t>(i)]} - sum);
    worst = std::isnan(error) ? INFINITY : std::max(worst, error);
  }
  cudaFree(a);
  cudaFree(b);
  return worst;
}

constexpr double kNear = 1e-4, kFar = 1e-2;

TEST(TensorCores, AProductEqualsThatOfDoubles) {
  EXPECT_LT((error_of<true>(64, 64, 32)), kNear);
  EXPECT_LT((error_of<true>(70, 130, 200)), kNear);
  EXPECT_LT((error_of<true>(1, 3, 8)), kNear);
  EXPECT_LT((error_of<false>(64, 64, 32)), kNear);
  EXPECT_LT((error_of<false>(70, 136, 200)), kNear);
}

TEST(TensorCores, FaultsOfAPipelineChangeTheResult) {
  EXPECT_GT((error_of<true, Fault::kNoBarrier>(128, 128, 320)), kFar);
  EXPECT_GT((error_of<true, Fault::kEarlyStage>(128, 128, 320)), kFar);
  EXPECT_GT((error_of<true, Fault::kNoWait>(128, 128, 320)), kFar);
}

TEST(TensorCores, AWrongLayoutChangesTheResult) {
  EXPECT_GT((error_of<true, Fault::kLayout>(64, 64, 32)), kFar);
  EXPECT_GT((error_of<false, Fault::kLayout>(64, 64, 32)), kFar);
}

// Registers of loads of 1, 2 and 4 matrices, as they are and turned.
__global__ void load_kernel(unsigned* to, int off) {
  alignas(16) __shared__ BFloat16 matrices[4 * 8 * 8 + 8];
  const int lane = static_cast<int>(threadIdx.x);
  for (int i = lane; i < 4 * 8 * 8; i += 32) matrices[i] = BFloat16(static_cast<float>(i));
  __syncwarp();
  const BFloat16* row = matrices + lane * 8 + off;
  unsigned one[1], two[2], four[4];
  const auto put = [&](const auto& registers) {
    for (const unsigned r : registers) {
      to[lane] = r;
      to += 32;
    }
  };
  cuda::load_matrices(one, lane < 8 ? row : nullptr);
  put(one);
  cuda::load_matrices(two, lane < 16 ? row : nullptr);
  put(two);
  cuda::load_matrices(four, row);
  put(four);
  cuda::load_turned(one, lane < 8 ? row : nullptr);
  put(one);
  cuda::load_turned(two, lane < 16 ? row : nullptr);
  put(two);
  cuda::load_turned(four, row);
  put(four);
}

TEST(TensorCores, LoadsGiveEachLaneItsNumbers) {
  std::vector<unsigned> to(std::size_t{14} * 32);
  ASSERT_EQ(launch(1, 32, nullptr, load_kernel, to.data(), 0), cudaSuccess);
  const int matrices[] = {0, 0, 1, 0, 1, 2, 3};
  for (unsigned r = 0; r < 14; ++r) {
    for (unsigned lane = 0; lane < 32; ++lane) {
      const unsigned first = static_cast<unsigned>(matrices[r % 7]) * 64, g = lane / 4,
                     t = lane % 4;
      const unsigned low = r < 7 ? g * 8 + 2 * t : 2 * t * 8 + g, step = r < 7 ? 1 : 8;
      EXPECT_EQ(to[r * 32 + lane], cuda::pack_bf16(static_cast<float>(first + low),
                                                   static_cast<float>(first + low + step)))
          << "register " << r << ", lane " << lane;
    }
  }
  EXPECT_DEATH(launch(1, 32, nullptr, load_kernel, to.data(), 1),
               "a row of a matrix at a misaligned address: .*tensor_core_test.cpp:[0-9]+");
}

// What shared memory holds behind each step of two groups of copies.
__global__ void copy_kernel(const unsigned* from, unsigned* to) {
  alignas(16) __shared__ unsigned at[8];
  const auto show = [&] {
    for (const unsigned x : at) *to++ = x;
  };
  cuda::copy_async<16>(at, from);
  cuda::commit_copies();
  cuda::copy_async<8>(at + 4, from + 4, 4);
  cuda::copy_async<4>(at + 6, from + 6);
  cuda::copy_async<4>(at + 7, nullptr, 0);
  cuda::commit_copies();
  show();
  cuda::wait_for_copies<1>();
  show();
  cuda::wait_for_copies<0>();
  show();
}

TEST(TensorCores, CopiesArriveAtTheWait) {
  const unsigned none = 0xFFFFFFFFU;
  alignas(16) const unsigned from[8] = {1, 2, 3, 4, 5, 6, 7, 8};
  std::vector<unsigned> to(24);
  ASSERT_EQ(launch(1, 1, nullptr, copy_kernel, from, to.data()), cudaSuccess);
  EXPECT_THAT(to, testing::ElementsAre(none, none, none, none, none, none, none, none,  //
                                       1, 2, 3, 4, none, none, none, none,              //
                                       1, 2, 3, 4, 5, 0, 7, 0));
  EXPECT_DEATH(launch(1, 1, nullptr, copy_kernel, from + 1, to.data()),
               "an asynchronous copy between misaligned addresses");
}

// Each half of the block sums its own numbers, the first half more often.
template <bool has_barrier>
__global__ void halves_kernel(int* sums) {
  __shared__ int parts[2][64];
  const int half = static_cast<int>(threadIdx.x) / 64, t = static_cast<int>(threadIdx.x) % 64;
  int total = 0;
  for (int round = half; round < 4; ++round) {
    parts[half][t] = t;
    for (int step = 32; step > 0; step /= 2) {
      if (has_barrier) cuda::sync_threads(1 + half, 64);
      if (t < step) parts[half][t] += parts[half][t + step];
    }
    total += t == 0 ? parts[half][0] : 0;
    if (has_barrier) cuda::sync_threads(1 + half, 64);
  }
  if (t == 0) sums[half] = total;
}
__global__ void other_count_kernel() { cuda::sync_threads(1, threadIdx.x < 32 ? 64 : 32); }
__global__ void too_few_kernel() {
  if (threadIdx.x < 32) cuda::sync_threads(1, 64);
}

TEST(TensorCores, PartsOfABlockWaitForThemselves) {
  std::vector<int> sums(2);
  const int sum = 64 * 63 / 2;
  ASSERT_EQ(launch(1, 128, nullptr, halves_kernel<true>, sums.data()), cudaSuccess);
  EXPECT_THAT(sums, testing::ElementsAre(4 * sum, 3 * sum));
  ASSERT_EQ(launch(1, 128, nullptr, halves_kernel<false>, sums.data()), cudaSuccess);
  EXPECT_THAT(sums, testing::Not(testing::ElementsAre(4 * sum, 3 * sum)));
  EXPECT_DEATH(launch(1, 64, nullptr, other_count_kernel),
               "a barrier waits for another number of threads");
  EXPECT_DEATH(launch(1, 64, nullptr, too_few_kernel),
               "a barrier waits for threads that do not come");
}

__global__ void shared_kernel(int* to, int count) {
  auto* const at = static_cast<int*>(cuda::dynamic_shared());
  *to = at[count - 1];
  at[count - 1] = 7;
}

TEST(TensorCores, DynamicSharedMemoryHasItsBytesAndNoValues) {
  int to = 0;
  ASSERT_EQ(launch_with_shared(3, 1, 400, nullptr, shared_kernel, &to, 100), cudaSuccess);
  EXPECT_EQ(to, -1);
  EXPECT_DEATH(launch_with_shared(1, 1, 400, nullptr, shared_kernel, &to, 101),
               "heap-buffer-overflow");
  EXPECT_EQ(launch_with_shared(1, 1, 200 << 10, nullptr, shared_kernel, &to, 1), cudaSuccess);
  EXPECT_EQ(launch_with_shared(1, 1, 228 << 10, nullptr, shared_kernel, &to, 1),
            cudaErrorInvalidValue);
}

}  // namespace
}  // namespace mneme::cuda_shim
