// The look-ahead's forward launch; the kernel is described where it is (attend.cuh).
#include "cuda/attend.cuh"
#include "cuda/launch.cuh"
#include "cuda/look_ahead.cuh"

namespace lamemo::cuda {
namespace {

template <typename T, typename E>
cudaError_t launch(const LookAheadShape& shape, const LookAheadBuffers& buffers,
                   cudaStream_t stream) {
  const DeviceShape s = device_shape<T>(shape);
  const int64_t blocks = s.lanes * s.heads * s.query_tiles * s.panels;
  if (blocks > kMostBlocks) return cudaErrorInvalidValue;
  if (blocks == 0) return cudaSuccess;
  attend_kernel<T, E>
      <<<static_cast<unsigned>(blocks), kThreads, 0, stream>>>(s, device_pointers<T, E>(buffers));
  return cudaGetLastError();
}

}  // namespace

cudaError_t launch_look_ahead(const LookAheadShape& shape, const LookAheadBuffers& buffers,
                              cudaStream_t stream) {
  if (!is_usable(shape) || !has_buffers(shape, buffers)) return cudaErrorInvalidValue;
  if (shape.lanes * shape.queries * shape.heads > 0 && buffers.carried_lse == nullptr) {
    return cudaErrorInvalidValue;
  }
  if (shape.query_elements() > 0 && buffers.carried == nullptr) return cudaErrorInvalidValue;
  return mneme::cuda::with_elements_but_f16(shape.element, [&](auto sum, auto element) {
    return launch<decltype(sum), decltype(element)>(shape, buffers, stream);
  });
}

}  // namespace lamemo::cuda
