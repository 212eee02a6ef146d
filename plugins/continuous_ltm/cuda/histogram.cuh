// The histogram on CUDA.
#pragma once

#include <cuda_runtime_api.h>

#include "histogram_args.hpp"

namespace continuous_ltm::cuda {

// Bytes of workspace: each head's masses below the edges.
inline uint64_t histogram_workspace(const HistogramShape& shape) {
  return static_cast<uint64_t>(shape.lanes * shape.heads * (shape.bins + 1)) * sizeof(double);
}

// Enqueues two kernels on `stream` that fill the masses whole; no allocation, no synchronisation,
// the same launches for the same shapes, the same bits for the same inputs. Returns
// cudaErrorInvalidValue when the extents do not fit the kernels or a buffer is missing, else the
// launches' own status.
cudaError_t launch_histogram(const HistogramShape& shape, const HistogramBuffers& buffers,
                             void* workspace, cudaStream_t stream);

}  // namespace continuous_ltm::cuda
