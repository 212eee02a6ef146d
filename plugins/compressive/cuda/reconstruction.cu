// The reconstruction error's launches; the kernels are described where they are (compare.cuh,
// gradients.cuh).
#include "cuda/compare.cuh"
#include "cuda/gradients.cuh"
#include "cuda/reconstruction.cuh"

namespace compressive::cuda {
namespace {

constexpr int64_t kMostBlocks = 2147483647;

int64_t tiles_of(int64_t count, int64_t tile) { return (count + tile - 1) / tile; }

// The workspace's parts, in the order in which they lie; bytes.
struct Parts {
  uint64_t errors;
  uint64_t change;
  uint64_t normaliser;
  uint64_t inner;

  explicit Parts(const ReconstructionShape& s) {
    const uint64_t size = s.is_f64() ? 8 : 4;
    const int64_t queries = s.lanes * s.heads * s.queries;
    const int64_t panels = tiles_of(s.head_width, kPanel);
    const uint64_t wanted = s.wants_gradient ? size : 0;
    errors = static_cast<uint64_t>(s.lanes * s.heads * tiles_of(s.queries, kQueries) * panels) * 8;
    change = static_cast<uint64_t>(s.elements()) * wanted;
    normaliser = static_cast<uint64_t>(queries) * wanted;
    inner = static_cast<uint64_t>(queries * panels) * wanted;
  }
};

bool is_usable(const ReconstructionShape& s) {
  return s.lanes >= 0 && s.lanes <= kMostBlocks && s.queries >= 0 && s.heads >= 0 &&
         s.head_width >= 0 && s.old_rows >= 0 && s.new_rows >= 0;
}

bool has_inputs(const ReconstructionShape& s, const ReconstructionBuffers& b) {
  if (s.lanes > 0 && (b.counts == nullptr || b.error == nullptr)) return false;
  if (s.elements() > 0 && b.q == nullptr) return false;
  const int64_t old_elements = s.lanes * s.old_rows * s.heads * s.head_width;
  if (old_elements > 0 && (b.k_old == nullptr || b.v_old == nullptr)) return false;
  if (s.new_elements() == 0) return true;
  return b.k_new != nullptr && b.v_new != nullptr &&
         (!s.wants_gradient || (b.k_grad != nullptr && b.v_grad != nullptr));
}

template <typename T, typename E>
DevicePointers<T, E> pointers_of(const ReconstructionShape& shape, const ReconstructionBuffers& b,
                                 void* workspace) {
  const Parts parts(shape);
  auto* at = static_cast<unsigned char*>(workspace);
  DevicePointers<T, E> p = {};
  p.q = static_cast<const E*>(b.q);
  p.k_old = static_cast<const E*>(b.k_old);
  p.v_old = static_cast<const E*>(b.v_old);
  p.k_new = static_cast<const E*>(b.k_new);
  p.v_new = static_cast<const E*>(b.v_new);
  p.counts = b.counts;
  p.error = static_cast<T*>(b.error);
  p.errors = reinterpret_cast<double*>(at);
  if (!shape.wants_gradient) return p;
  p.k_grad = static_cast<T*>(b.k_grad);
  p.v_grad = static_cast<T*>(b.v_grad);
  p.change = reinterpret_cast<T*>(at + parts.errors);
  p.normaliser = reinterpret_cast<T*>(at + parts.errors + parts.change);
  p.inner = reinterpret_cast<T*>(at + parts.errors + parts.change + parts.normaliser);
  return p;
}

template <typename T, typename E>
cudaError_t launch(const ReconstructionShape& shape, const ReconstructionBuffers& buffers,
                   void* workspace, cudaStream_t stream) {
  const DeviceShape s = {shape.heads,
                         shape.queries,
                         shape.head_width,
                         shape.old_rows,
                         shape.new_rows,
                         tiles_of(shape.queries, kQueries),
                         tiles_of(shape.head_width, kPanel),
                         shape.scale};
  const DevicePointers<T, E> p = pointers_of<T, E>(shape, buffers, workspace);
  const int64_t of_lane = s.heads * s.tiles * s.panels;
  const int64_t rows = shape.lanes * s.heads * tiles_of(s.new_rows, kRows<T>) * s.panels;
  if (shape.lanes * of_lane > kMostBlocks || rows > kMostBlocks) return cudaErrorInvalidValue;
  if (shape.lanes == 0) return cudaSuccess;
  if (of_lane > 0) {
    compare_kernel<T, E>
        <<<static_cast<unsigned>(shape.lanes * of_lane), kThreads, 0, stream>>>(s, p);
    const cudaError_t status = cudaGetLastError();
    if (status != cudaSuccess) return status;
  }
  sum_errors_kernel<T>
      <<<static_cast<unsigned>(shape.lanes), 32, 0, stream>>>(of_lane, p.errors, p.error);
  const cudaError_t status = cudaGetLastError();
  if (status != cudaSuccess || !shape.wants_gradient || rows == 0) return status;
  gradient_kernel<T, E><<<static_cast<unsigned>(rows), kThreads, 0, stream>>>(s, p);
  return cudaGetLastError();
}

template <typename T, typename E>
cudaError_t launch_scale(const ReconstructionShape& s, const void* arriving, const void* saved,
                         void* grad, cudaStream_t stream) {
  const int64_t count = s.new_elements();
  if (grad == nullptr || count == 0) return cudaSuccess;
  const int64_t blocks = tiles_of(count, kThreads);
  if (blocks > kMostBlocks || saved == nullptr) return cudaErrorInvalidValue;
  scale_kernel<T, E><<<static_cast<unsigned>(blocks), kThreads, 0, stream>>>(
      count, count / s.lanes, static_cast<const T*>(arriving), static_cast<const T*>(saved),
      static_cast<E*>(grad));
  return cudaGetLastError();
}

}  // namespace

uint64_t reconstruction_workspace(const ReconstructionShape& shape) {
  const Parts parts(shape);
  return parts.errors + parts.change + parts.normaliser + parts.inner;
}

cudaError_t launch_reconstruction(const ReconstructionShape& shape,
                                  const ReconstructionBuffers& buffers, void* workspace,
                                  cudaStream_t stream) {
  if (!is_usable(shape) || !has_inputs(shape, buffers)) return cudaErrorInvalidValue;
  if (workspace == nullptr && reconstruction_workspace(shape) > 0) return cudaErrorInvalidValue;
  return mneme::cuda::with_elements_but_f16(shape.element, [&](auto sum, auto element) {
    return launch<decltype(sum), decltype(element)>(shape, buffers, workspace, stream);
  });
}

cudaError_t launch_reconstruction_backward(const ReconstructionShape& shape,
                                           const ReconstructionGradients& gradients,
                                           cudaStream_t stream) {
  if (!is_usable(shape)) return cudaErrorInvalidValue;
  return mneme::cuda::with_elements_but_f16(shape.element, [&](auto sum, auto element) {
    using T = decltype(sum);
    using E = decltype(element);
    const cudaError_t status =
        launch_scale<T, E>(shape, gradients.arriving, gradients.k_saved, gradients.k_new, stream);
    if (status != cudaSuccess) return status;
    return launch_scale<T, E>(shape, gradients.arriving, gradients.v_saved, gradients.v_new,
                              stream);
  });
}

}  // namespace compressive::cuda
