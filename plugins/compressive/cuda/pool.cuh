// Pooling on CUDA.
#pragma once

#include <cuda_runtime_api.h>

#include "pool_args.hpp"

namespace compressive::cuda {

// Enqueue one kernel each on `stream`, which fills the result whole; no allocation, no
// synchronisation, the same launch for the same shapes, the same bits for the same inputs. Return
// cudaErrorInvalidValue when the extents do not fit the kernel or a buffer is missing, else the
// launch's own status.
cudaError_t launch_pool(const PoolShape& shape, const PoolBuffers& buffers, cudaStream_t stream);
cudaError_t launch_pool_backward(const PoolShape& shape, const PoolGradients& gradients,
                                 cudaStream_t stream);

}  // namespace compressive::cuda
