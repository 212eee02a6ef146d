// Element types of tensors on CUDA, and the type that sums are in.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime_api.h>

#include "mneme/cpp/element.hpp"

namespace mneme {
inline namespace sdk_0_1 {
namespace cuda {

__device__ inline float widen(float value) { return value; }
__device__ inline double widen(double value) { return value; }
__device__ inline float widen(__half value) { return __half2float(value); }
__device__ inline float widen(__nv_bfloat16 value) { return __bfloat162float(value); }
__device__ inline void narrow(float value, float& to) { to = value; }
__device__ inline void narrow(double value, double& to) { to = value; }
__device__ inline void narrow(float value, __half& to) { to = __float2half_rn(value); }
__device__ inline void narrow(float value, __nv_bfloat16& to) { to = __float2bfloat16_rn(value); }

// Calls body(sum, element) with values of the type that sums are in and of the elements' type, for
// kernels that are not made for f16: cudaErrorInvalidValue for it.
template <typename Body>
cudaError_t with_elements_but_f16(ElementType element, const Body& body) {
  switch (element) {
    case ElementType::kF32:
      return body(float{}, float{});
    case ElementType::kF64:
      return body(double{}, double{});
    case ElementType::kBF16:
      return body(float{}, __nv_bfloat16{});
    default:
      return cudaErrorInvalidValue;
  }
}

// The same for all of them.
template <typename Body>
cudaError_t with_elements(ElementType element, const Body& body) {
  if (element == ElementType::kF16) return body(float{}, __half{});
  return with_elements_but_f16(element, body);
}

}  // namespace cuda
}  // namespace sdk_0_1
}  // namespace mneme
