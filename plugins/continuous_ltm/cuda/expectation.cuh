// The expectation on CUDA.
#pragma once

#include <cuda_runtime_api.h>

#include "expectation_args.hpp"

namespace continuous_ltm::cuda {

// Bytes of workspace for forward and for backward: the order of the queries.
inline uint64_t expectation_workspace(const ExpectationShape& shape) {
  return static_cast<uint64_t>(shape.densities()) * sizeof(int32_t);
}

// Enqueue two kernels forward, three backward, on `stream`, which fill the outputs whole; no
// allocation, no synchronisation, the same launches for the same shapes and wanted gradients, the
// same bits for the same inputs. `workspace` has expectation_workspace bytes. Return
// cudaErrorInvalidValue when the extents do not fit the kernels or a buffer is missing, else the
// launches' own status.
cudaError_t launch_expectation(const ExpectationShape& shape, const ExpectationBuffers& buffers,
                               void* workspace, cudaStream_t stream);
cudaError_t launch_expectation_backward(const ExpectationShape& shape,
                                        const ExpectationBuffers& buffers,
                                        const ExpectationGradients& gradients, void* workspace,
                                        cudaStream_t stream);

}  // namespace continuous_ltm::cuda
