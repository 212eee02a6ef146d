// The signal at positions: an expectation with one head of D columns, means in double and variances
// of 0; both kernels are described where they are (order.cuh, weighted_sum.cuh).
#include "cuda/launch.cuh"
#include "cuda/order.cuh"
#include "cuda/signal.cuh"
#include "cuda/weighted_sum.cuh"

namespace continuous_ltm::cuda {
namespace {

template <typename T>
cudaError_t launch(const SignalShape& shape, const SignalBuffers& buffers, int32_t* order,
                   cudaStream_t stream) {
  const DeviceGrid grid = device_grid(shape.grid, sizeof(T) == sizeof(double));
  const SumShape sizes = {1,
                          shape.samples,
                          shape.width,
                          shape.grid.basis(),
                          tiles_of(shape.samples, kTile),
                          tiles_of(shape.width, kPanel)};
  const SumPointers<T, T, double> pointers = {order, buffers.positions, nullptr,
                                              static_cast<const T*>(buffers.coefficients),
                                              static_cast<T*>(buffers.rows)};
  const int64_t blocks = shape.lanes * sizes.tiles * sizes.panels;
  if (blocks > kMostBlocks) return cudaErrorInvalidValue;
  if (blocks == 0) return cudaSuccess;
  order_kernel<<<static_cast<unsigned>(shape.lanes), 32, 0, stream>>>(
      grid, shape.samples, pointers.mu, pointers.variance, order);
  const cudaError_t status = cudaGetLastError();
  if (status != cudaSuccess) return status;
  weighted_sum_kernel<<<static_cast<unsigned>(blocks), kThreads, 0, stream>>>(grid, sizes,
                                                                              pointers);
  return cudaGetLastError();
}

}  // namespace

cudaError_t launch_signal(const SignalShape& shape, const SignalBuffers& buffers, void* workspace,
                          cudaStream_t stream) {
  const bool has_work = shape.lanes * shape.samples * shape.width > 0;
  if (shape.lanes < 0 || shape.samples < 0 || shape.samples > kMostIndices || shape.width < 0 ||
      !is_usable(shape.grid)) {
    return cudaErrorInvalidValue;
  }
  if (has_work && (buffers.positions == nullptr || buffers.coefficients == nullptr ||
                   buffers.rows == nullptr || workspace == nullptr)) {
    return cudaErrorInvalidValue;
  }
  auto* order = static_cast<int32_t*>(workspace);
  return shape.is_f64 ? launch<double>(shape, buffers, order, stream)
                      : launch<float>(shape, buffers, order, stream);
}

}  // namespace continuous_ltm::cuda
