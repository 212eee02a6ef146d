// Updates of parameters by Adam and AdamW on a device, which write the parameters' copies in bf16 in
// the same pass.
#pragma once

#include <cstdint>

namespace mneme::kernel {

// One parameter [numbers] in f32 with its moments. Arrays do not overlap.
struct AdamTensor {
  float* weight = nullptr;
  const float* gradient = nullptr;
  float* mean = nullptr;         // m
  float* square = nullptr;       // v
  const float* count = nullptr;  // t: updates, this one among them
  void* copy = nullptr;          // bf16; null = none
  std::int64_t numbers = 0;
  // The numbers as rows of `width`, which lie `stride` numbers apart in the copy.
  std::int64_t width = 1;
  std::int64_t stride = 1;
};

// With g the gradient, w the weight decay and p the weight:
//
//   Adam    g = g + w p [Kingma and Ba 2015, algorithm 1]
//   AdamW   p = p - rate w p [Loshchilov and Hutter 2019, algorithm 2]
//   both    m = beta1 m + (1 - beta1) g,  v = beta2 v + (1 - beta2) g^2,
//           p = p - rate (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + epsilon)
//
// The copy is p, as it is stored in f32, rounded to the nearest, of two to the even one.
struct AdamRule {
  bool is_decoupled = false;  // AdamW
  double beta1 = 0.9;
  double beta2 = 0.999;
  double weight_decay = 0.0;
  double epsilon = 1e-8;
  const float* rate = nullptr;  // one number, as `skip`
  const float* skip = nullptr;  // not 0 = nothing is written; null = 0
};

// The function of a device, in whose memory all arrays are, also `rate` and `skip`.
struct AdamKernels {
  // `tensors` [count] is in the CPU's memory and read before the function returns. Puts the work on
  // `stream` and returns null, or a message when that failed; it neither allocates nor waits. Equal
  // inputs give equal bits.
  const char* (*update)(const AdamRule& rule, const AdamTensor* tensors, std::int64_t count,
                        void* stream);

  // Null in a program that was built without CUDA sources. `stream` is a cudaStream_t of the
  // current device.
  static const AdamKernels* for_cuda();
  // The definition, in f64, for arrays in the CPU's memory. `stream` is ignored.
  static const AdamKernels& by_definition();
};

}  // namespace mneme::kernel
