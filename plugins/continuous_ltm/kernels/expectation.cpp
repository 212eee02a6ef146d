#include "kernels/expectation.hpp"

#include <algorithm>
#include <string>

#include "mneme_kernels/infer.hpp"

namespace continuous_ltm {
namespace {

void check_values(const mneme::TypedShape& values, const mneme::TypedShape& mu, int64_t basis) {
  check_rank("values", values.shape, 4, "[B, N, H, d]");
  check_shape("values", values.shape, {mu.shape[0], basis, mu.shape[1], values.shape[3]});
  using mneme::DType;
  if (mu.dtype == DType::kF64) {
    mneme::check_dtype("values", values.dtype, {DType::kF64}, "f64 with f64 densities");
  } else {
    mneme::check_dtype("values", values.dtype, {DType::kF32, DType::kBF16, DType::kF16},
                       "f32, bf16 or f16");
  }
}

// The shape, from the inputs of a plan or of a call.
template <typename Source>
ExpectationShape expectation_shape(const Source& from, const BasisGrid& grid) {
  const mneme::TypedShape mu = mneme::input_of(from, 0);
  const mneme::TypedShape values = mneme::input_of(from, 2);
  ExpectationShape shape;
  shape.lanes = mu.shape[0];
  shape.heads = mu.shape[1];
  shape.queries = mu.shape[2];
  shape.head_width = values.shape[3];
  shape.grid = grid;
  shape.element = mneme::element_of(values.dtype);
  return shape;
}

}  // namespace

void check_densities(const mneme::TypedShape& mu, const mneme::TypedShape& variance) {
  check_rank("mu", mu.shape, 3, "[B, H, T]");
  check_shape("variance", variance.shape, mu.shape);
  const bool is_float = mu.dtype == mneme::DType::kF32 || mu.dtype == mneme::DType::kF64;
  if (!is_float || variance.dtype != mu.dtype) {
    mneme::fail(MNEME_E_DTYPE, "mu and variance: expected f32 or f64 for both, got dtype codes " +
                                   code_of(mu.dtype) + " and " + code_of(variance.dtype));
  }
}

Expectation::Expectation(const BasisGrid& grid, mneme::cpu::InstructionSet set)
    : grid_(grid), kernels_(&mneme::cpu::kernels<ExpectationKernels>(set)) {}

ExpectationBuffers Expectation::buffers_of(const mneme::KernelCall& call) {
  ExpectationBuffers buffers;
  buffers.mu = call.input(0).data<void>();
  buffers.variance = call.input(1).data<void>();
  buffers.values = call.input(2).data<void>();
  buffers.context = call.output(0).data<void>();
  return buffers;
}

ExpectationGradients Expectation::gradients_of(const mneme::KernelCall& call) {
  ExpectationGradients gradients;
  gradients.context = call.grad_output(0).data<void>();
  gradients.mu = call.grad_input(0).data<void>();
  gradients.variance = call.grad_input(1).data<void>();
  gradients.values = call.grad_input(2).data<void>();
  return gradients;
}

void Expectation::infer(mneme::KernelPlan& plan) const {
  const mneme::TypedShape mu = plan.input(0);
  const mneme::TypedShape values = plan.input(2);
  check_densities(mu, plan.input(1));
  check_values(values, mu, grid_.basis());
  const ExpectationShape shape = expectation_shape(plan, grid_);
  plan.output(0, values.dtype, {shape.lanes, shape.queries, shape.heads, shape.head_width});
  const bool is_cuda = plan.is_cuda();
  plan.workspace(is_cuda ? shape.cuda_workspace() : forward_strands(shape).workspace_bytes());
  plan.backward_workspace(is_cuda ? shape.cuda_workspace()
                                  : backward_strands(shape).workspace_bytes());
}

mneme::cpu::Strands Expectation::forward_strands(const ExpectationShape& shape) const {
  return {shape.lanes * shape.heads, kernels_->expect_scratch(shape)};
}
mneme::cpu::Strands Expectation::backward_strands(const ExpectationShape& shape) const {
  return {shape.lanes * shape.heads, kernels_->expect_backward_scratch(shape)};
}

ExpectationShape Expectation::shape_of(const mneme::KernelCall& call) const {
  return expectation_shape(call, grid_);
}

void Expectation::forward_cpu(const mneme::KernelCall& call) const {
  const ExpectationShape shape = shape_of(call);
  const ExpectationBuffers buffers = buffers_of(call);
  forward_strands(shape).run(call.workspace(), [&](void* scratch, int64_t head) {
    kernels_->expect(shape, buffers, scratch, head);
  });
}

void Expectation::backward_cpu(const mneme::KernelCall& call) const {
  const ExpectationShape shape = shape_of(call);
  const ExpectationBuffers buffers = buffers_of(call);
  const ExpectationGradients gradients = gradients_of(call);
  if (gradients.context == nullptr) {
    for (uint32_t i = 0; i < kInputs; ++i) call.grad_input(i).clear();
    return;
  }
  backward_strands(shape).run(call.workspace(), [&](void* scratch, int64_t head) {
    kernels_->expect_backward(shape, buffers, gradients, scratch, head);
  });
}

}  // namespace continuous_ltm
