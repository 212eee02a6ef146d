// The expectation's forward pass on CUDA: the order of each head's queries, then the sums; both
// kernels are described where they are (order.cuh, weighted_sum.cuh). No allocation, no
// synchronisation, the same launches for the same shapes, the same bits for the same inputs.
#include "kernels/cuda/weighted_sum.cuh"
#include "kernels/expectation.hpp"

namespace continuous_ltm {

void Expectation::forward_cuda(const mneme::KernelCall& call) const {
  using namespace device;  // NOLINT
  const ExpectationShape shape = shape_of(call);
  const ExpectationBuffers buffers = buffers_of(call);
  mneme::cuda::check_buffers(call, {call.input(0), call.input(1), call.input(2), call.output(0)},
                             shape.cuda_workspace());
  const SumShape sizes = {shape.heads,
                          shape.queries,
                          shape.head_width,
                          shape.grid.basis(),
                          tiles_of(shape.queries, kTile),
                          tiles_of(shape.head_width, kPanel)};
  auto* order = static_cast<int32_t*>(call.workspace());
  check_launch(with_elements(shape.element, [&](auto sum, auto element) {
    using T = decltype(sum);
    using E = decltype(element);
    const SumPointers<T, E, T> pointers = {
        order, static_cast<const T*>(buffers.mu), static_cast<const T*>(buffers.variance),
        static_cast<const E*>(buffers.values), static_cast<E*>(buffers.context)};
    return launch_sum(shape.grid, shape.lanes, sizes, pointers, order, stream_of(call));
  }));
}

}  // namespace continuous_ltm
