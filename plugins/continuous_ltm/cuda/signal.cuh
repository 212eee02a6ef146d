// The signal at positions on CUDA.
#pragma once

#include <cuda_runtime_api.h>

#include "signal_args.hpp"

namespace continuous_ltm::cuda {

// Bytes of workspace: the order of the positions.
inline uint64_t signal_workspace(const SignalShape& shape) {
  return static_cast<uint64_t>(shape.lanes * shape.samples) * sizeof(int32_t);
}

// Enqueues two kernels on `stream` that fill the rows whole; no allocation, no synchronisation, the
// same launches for the same shapes. Returns cudaErrorInvalidValue when the extents do not fit the
// kernels or a buffer is missing, else the launches' own status.
cudaError_t launch_signal(const SignalShape& shape, const SignalBuffers& buffers, void* workspace,
                          cudaStream_t stream);

}  // namespace continuous_ltm::cuda
