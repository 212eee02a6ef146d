#include "expectation.hpp"

#include <algorithm>
#include <string>

#include "cpu/kernel_table.hpp"
#include "density_checks.hpp"
#include "mneme/cpu/strands.hpp"
#ifdef MNEME_HAS_CUDA
#include "cuda/expectation.cuh"
#include "mneme/cuda/status.hpp"
#endif

namespace continuous_ltm {
namespace {

void check_values(const mneme::TypedShape& values, const mneme::TypedShape& mu, int64_t basis) {
  check_rank("values", values.shape, 4, "[B, N, H, d]");
  check_shape("values", values.shape, {mu.shape[0], basis, mu.shape[1], values.shape[3]});
  const bool is_f64 = mu.dtype == mneme::DType::kF64;
  const bool fits = is_f64 ? values.dtype == mneme::DType::kF64
                           : values.dtype == mneme::DType::kF32 ||
                                 values.dtype == mneme::DType::kBF16 ||
                                 values.dtype == mneme::DType::kF16;
  if (fits) return;
  mneme::fail(MNEME_E_DTYPE, std::string("values: expected ") +
                                 (is_f64 ? "f64 with f64 densities" : "f32, bf16 or f16") +
                                 ", got dtype code " + code_of(values.dtype));
}

// infer is not told the device: a plan's workspace is enough for either.
uint64_t cuda_workspace([[maybe_unused]] const ExpectationShape& shape) {
#ifdef MNEME_HAS_CUDA
  return cuda::expectation_workspace(shape);
#else
  return 0;
#endif
}

ExpectationBuffers inputs_of(const mneme::KernelCall& call) {
  ExpectationBuffers buffers;
  buffers.mu = call.input(0).data<void>();
  buffers.variance = call.input(1).data<void>();
  buffers.values = call.input(2).data<void>();
  return buffers;
}

ExpectationGradients gradients_of(const mneme::KernelCall& call) {
  ExpectationGradients gradients;
  gradients.context = call.grad_output(0).data<void>();
  gradients.mu = call.grad_input(0).data<void>();
  gradients.variance = call.grad_input(1).data<void>();
  gradients.values = call.grad_input(2).data<void>();
  return gradients;
}

void clear_gradients(const mneme::KernelCall& call) {
  for (uint32_t i = 0; i < Expectation::kInputs; ++i) call.grad_input(i).clear();
}

}  // namespace

Expectation::Expectation(const BasisGrid& grid, const cpu::KernelTable* table)
    : grid_(grid), table_(table != nullptr ? table : cpu::kernel_tables().front()) {}

void Expectation::infer(mneme::KernelPlan& plan) const {
  const mneme::TypedShape mu = plan.input(0);
  const mneme::TypedShape values = plan.input(2);
  check_densities(mu, plan.input(1));
  check_values(values, mu, grid_.basis());
  ExpectationShape shape;
  shape.lanes = mu.shape[0];
  shape.heads = mu.shape[1];
  shape.queries = mu.shape[2];
  shape.head_width = values.shape[3];
  shape.grid = grid_;
  shape.element = mneme::element_of(values.dtype);
  plan.output(0, values.dtype, {shape.lanes, shape.queries, shape.heads, shape.head_width});
  plan.workspace(std::max(forward_strands(shape).workspace_bytes(), cuda_workspace(shape)));
  plan.backward_workspace(
      std::max(backward_strands(shape).workspace_bytes(), cuda_workspace(shape)));
}

mneme::cpu::Strands Expectation::forward_strands(const ExpectationShape& shape) const {
  return {shape.lanes * shape.heads, table_->expect_scratch(shape)};
}
mneme::cpu::Strands Expectation::backward_strands(const ExpectationShape& shape) const {
  return {shape.lanes * shape.heads, table_->expect_backward_scratch(shape)};
}

ExpectationShape Expectation::shape_of(const mneme::KernelCall& call) const {
  ExpectationShape shape;
  shape.lanes = call.input(0).dim(0);
  shape.heads = call.input(0).dim(1);
  shape.queries = call.input(0).dim(2);
  shape.head_width = call.input(2).dim(3);
  shape.grid = grid_;
  shape.element = mneme::element_of(call.input(2).dtype());
  return shape;
}

void Expectation::forward_cpu(const mneme::KernelCall& call) const {
  const ExpectationShape shape = shape_of(call);
  ExpectationBuffers buffers = inputs_of(call);
  buffers.context = call.output(0).data<void>();
  forward_strands(shape).run(call.workspace(), [&](void* scratch, int64_t head) {
    table_->expect(shape, buffers, scratch, head);
  });
}

void Expectation::backward_cpu(const mneme::KernelCall& call) const {
  const ExpectationShape shape = shape_of(call);
  const ExpectationBuffers buffers = inputs_of(call);
  const ExpectationGradients gradients = gradients_of(call);
  if (gradients.context == nullptr) return clear_gradients(call);
  backward_strands(shape).run(call.workspace(), [&](void* scratch, int64_t head) {
    table_->expect_backward(shape, buffers, gradients, scratch, head);
  });
}

#ifdef MNEME_HAS_CUDA
void Expectation::forward_cuda(const mneme::KernelCall& call) const {
  ExpectationBuffers buffers = inputs_of(call);
  buffers.context = call.output(0).data<void>();
  mneme::cuda::check_launch(cuda::launch_expectation(shape_of(call), buffers, call.workspace(),
                                                     static_cast<cudaStream_t>(call.stream())));
}

void Expectation::backward_cuda(const mneme::KernelCall& call) const {
  mneme::cuda::check_launch(cuda::launch_expectation_backward(
      shape_of(call), inputs_of(call), gradients_of(call), call.workspace(),
      static_cast<cudaStream_t>(call.stream())));
}
#endif

}  // namespace continuous_ltm
