// The look-ahead on CUDA.
#pragma once

#include <cuda_runtime_api.h>

#include "look_ahead_args.hpp"

namespace lamemo::cuda {

// Bytes of workspace for the backward pass: the queries' inner products and the query tiles' parts
// of the biases' gradients. The forward pass needs none.
uint64_t look_ahead_backward_workspace(const LookAheadShape& shape);

// Enqueue one kernel forward and at most five backward on `stream`, which fill the results whole;
// no allocation, no synchronisation, the same launches for the same shapes and wanted gradients,
// the same bits for the same inputs. `workspace` has look_ahead_backward_workspace bytes. Return
// cudaErrorInvalidValue when the extents do not fit the kernels or a buffer is missing, else the
// launches' own status.
cudaError_t launch_look_ahead(const LookAheadShape& shape, const LookAheadBuffers& buffers,
                              cudaStream_t stream);
cudaError_t launch_look_ahead_backward(const LookAheadShape& shape, const LookAheadBuffers& buffers,
                                       const LookAheadGradients& gradients, void* workspace,
                                       cudaStream_t stream);

}  // namespace lamemo::cuda
