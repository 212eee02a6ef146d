// The cache update on CUDA.
#pragma once

#include <cuda_runtime_api.h>

#include "cache_update_args.hpp"

namespace xl_cache::cuda {

// Enqueues one kernel on `stream` that fills kept and evicted whole; no allocation, no
// synchronisation, the same launch for the same shapes and alignment. Returns cudaErrorInvalidValue
// when the extents do not fit together or a buffer is missing, else the launch's own status.
cudaError_t launch_cache_update(const CacheUpdateShape& shape, const CacheUpdateBuffers& buffers,
                                cudaStream_t stream);

}  // namespace xl_cache::cuda
