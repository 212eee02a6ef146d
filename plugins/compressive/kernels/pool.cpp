#include "kernels/pool.hpp"

#include <algorithm>
#include <string>

#include "mneme/cpp/kernel_checks.hpp"
#include "mneme_kernels/cpu/strands.hpp"

namespace compressive {
namespace {

// Calls body(window) for every window of every lane, on the host's threads.
template <typename Body>
void for_each_window(const PoolShape& shape, const Body& body) {
  const int64_t elements = std::max<int64_t>(1, shape.rate * shape.width);
  mneme::cpu::for_each_piece(shape.lanes * shape.windows(), std::max<int64_t>(1, 16384 / elements),
                             body);
}

}  // namespace

Pool::Pool(mneme::cpu::InstructionSet set) : kernels_(&mneme::cpu::kernels<PoolKernels>(set)) {}

PoolShape Pool::shape_of(const mneme::KernelCall& call) {
  PoolShape shape;
  shape.lanes = call.input(0).dim(0);
  shape.rows = call.input(0).dim(1);
  shape.width = call.input(0).dim(2);
  shape.rate = call.integer(0);
  shape.kind = static_cast<PoolKind>(call.integer(1));
  shape.element = mneme::element_of(call.input(0).dtype());
  return shape;
}

PoolBuffers Pool::buffers_of(const mneme::KernelCall& call) {
  PoolBuffers buffers;
  buffers.rows = call.input(0).data<void>();
  buffers.pooled = call.output(0).data<void>();
  return buffers;
}

PoolGradients Pool::gradients_of(const mneme::KernelCall& call) {
  PoolGradients gradients;
  gradients.rows = call.input(0).data<void>();
  gradients.arriving = call.grad_output(0).data<void>();
  gradients.rows_grad = call.grad_input(0).data<void>();
  return gradients;
}

void Pool::infer(mneme::KernelPlan& plan) const {
  const mneme::TypedShape rows = plan.input(0);
  check_rank("rows", rows.shape, 3, "[B, m, D]");
  mneme::visit_float(rows.dtype, [](auto) {});
  const int64_t rate = plan.integer(0);
  const int64_t kind = plan.integer(1);
  if (rate < 1) {
    mneme::fail(MNEME_E_INVALID_ARGUMENT, "rate: expected at least 1, got " + std::to_string(rate));
  }
  if (kind != 0 && kind != 1) {
    mneme::fail(MNEME_E_INVALID_ARGUMENT,
                "kind: expected 0 (mean) or 1 (max), got " + std::to_string(kind));
  }
  plan.output(0, rows.dtype, {rows.shape[0], rows.shape[1] / rate, rows.shape[2]});
}

void Pool::forward_cpu(const mneme::KernelCall& call) const {
  const PoolShape shape = shape_of(call);
  const PoolBuffers buffers = buffers_of(call);
  for_each_window(shape, [&](int64_t window) { kernels_->pool(shape, buffers, window); });
}

void Pool::backward_cpu(const mneme::KernelCall& call) const {
  const PoolShape shape = shape_of(call);
  const PoolGradients gradients = gradients_of(call);
  if (gradients.rows_grad == nullptr) return;
  // Without a window no gradient arrives either.
  if (gradients.arriving == nullptr) {
    call.grad_input(0).clear();
    return;
  }
  for_each_window(shape,
                  [&](int64_t window) { kernels_->pool_backward(shape, gradients, window); });
}

}  // namespace compressive
