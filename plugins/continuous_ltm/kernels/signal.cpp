#include "kernels/signal.hpp"

#include <algorithm>

#include "mneme_kernels/cpu/strands.hpp"
#include "mneme_kernels/infer.hpp"

namespace continuous_ltm {
namespace {

mneme::cpu::Strands strands_of(const SignalShape& shape, const SignalKernels& kernels) {
  const int64_t panels = (shape.width + kSignalPanel - 1) / kSignalPanel;
  return {shape.lanes * panels, kernels.signal_scratch(shape)};
}

// The shape, from the inputs of a plan or of a call.
template <typename Source>
SignalShape signal_shape(const Source& from, const BasisGrid& grid) {
  const mneme::TypedShape positions = mneme::input_of(from, 0);
  const mneme::TypedShape coefficients = mneme::input_of(from, 1);
  SignalShape shape;
  shape.lanes = positions.shape[0];
  shape.samples = positions.shape[1];
  shape.width = coefficients.shape[2];
  shape.grid = grid;
  shape.is_f64 = coefficients.dtype == mneme::DType::kF64;
  return shape;
}

}  // namespace

Signal::Signal(const BasisGrid& grid, mneme::cpu::InstructionSet set)
    : grid_(grid), kernels_(&mneme::cpu::kernels<SignalKernels>(set)) {}

SignalBuffers Signal::buffers_of(const mneme::KernelCall& call) {
  SignalBuffers buffers;
  buffers.positions = call.input(0).data<double>();
  buffers.coefficients = call.input(1).data<void>();
  buffers.rows = call.output(0).data<void>();
  return buffers;
}

void Signal::infer(mneme::KernelPlan& plan) const {
  const mneme::TypedShape positions = plan.input(0);
  const mneme::TypedShape coefficients = plan.input(1);
  check_rank("positions", positions.shape, 2, "[B, M]");
  check_rank("coefficients", coefficients.shape, 3, "[B, N, D]");
  const SignalShape shape = signal_shape(plan, grid_);
  check_shape("coefficients", coefficients.shape, {shape.lanes, grid_.basis(), shape.width});
  using mneme::DType;
  mneme::check_dtype("positions", positions.dtype, {DType::kF64}, "f64");
  mneme::check_dtype("coefficients", coefficients.dtype, {DType::kF32, DType::kF64}, "f32 or f64");
  plan.output(0, coefficients.dtype, {shape.lanes, shape.samples, shape.width});
  plan.workspace(plan.is_cuda() ? shape.cuda_workspace()
                                : strands_of(shape, *kernels_).workspace_bytes());
}

SignalShape Signal::shape_of(const mneme::KernelCall& call) const {
  return signal_shape(call, grid_);
}

void Signal::forward_cpu(const mneme::KernelCall& call) const {
  const SignalShape shape = shape_of(call);
  const SignalBuffers buffers = buffers_of(call);
  strands_of(shape, *kernels_).run(call.workspace(), [&](void* scratch, int64_t panel) {
    kernels_->signal(shape, buffers, scratch, panel);
  });
}

}  // namespace continuous_ltm
