// Launches of a plugin's CUDA kernels: how many blocks, and what failed.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>

#include "mneme/cpp/kernel.hpp"

namespace mneme {
inline namespace sdk_0_1 {
namespace cuda {

inline constexpr int64_t kMaxBlocks = 2147483647;  // of one launch

inline int64_t tiles_of(int64_t count, int64_t tile) { return (count + tile - 1) / tile; }

inline cudaStream_t stream_of(const KernelCall& call) {
  return static_cast<cudaStream_t>(call.stream());
}

#ifdef __CUDACC__
// Launches `kernel` with blocks of `threads` threads and `shared` bytes of dynamic shared memory.
template <typename... Parameters, typename... Arguments>
cudaError_t launch_with_shared(dim3 blocks, dim3 threads, int shared, cudaStream_t stream,
                               void (*kernel)(Parameters...), const Arguments&... arguments) {
  constexpr int kAlways = 48 << 10;  // bytes that every kernel may have
  cudaError_t status = cudaSuccess;
  if (shared > kAlways) {
    status = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared);
  }
  if (status == cudaSuccess) {
    cudaLaunchConfig_t config = {};
    config.gridDim = blocks;
    config.blockDim = threads;
    config.dynamicSmemBytes = static_cast<std::size_t>(shared);
    config.stream = stream;
    status = cudaLaunchKernelEx(&config, kernel, arguments...);
  }
  const cudaError_t last = cudaGetLastError();  // clears it
  return status != cudaSuccess ? status : last;
}
// The same with `blocks` blocks, if any; cudaErrorInvalidValue for more than there can be.
template <typename... Parameters, typename... Arguments>
cudaError_t launch_with_shared(int64_t blocks, int threads, int shared, cudaStream_t stream,
                               void (*kernel)(Parameters...), const Arguments&... arguments) {
  if (blocks > kMaxBlocks) return cudaErrorInvalidValue;
  if (blocks == 0) return cudaSuccess;
  return launch_with_shared(dim3(static_cast<unsigned>(blocks)),
                            dim3(static_cast<unsigned>(threads)), shared, stream, kernel,
                            arguments...);
}
// Both without dynamic shared memory.
template <typename... Parameters, typename... Arguments>
cudaError_t launch(dim3 blocks, dim3 threads, cudaStream_t stream, void (*kernel)(Parameters...),
                   const Arguments&... arguments) {
  return launch_with_shared(blocks, threads, 0, stream, kernel, arguments...);
}
template <typename... Parameters, typename... Arguments>
cudaError_t launch(int64_t blocks, int threads, cudaStream_t stream, void (*kernel)(Parameters...),
                   const Arguments&... arguments) {
  return launch_with_shared(blocks, threads, 0, stream, kernel, arguments...);
}
#endif

// Errors: Failure(MNEME_E_CUDA) with the runtime's own code when a launch failed.
inline void check_launch(cudaError_t status, CallSite site = CallSite::here()) {
  if (status == cudaSuccess) return;
  throw Failure(MNEME_E_CUDA, std::string("launch failed: ") + cudaGetErrorString(status),
                site.file, site.line, static_cast<int32_t>(status));
}

// Refuses a call in which one of `buffers` has elements and no data, or whose workspace is too
// small, before a kernel follows the null pointer: that would end CUDA for the whole process.
// Errors: as check_launch with cudaErrorInvalidValue.
inline void check_buffers(const KernelCall& call, std::initializer_list<View> buffers,
                          uint64_t workspace_bytes = 0, CallSite site = CallSite::here()) {
  bool fits = call.workspace_bytes() >= workspace_bytes;
  for (const View& view : buffers) fits = fits && (view.has_data() || view.elements() == 0);
  if (!fits) check_launch(cudaErrorInvalidValue, site);
}

// Zeros, on the stream; nothing to do where has_data() is false. Errors: as check_launch.
inline void clear(const View& view, cudaStream_t stream, CallSite site = CallSite::here()) {
  if (!view.has_data()) return;
  check_launch(
      cudaMemsetAsync(view.data<void>(), 0, static_cast<std::size_t>(view.bytes()), stream), site);
}

}  // namespace cuda
}  // namespace sdk_0_1
}  // namespace mneme
