// Views of tensors on CUDA.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

#include "mneme/cpp/kernel.hpp"
#include "mneme/cuda/status.hpp"

namespace mneme {
inline namespace sdk_0_1 {
namespace cuda {

// Zeros, on the stream; nothing to do where has_data() is false. Errors: as check_launch.
inline void clear(const View& view, cudaStream_t stream, CallSite site = CallSite::here()) {
  if (!view.has_data()) return;
  check_launch(
      cudaMemsetAsync(view.data<void>(), 0, static_cast<std::size_t>(view.bytes()), stream), site);
}

}  // namespace cuda
}  // namespace sdk_0_1
}  // namespace mneme
