// The signal at positions on CUDA: an expectation with one head of D columns, means in double and
// variances of 0; both kernels are described where they are (order.cuh, weighted_sum.cuh). No
// allocation, no synchronisation, the same launches for the same shapes.
#include "kernels/cuda/weighted_sum.cuh"
#include "kernels/signal.hpp"

namespace continuous_ltm {

void Signal::forward_cuda(const mneme::KernelCall& call) const {
  using namespace device;  // NOLINT
  const SignalShape shape = shape_of(call);
  const SignalBuffers buffers = buffers_of(call);
  check_buffers(call, {call.input(0), call.input(1), call.output(0)}, shape.cuda_workspace());
  const SumShape sizes = {1,
                          shape.samples,
                          shape.width,
                          shape.grid.basis(),
                          tiles_of(shape.samples, kTile),
                          tiles_of(shape.width, kPanel)};
  auto* order = static_cast<int32_t*>(call.workspace());
  const auto run = [&](auto element) {
    using T = decltype(element);
    const SumPointers<T, T, double> pointers = {order, buffers.positions, nullptr,
                                                static_cast<const T*>(buffers.coefficients),
                                                static_cast<T*>(buffers.rows)};
    return launch_sum(shape.grid, shape.lanes, sizes, pointers, order, stream_of(call));
  };
  check_launch(shape.is_f64 ? run(double{}) : run(float{}));
}

}  // namespace continuous_ltm
