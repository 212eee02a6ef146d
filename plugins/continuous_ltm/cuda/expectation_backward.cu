// The expectation's backward pass: the order of each head's queries, then the gradients; the
// kernels are described where they are (order.cuh, gradients.cuh).
#include "cuda/expectation.cuh"
#include "cuda/gradients.cuh"
#include "cuda/launch.cuh"
#include "cuda/order.cuh"

namespace continuous_ltm::cuda {
namespace {

template <typename T, typename E>
class Backward {
 public:
  Backward(const ExpectationShape& shape, const ExpectationBuffers& buffers,
           const ExpectationGradients& gradients, int32_t* order, cudaStream_t stream)
      : grid_(device_grid(shape.grid, sizeof(T) == sizeof(double))),
        heads_(shape.lanes * shape.heads),
        sizes_{shape.heads,
               shape.queries,
               shape.head_width,
               shape.grid.basis(),
               0,
               tiles_of(shape.head_width, kPanel)},
        pointers_{order,
                  static_cast<const T*>(buffers.mu),
                  static_cast<const T*>(buffers.variance),
                  static_cast<const E*>(buffers.values),
                  static_cast<const E*>(gradients.context),
                  static_cast<T*>(gradients.mu),
                  static_cast<T*>(gradients.variance),
                  static_cast<E*>(gradients.values)},
        order_(order),
        stream_(stream) {}

  cudaError_t launch() {
    if (heads_ > kMostBlocks) return cudaErrorInvalidValue;
    if (heads_ * sizes_.queries > 0) {
      order_kernel<<<static_cast<unsigned>(heads_), 32, 0, stream_>>>(
          grid_, sizes_.queries, pointers_.mu, pointers_.variance, order_);
    }
    cudaError_t status = cudaGetLastError();
    if (status == cudaSuccess) status = densities();
    if (status == cudaSuccess) status = values();
    return status;
  }

 private:
  cudaError_t densities() {
    if (pointers_.mu_grad == nullptr && pointers_.variance_grad == nullptr) return cudaSuccess;
    sizes_.tiles = tiles_of(sizes_.queries, kTile);
    const int64_t blocks = heads_ * sizes_.tiles;
    if (blocks > kMostBlocks) return cudaErrorInvalidValue;
    if (blocks == 0) return cudaSuccess;
    density_gradients_kernel<<<static_cast<unsigned>(blocks), kThreads, 0, stream_>>>(grid_, sizes_,
                                                                                      pointers_);
    return cudaGetLastError();
  }
  cudaError_t values() {
    if (pointers_.values_grad == nullptr) return cudaSuccess;
    sizes_.tiles = tiles_of(grid_.centres, kTile);
    const int64_t blocks = heads_ * grid_.widths * sizes_.tiles * sizes_.panels;
    if (blocks > kMostBlocks) return cudaErrorInvalidValue;
    if (blocks == 0) return cudaSuccess;
    value_gradients_kernel<<<static_cast<unsigned>(blocks), kThreads, 0, stream_>>>(grid_, sizes_,
                                                                                    pointers_);
    return cudaGetLastError();
  }

  DeviceGrid grid_;
  int64_t heads_;
  GradientShape sizes_;
  GradientPointers<T, E> pointers_;
  int32_t* order_;
  cudaStream_t stream_;
};

cudaError_t clear(void* to, int64_t elements, std::size_t size, cudaStream_t stream) {
  if (to == nullptr || elements == 0) return cudaSuccess;
  return cudaMemsetAsync(to, 0, static_cast<std::size_t>(elements) * size, stream);
}

template <typename T, typename E>
cudaError_t clear_all(const ExpectationShape& s, const ExpectationGradients& gradients,
                      cudaStream_t stream) {
  cudaError_t status = clear(gradients.mu, s.densities(), sizeof(T), stream);
  if (status == cudaSuccess) status = clear(gradients.variance, s.densities(), sizeof(T), stream);
  if (status != cudaSuccess) return status;
  return clear(gradients.values, s.lanes * s.grid.basis() * s.heads * s.head_width, sizeof(E),
               stream);
}

}  // namespace

cudaError_t launch_expectation_backward(const ExpectationShape& shape,
                                        const ExpectationBuffers& buffers,
                                        const ExpectationGradients& gradients, void* workspace,
                                        cudaStream_t stream) {
  if (!is_usable(shape)) return cudaErrorInvalidValue;
  return with_elements(shape.element, [&](auto sum, auto element) {
    using T = decltype(sum);
    using E = decltype(element);
    // Without columns or queries no gradient arrives either; what is wanted is zeros.
    if (gradients.context == nullptr) return clear_all<T, E>(shape, gradients, stream);
    if (buffers.mu == nullptr || buffers.variance == nullptr || buffers.values == nullptr ||
        workspace == nullptr) {
      return cudaErrorInvalidValue;
    }
    return Backward<T, E>(shape, buffers, gradients, static_cast<int32_t*>(workspace), stream)
        .launch();
  });
}

}  // namespace continuous_ltm::cuda
