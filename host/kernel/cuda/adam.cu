// Updates by Adam and AdamW on CUDA (adam.hpp has the equations), many parameters a launch. No
// allocation, no synchronisation, the same launches for the same parameters, the same bits for the
// same inputs.
//
//   Shapes         weight, gradient, mean, square [numbers]; copy [numbers/width,width] by rows
//   Presumptions   blocks < 2^31
//   Decomposition  a launch has up to 48 parameters, whose pointers are arguments of the kernel. A
//                  block has 8,192 numbers of one of them, a thread 8 neighbouring ones at a time
//   Shared memory  8 bytes
//   Bytes          weight, gradient and moments are read once; weight, moments and copy written once
#include <cmath>
#include <cstdint>

#include "host/kernel/adam.hpp"
#include "host/kernel/cuda/rows.cuh"

namespace mneme::kernel {
namespace rows {
namespace {

constexpr int kAdamThreads = 256;
constexpr int kAdamRounds = 4;
constexpr std::int64_t kAdamNumbers = kAdamThreads * kAdamRounds * kGroup;  // of a block
constexpr int kAdamTensors = 48;                                            // of a launch

struct AdamTask {
  AdamRule rule;
  AdamTensor tensors[kAdamTensors];
  std::int64_t ends[kAdamTensors];  // of a tensor's blocks
};
static_assert(sizeof(AdamTask) <= 4096);  // which all devices take as arguments

// What the count of updates makes of the rate.
struct Corrected {
  float rate;    // rate / (1 - beta1^t)
  float square;  // 1 / sqrt(1 - beta2^t)
};

__device__ Corrected corrected(const AdamRule& rule, double count) {
  return {static_cast<float>(*rule.rate / (1.0 - pow(rule.beta1, count))),
          static_cast<float>(1.0 / sqrt(1.0 - pow(rule.beta2, count)))};
}

__device__ void update_group(const AdamRule& rule, const Corrected& by, float (&p)[kGroup],
                             float (&g)[kGroup], float (&m)[kGroup], float (&v)[kGroup]) {
  const float beta1 = static_cast<float>(rule.beta1);
  const float rest1 = static_cast<float>(1.0 - rule.beta1);
  const float beta2 = static_cast<float>(rule.beta2);
  const float rest2 = static_cast<float>(1.0 - rule.beta2);
  const float epsilon = static_cast<float>(rule.epsilon);
  const float decay =
      static_cast<float>(rule.is_decoupled ? *rule.rate * rule.weight_decay : rule.weight_decay);
#pragma unroll
  for (int i = 0; i < kGroup; ++i) {
    if (rule.is_decoupled) {
      p[i] -= decay * p[i];
    } else {
      g[i] += decay * p[i];
    }
    m[i] = beta1 * m[i] + rest1 * g[i];
    v[i] = beta2 * v[i] + rest2 * g[i] * g[i];
    p[i] -= by.rate * m[i] / (square_root(v[i]) * by.square + epsilon);
  }
}

__device__ void store_copy(const AdamTensor& a, std::int64_t at, int count,
                           const float (&p)[kGroup]) {
  __nv_bfloat16* const to = static_cast<__nv_bfloat16*>(a.copy);
  if (a.stride == a.width) {
    store_to(to + at, count, p);
    return;
  }
  std::int64_t row = at / a.width;
  std::int64_t column = at % a.width;
#pragma unroll
  for (int i = 0; i < kGroup; ++i) {
    if (i < count) narrow(p[i], to[row * a.stride + column]);
    if (++column == a.width) {
      column = 0;
      ++row;
    }
  }
}

__global__ void __launch_bounds__(kAdamThreads) update_kernel(AdamTask t) {
  __shared__ Corrected shared;
  if (t.rule.skip != nullptr && *t.rule.skip != 0.0F) return;
  const std::int64_t block = blockIdx.x;
  int own = 0;
  while (block >= t.ends[own]) ++own;
  const AdamTensor a = t.tensors[own];
  if (threadIdx.x == 0) shared = corrected(t.rule, *a.count);
  __syncthreads();
  const Corrected by = shared;
  const std::int64_t first = (block - (own == 0 ? 0 : t.ends[own - 1])) * kAdamNumbers;
  for (int round = 0; round < kAdamRounds; ++round) {
    const std::int64_t at = first + (round * kAdamThreads + static_cast<int>(threadIdx.x)) * kGroup;
    const int count = entries_of_group(a.numbers, at);
    if (count == 0) return;
    float p[kGroup];
    float g[kGroup];
    float m[kGroup];
    float v[kGroup];
    load_from(a.weight + at, count, p);
    load_from(a.gradient + at, count, g);
    load_from(a.mean + at, count, m);
    load_from(a.square + at, count, v);
    update_group(t.rule, by, p, g, m, v);
    store_to(a.weight + at, count, p);
    store_to(a.mean + at, count, m);
    store_to(a.square + at, count, v);
    if (a.copy != nullptr) store_copy(a, at, count, p);
  }
}

const char* update(const AdamRule& rule, const AdamTensor* tensors, std::int64_t count,
                   void* stream) {
  for (std::int64_t first = 0; first < count; first += kAdamTensors) {
    AdamTask task = {};
    task.rule = rule;
    std::int64_t blocks = 0;
    for (std::int64_t i = 0; i < kAdamTensors && first + i < count; ++i) {
      task.tensors[i] = tensors[first + i];
      blocks += tiles_of(task.tensors[i].numbers, kAdamNumbers);
      task.ends[i] = blocks;
    }
    const cudaError_t status =
        launch(blocks, kAdamThreads, static_cast<cudaStream_t>(stream), update_kernel, task);
    if (status != cudaSuccess) return message_of(status);
  }
  return nullptr;
}

}  // namespace
}  // namespace rows

const AdamKernels* AdamKernels::for_cuda() {
  static constexpr AdamKernels kKernels = {rows::update};
  return &kKernels;
}

}  // namespace mneme::kernel
