#include "signal.hpp"

#include <algorithm>

#include "cpu/kernel_table.hpp"
#include "density_checks.hpp"
#include "mneme/cpu/strands.hpp"
#ifdef MNEME_HAS_CUDA
#include "cuda/signal.cuh"
#include "mneme/cuda/status.hpp"
#endif

namespace continuous_ltm {
namespace {

void check_types(mneme::DType positions, mneme::DType coefficients) {
  if (positions != mneme::DType::kF64) {
    mneme::fail(MNEME_E_DTYPE, "positions: expected f64, got dtype code " + code_of(positions));
  }
  if (coefficients != mneme::DType::kF32 && coefficients != mneme::DType::kF64) {
    mneme::fail(MNEME_E_DTYPE,
                "coefficients: expected f32 or f64, got dtype code " + code_of(coefficients));
  }
}

mneme::cpu::Strands strands_of(const SignalShape& shape, const cpu::KernelTable& table) {
  const int64_t panels = (shape.width + cpu::kSignalPanel - 1) / cpu::kSignalPanel;
  return {shape.lanes * panels, table.signal_scratch(shape)};
}

// infer is not told the device: a plan's workspace is enough for either.
uint64_t cuda_workspace([[maybe_unused]] const SignalShape& shape) {
#ifdef MNEME_HAS_CUDA
  return cuda::signal_workspace(shape);
#else
  return 0;
#endif
}

SignalBuffers buffers_of(const mneme::KernelCall& call) {
  SignalBuffers buffers;
  buffers.positions = call.input(0).data<double>();
  buffers.coefficients = call.input(1).data<void>();
  buffers.rows = call.output(0).data<void>();
  return buffers;
}

}  // namespace

Signal::Signal(const BasisGrid& grid, const cpu::KernelTable* table)
    : grid_(grid), table_(table != nullptr ? table : cpu::kernel_tables().front()) {}

void Signal::infer(mneme::KernelPlan& plan) const {
  const mneme::TypedShape positions = plan.input(0);
  const mneme::TypedShape coefficients = plan.input(1);
  check_rank("positions", positions.shape, 2, "[B, M]");
  check_rank("coefficients", coefficients.shape, 3, "[B, N, D]");
  SignalShape shape;
  shape.lanes = positions.shape[0];
  shape.samples = positions.shape[1];
  shape.width = coefficients.shape[2];
  shape.grid = grid_;
  shape.is_f64 = coefficients.dtype == mneme::DType::kF64;
  check_shape("coefficients", coefficients.shape, {shape.lanes, grid_.basis(), shape.width});
  check_types(positions.dtype, coefficients.dtype);
  plan.output(0, coefficients.dtype, {shape.lanes, shape.samples, shape.width});
  plan.workspace(std::max(strands_of(shape, *table_).workspace_bytes(), cuda_workspace(shape)));
}

SignalShape Signal::shape_of(const mneme::KernelCall& call) const {
  SignalShape shape;
  shape.lanes = call.input(0).dim(0);
  shape.samples = call.input(0).dim(1);
  shape.width = call.input(1).dim(2);
  shape.grid = grid_;
  shape.is_f64 = call.input(1).dtype() == mneme::DType::kF64;
  return shape;
}

void Signal::forward_cpu(const mneme::KernelCall& call) const {
  const SignalShape shape = shape_of(call);
  const SignalBuffers buffers = buffers_of(call);
  strands_of(shape, *table_).run(call.workspace(), [&](void* scratch, int64_t panel) {
    table_->signal(shape, buffers, scratch, panel);
  });
}

#ifdef MNEME_HAS_CUDA
void Signal::forward_cuda(const mneme::KernelCall& call) const {
  mneme::cuda::check_launch(cuda::launch_signal(shape_of(call), buffers_of(call), call.workspace(),
                                                static_cast<cudaStream_t>(call.stream())));
}
#endif

}  // namespace continuous_ltm
