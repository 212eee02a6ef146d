// The reconstruction error on CUDA.
#pragma once

#include <cuda_runtime_api.h>

#include "reconstruction_args.hpp"

namespace compressive::cuda {

// Bytes of workspace for the forward pass: the blocks' errors and, with wants_gradient, the
// derivatives by the new attention, the queries' softmax normalisers and inner products.
uint64_t reconstruction_workspace(const ReconstructionShape& shape);

// Enqueue two kernels forward, three with wants_gradient, one backward, on `stream`, which fill the
// results whole; no allocation, no synchronisation, the same launches for the same shapes and
// wanted gradients, the same bits for the same inputs. `workspace` has reconstruction_workspace
// bytes. Return cudaErrorInvalidValue when the extents do not fit the kernels or a buffer is
// missing, else the launches' own status.
cudaError_t launch_reconstruction(const ReconstructionShape& shape,
                                  const ReconstructionBuffers& buffers, void* workspace,
                                  cudaStream_t stream);
cudaError_t launch_reconstruction_backward(const ReconstructionShape& shape,
                                           const ReconstructionGradients& gradients,
                                           cudaStream_t stream);

}  // namespace compressive::cuda
