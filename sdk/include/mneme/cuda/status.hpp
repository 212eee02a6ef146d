// Failed launches as errors.
#pragma once

#include <cuda_runtime_api.h>

#include <string>

#include "mneme/cpp/failure.hpp"

namespace mneme {
inline namespace sdk_0_1 {
namespace cuda {

// Errors: Failure(MNEME_E_CUDA) with the runtime's own code when a launch failed.
inline void check_launch(cudaError_t status, CallSite site = CallSite::here()) {
  if (status == cudaSuccess) return;
  throw Failure(MNEME_E_CUDA, std::string("launch failed: ") + cudaGetErrorString(status),
                site.file, site.line, static_cast<int32_t>(status));
}

}  // namespace cuda
}  // namespace sdk_0_1
}  // namespace mneme
