#include "look_ahead.hpp"

#include <algorithm>
#include <cmath>
#include <string>

#include "cpu/kernel_table.hpp"
#include "cpu/workspace.hpp"
#include "mneme/cpp/kernel_checks.hpp"
#ifdef MNEME_HAS_CUDA
#include "cuda/look_ahead.cuh"
#include "mneme/cuda/status.hpp"
#include "mneme/cuda/views.hpp"
#endif

namespace lamemo {
namespace {

constexpr const char* kNames[] = {
    "q", "k", "v", "table", "content_bias", "position_bias", "valid", "lse", "context"};
constexpr int64_t kFarthest = int64_t{1} << 40;  // sums of a few places and offsets stay exact

mneme::DType sum_type(mneme::DType dtype) {
  return dtype == mneme::DType::kF64 ? mneme::DType::kF64 : mneme::DType::kF32;
}

void check_types(const mneme::KernelPlan& plan) {
  const mneme::DType dtype = plan.input(0).dtype;
  if (dtype != mneme::DType::kF32 && dtype != mneme::DType::kF64 && dtype != mneme::DType::kBF16) {
    mneme::fail(MNEME_E_DTYPE, "q: expected f32, f64 or bf16, got dtype code " + code_of(dtype));
  }
  for (uint32_t i = 1; i < LookAhead::kInputs; ++i) {
    const bool is_element = i < 4;
    const mneme::DType wanted = is_element ? dtype : i == 6 ? mneme::DType::kBool : sum_type(dtype);
    const mneme::DType got = plan.input(i).dtype;
    if (got == wanted) continue;
    mneme::fail(MNEME_E_DTYPE, std::string(kNames[i]) + ": expected " +
                                   (is_element ? "the type of q"
                                    : i == 6   ? "bool"
                                               : "the type of the sums") +
                                   ", code " + code_of(wanted) + ", got dtype code " +
                                   code_of(got));
  }
}

void check_shapes(const mneme::KernelPlan& plan) {
  const mneme::Shape q = plan.input(0).shape;
  check_rank("q", q, 4, "[B, M, H, d]");
  const mneme::Shape k = plan.input(1).shape;
  check_rank("k", k, 4, "[B, W, H, d]");
  check_shape("k", k, {q[0], k[1], q[2], q[3]});
  check_shape("v", plan.input(2).shape, k);
  const mneme::Shape table = plan.input(3).shape;
  check_rank("table", table, 3, "[H, R, d]");
  check_shape("table", table, {q[2], table[1], q[3]});
  check_shape("content_bias", plan.input(4).shape, {q[2], q[3]});
  check_shape("position_bias", plan.input(5).shape, {q[2], q[3]});
  check_shape("valid", plan.input(6).shape, {k[0], k[1]});
  check_shape("lse", plan.input(7).shape, {q[0], q[1], q[2]});
  check_shape("context", plan.input(8).shape, q);
}

void check_place(const char* what, int64_t value) {
  if (value >= -kFarthest && value <= kFarthest) return;
  mneme::fail(MNEME_E_INVALID_ARGUMENT, std::string(what) +
                                            ": expected a number from -2^40 to "
                                            "2^40, got " +
                                            std::to_string(value));
}

void check_scalars(const mneme::KernelPlan& plan) {
  check_place("first", plan.integer(0));
  check_place("least", plan.integer(1));
  if (!std::isfinite(plan.real(0))) {
    mneme::fail(MNEME_E_INVALID_ARGUMENT,
                "scale: expected a finite number, got " + std::to_string(plan.real(0)));
  }
}

// The last key as the first query sees it has the largest offset.
void check_offsets(const LookAheadShape& shape) {
  if (shape.queries == 0 || shape.keys == 0) return;
  const int64_t largest = shape.first + shape.keys - 1;
  if (shape.offsets > largest - shape.least) return;
  mneme::fail(MNEME_E_SHAPE, "table: expected rows for the offsets " + std::to_string(shape.least) +
                                 " to " + std::to_string(largest) + ", R of " +
                                 std::to_string(largest - shape.least + 1) + " at least, got " +
                                 std::to_string(shape.offsets));
}

LookAheadShape make_shape(const mneme::Shape& q, int64_t keys, int64_t offsets,
                          mneme::DType dtype) {
  LookAheadShape shape;
  shape.lanes = q[0];
  shape.queries = q[1];
  shape.keys = keys;
  shape.heads = q[2];
  shape.head_width = q[3];
  shape.offsets = offsets;
  shape.element = mneme::element_of(dtype);
  return shape;
}

LookAheadShape shape_of(const mneme::KernelCall& call) {
  const mneme::View q = call.input(0);
  LookAheadShape shape = make_shape({q.dim(0), q.dim(1), q.dim(2), q.dim(3)}, call.input(1).dim(1),
                                    call.input(3).dim(1), q.dtype());
  shape.first = call.integer(0);
  shape.least = call.integer(1);
  shape.scale = call.real(0);
  return shape;
}

LookAheadBuffers buffers_of(const mneme::KernelCall& call) {
  LookAheadBuffers buffers;
  buffers.q = call.input(0).data<void>();
  buffers.k = call.input(1).data<void>();
  buffers.v = call.input(2).data<void>();
  buffers.table = call.input(3).data<void>();
  buffers.content_bias = call.input(4).data<void>();
  buffers.position_bias = call.input(5).data<void>();
  buffers.valid = call.input(6).data<const uint8_t>();
  buffers.carried_lse = call.input(7).data<void>();
  buffers.carried = call.input(8).data<void>();
  buffers.context = call.output(0).data<void>();
  buffers.lse = call.output(1).data<void>();
  return buffers;
}

LookAheadGradients gradients_of(const mneme::KernelCall& call) {
  LookAheadGradients gradients;
  gradients.context = call.grad_output(0).data<void>();
  gradients.lse = call.grad_output(1).data<void>();
  gradients.q = call.grad_input(0).data<void>();
  gradients.k = call.grad_input(1).data<void>();
  gradients.v = call.grad_input(2).data<void>();
  gradients.table = call.grad_input(3).data<void>();
  gradients.content_bias = call.grad_input(4).data<void>();
  gradients.position_bias = call.grad_input(5).data<void>();
  return gradients;
}

// infer is not told the device: a plan's workspace is enough for either.
uint64_t cuda_workspace([[maybe_unused]] const LookAheadShape& shape) {
#ifdef MNEME_HAS_CUDA
  return cuda::look_ahead_backward_workspace(shape);
#else
  return 0;
#endif
}

}  // namespace

LookAhead::LookAhead(const cpu::KernelTable* table)
    : table_(table != nullptr ? table : cpu::kernel_tables().front()) {}

void LookAhead::infer(mneme::KernelPlan& plan) const {
  check_types(plan);
  check_shapes(plan);
  check_scalars(plan);
  const mneme::TypedShape q = plan.input(0);
  LookAheadShape shape =
      make_shape(q.shape, plan.input(1).shape[1], plan.input(3).shape[1], q.dtype);
  shape.first = plan.integer(0);
  shape.least = plan.integer(1);
  check_offsets(shape);
  plan.output(0, sum_type(q.dtype), q.shape);
  plan.output(1, sum_type(q.dtype), {shape.lanes, shape.queries, shape.heads});
  plan.workspace(cpu::ForwardWorkspace(shape, *table_).bytes());
  plan.backward_workspace(
      std::max(cpu::BackwardWorkspace(shape, *table_).bytes(), cuda_workspace(shape)));
}

void LookAhead::forward_cpu(const mneme::KernelCall& call) const {
  const LookAheadShape shape = shape_of(call);
  const cpu::ForwardWorkspace workspace(shape, *table_);
  workspace.run(buffers_of(call), call.workspace());
}

void LookAhead::backward_cpu(const mneme::KernelCall& call) const {
  const LookAheadShape shape = shape_of(call);
  for (const uint32_t i : {7U, 8U}) call.grad_input(i).clear();
  const cpu::BackwardWorkspace workspace(shape, *table_);
  workspace.run(buffers_of(call), gradients_of(call), call.workspace());
}

#ifdef MNEME_HAS_CUDA
void LookAhead::forward_cuda(const mneme::KernelCall& call) const {
  mneme::cuda::check_launch(cuda::launch_look_ahead(shape_of(call), buffers_of(call),
                                                    static_cast<cudaStream_t>(call.stream())));
}

void LookAhead::backward_cuda(const mneme::KernelCall& call) const {
  const auto stream = static_cast<cudaStream_t>(call.stream());
  for (const uint32_t i : {7U, 8U}) mneme::cuda::clear(call.grad_input(i), stream);
  mneme::cuda::check_launch(cuda::launch_look_ahead_backward(
      shape_of(call), buffers_of(call), gradients_of(call), call.workspace(), stream));
}
#endif

}  // namespace lamemo
