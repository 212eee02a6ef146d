// The look-ahead's backward launches; the kernels are described where they are (gradients.cuh).
#include "cuda/gradients.cuh"
#include "cuda/launch.cuh"
#include "cuda/look_ahead.cuh"

namespace lamemo::cuda {
namespace {

template <typename T>
struct Counts {
  int64_t inner;
  int64_t bias_parts;

  explicit Counts(const LookAheadShape& s)
      : inner(s.lanes * s.queries * s.heads),
        bias_parts(s.lanes * s.heads * tiles_of(s.queries, kTile<T>) * 2 * s.head_width) {}
  uint64_t bytes() const { return static_cast<uint64_t>(inner + bias_parts) * sizeof(T); }
};

template <typename T, typename E>
GradientPointers<T, E> gradient_pointers(const LookAheadShape& shape, const LookAheadGradients& g,
                                         void* workspace) {
  T* inner = static_cast<T*>(workspace);
  return {static_cast<const T*>(g.context),
          static_cast<const T*>(g.lse),
          static_cast<E*>(g.q),
          static_cast<E*>(g.k),
          static_cast<E*>(g.v),
          static_cast<E*>(g.table),
          static_cast<T*>(g.content_bias),
          static_cast<T*>(g.position_bias),
          inner,
          inner + Counts<T>(shape).inner};
}

// Launches `kernel` on `blocks` blocks, if any.
template <typename... Parameters, typename... Arguments>
cudaError_t launch(int64_t blocks, cudaStream_t stream, void (*kernel)(Parameters...),
                   const Arguments&... arguments) {
  if (blocks > kMostBlocks) return cudaErrorInvalidValue;
  if (blocks == 0) return cudaSuccess;
  kernel<<<static_cast<unsigned>(blocks), kThreads, 0, stream>>>(arguments...);
  return cudaGetLastError();
}

template <typename T, typename E>
cudaError_t launch_all(const LookAheadShape& shape, const LookAheadBuffers& buffers,
                       const LookAheadGradients& gradients, void* workspace, cudaStream_t stream) {
  const DeviceShape s = device_shape<T>(shape);
  const DevicePointers<T, E> p = device_pointers<T, E>(buffers);
  const GradientPointers<T, E> g = gradient_pointers<T, E>(shape, gradients, workspace);
  const int64_t lane_heads = s.lanes * s.heads;
  cudaError_t status =
      launch(tiles_of(lane_heads * s.queries, kThreads / 32), stream, inner_kernel<T, E>, s, p, g);
  if (status == cudaSuccess && (g.k != nullptr || g.v != nullptr)) {
    status = launch(lane_heads * tiles_of(s.keys, kTile<T>) * s.panels, stream, key_kernel<T, E>, s,
                    p, g);
  }
  const bool wants_biases = g.content_bias != nullptr || g.position_bias != nullptr;
  if (status == cudaSuccess && (g.q != nullptr || wants_biases)) {
    status = launch(lane_heads * s.query_tiles * s.panels, stream, query_kernel<T, E>, s, p, g);
  }
  if (status == cudaSuccess && g.table != nullptr) {
    status = launch(s.heads * tiles_of(s.offsets, kTile<T>) * s.panels, stream, table_kernel<T, E>,
                    s, p, g);
  }
  if (status == cudaSuccess && wants_biases) {
    status = launch(tiles_of(s.heads * 2 * s.width, kThreads), stream, bias_kernel<T, E>, s, g);
  }
  return status;
}

}  // namespace

uint64_t look_ahead_backward_workspace(const LookAheadShape& shape) {
  return shape.is_f64() ? Counts<double>(shape).bytes() : Counts<float>(shape).bytes();
}

cudaError_t launch_look_ahead_backward(const LookAheadShape& shape, const LookAheadBuffers& buffers,
                                       const LookAheadGradients& gradients, void* workspace,
                                       cudaStream_t stream) {
  if (!is_usable(shape) || !has_buffers(shape, buffers)) return cudaErrorInvalidValue;
  if (workspace == nullptr && look_ahead_backward_workspace(shape) > 0) {
    return cudaErrorInvalidValue;
  }
  return mneme::cuda::with_elements_but_f16(shape.element, [&](auto sum, auto element) {
    return launch_all<decltype(sum), decltype(element)>(shape, buffers, gradients, workspace,
                                                        stream);
  });
}

}  // namespace lamemo::cuda
