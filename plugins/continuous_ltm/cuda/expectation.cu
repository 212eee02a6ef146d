// The expectation's forward pass: the order of each head's queries, then the sums; both kernels are
// described where they are (order.cuh, weighted_sum.cuh).
#include "cuda/expectation.cuh"
#include "cuda/launch.cuh"
#include "cuda/order.cuh"
#include "cuda/weighted_sum.cuh"

namespace continuous_ltm::cuda {
namespace {

template <typename T, typename E>
cudaError_t launch(const ExpectationShape& shape, const ExpectationBuffers& buffers, int32_t* order,
                   cudaStream_t stream) {
  const DeviceGrid grid = device_grid(shape.grid, sizeof(T) == sizeof(double));
  const SumShape sizes = {shape.heads,
                          shape.queries,
                          shape.head_width,
                          shape.grid.basis(),
                          tiles_of(shape.queries, kTile),
                          tiles_of(shape.head_width, kPanel)};
  const SumPointers<T, E, T> pointers = {
      order, static_cast<const T*>(buffers.mu), static_cast<const T*>(buffers.variance),
      static_cast<const E*>(buffers.values), static_cast<E*>(buffers.context)};
  const int64_t heads = shape.lanes * shape.heads;
  const int64_t blocks = heads * sizes.tiles * sizes.panels;
  if (blocks > kMostBlocks) return cudaErrorInvalidValue;
  if (blocks == 0) return cudaSuccess;
  order_kernel<<<static_cast<unsigned>(heads), 32, 0, stream>>>(grid, shape.queries, pointers.mu,
                                                                pointers.variance, order);
  const cudaError_t status = cudaGetLastError();
  if (status != cudaSuccess) return status;
  weighted_sum_kernel<<<static_cast<unsigned>(blocks), kThreads, 0, stream>>>(grid, sizes,
                                                                              pointers);
  return cudaGetLastError();
}

}  // namespace

cudaError_t launch_expectation(const ExpectationShape& shape, const ExpectationBuffers& buffers,
                               void* workspace, cudaStream_t stream) {
  const bool has_work = shape.densities() * shape.head_width > 0;
  if (!is_usable(shape)) return cudaErrorInvalidValue;
  if (has_work &&
      (buffers.mu == nullptr || buffers.variance == nullptr || buffers.values == nullptr ||
       buffers.context == nullptr || workspace == nullptr)) {
    return cudaErrorInvalidValue;
  }
  return with_elements(shape.element, [&](auto sum, auto element) {
    return launch<decltype(sum), decltype(element)>(shape, buffers,
                                                    static_cast<int32_t*>(workspace), stream);
  });
}

}  // namespace continuous_ltm::cuda
