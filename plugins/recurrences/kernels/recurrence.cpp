#include "kernels/recurrence.hpp"

#include <string>

#include "kernels/cuda/workspace.hpp"
#include "mneme_kernels/cpu/strands.hpp"
#include "mneme_kernels/infer.hpp"

namespace recurrences {
namespace {

using mneme::cpu::Strands;

constexpr const char* kNames[] = {"q", "k", "v", "decay", "state", "beta"};

void check_shapes(const mneme::KernelPlan& plan) {
  const mneme::Shape q = plan.input(0).shape, v = plan.input(2).shape;
  check_rank("q", q, 4, "[B, T, G, K]");
  check_shape("k", plan.input(1).shape, q);
  check_rank("v", v, 4, "[B, T, H, V]");
  check_shape("v", v, {q[0], q[1], v[2], v[3]});
  if (q[2] == 0 ? v[2] != 0 : v[2] == 0 || v[2] % q[2] != 0) {
    mneme::fail(MNEME_E_SHAPE, "v: expected heads that are a multiple of the " +
                                   std::to_string(q[2]) + " heads of q and k, got " +
                                   std::to_string(v[2]));
  }
  const mneme::Shape decay = plan.input(3).shape;
  if (decay.rank() == 4) {
    check_shape("decay", decay, {q[0], q[1], v[2], q[3]});
  } else {
    check_rank("decay", decay, 3, "[B, T, H] or [B, T, H, K]");
    check_shape("decay", decay, {q[0], q[1], v[2]});
  }
  check_shape("state", plan.input(4).shape, {q[0], v[2], q[3], v[3]});
  if (plan.has_input(5)) check_shape("beta", plan.input(5).shape, {q[0], q[1], v[2]});
}

// Of a plan or a call.
template <typename Source>
RecurrenceShape make_shape(const Source& from, bool is_delta) {
  const mneme::TypedShape q = mneme::input_of(from, 0), v = mneme::input_of(from, 2);
  RecurrenceShape shape;
  shape.lanes = q.shape[0];
  shape.length = q.shape[1];
  shape.groups = q.shape[2];
  shape.heads = v.shape[2];
  shape.key_width = q.shape[3];
  shape.value_width = v.shape[3];
  shape.chunk = from.integer(0);
  shape.is_by_channel = mneme::input_of(from, 3).shape.rank() == 4;
  shape.is_delta = is_delta;
  shape.is_f64 = q.dtype == mneme::DType::kF64;
  return shape;
}
RecurrenceShape shape_of(const mneme::KernelCall& call) {
  return make_shape(call, !call.input(5).is_absent());
}

RecurrenceBuffers buffers_of(const mneme::KernelCall& call) {
  RecurrenceBuffers buffers;
  buffers.q = call.input(0).data<void>();
  buffers.k = call.input(1).data<void>();
  buffers.v = call.input(2).data<void>();
  buffers.decay = call.input(3).data<void>();
  buffers.state = call.input(4).data<void>();
  buffers.beta = call.input(5).is_absent() ? nullptr : call.input(5).data<void>();
  buffers.kept = call.saved(0).data<void>();
  return buffers;
}

Strands forward_strands(const RecurrenceShape& s, const RecurrenceKernels& kernels) {
  return {s.lanes * s.heads, kernels.forward_scratch(s)};
}
Strands backward_strands(const RecurrenceShape& s, const RecurrenceBackwardKernels& kernels) {
  return {s.lanes * s.groups, kernels.backward_scratch(s)};
}

}  // namespace

Recurrence::Recurrence(mneme::cpu::InstructionSet set)
    : forward_(&mneme::cpu::kernels<RecurrenceKernels>(set)),
      backward_(&mneme::cpu::kernels<RecurrenceBackwardKernels>(set)) {}

void Recurrence::infer(mneme::KernelPlan& plan) const {
  using mneme::DType;
  const DType dtype = plan.input(0).dtype;
  check_dtype("q", dtype, {DType::kF32, DType::kF64}, "f32 or f64");
  for (uint32_t i = 1; i < (plan.has_input(5) ? 6U : 5U); ++i) {
    check_dtype(kNames[i], plan.input(i).dtype, {dtype}, "the type of q, code " + code_of(dtype));
  }
  check_shapes(plan);
  const int64_t chunk = plan.integer(0);
  if (chunk < 1 || chunk > kMaxChunk) {
    mneme::fail(MNEME_E_INVALID_ARGUMENT, "chunk: expected 1 to " + std::to_string(kMaxChunk) +
                                              " tokens, got " + std::to_string(chunk));
  }
  RecurrenceShape s = make_shape(plan, plan.has_input(5));
  if (plan.is_cuda()) s.chunk = kCudaChunk;
  plan.output(0, plan.input(2));
  plan.output(1, plan.input(4));
  plan.saved(0, dtype,
             {s.lanes, s.heads, plan.keeps_saved() ? s.kept() : 0, s.key_width, s.value_width});
  if (plan.is_cuda()) {
    plan.workspace(cuda_workspace(s, plan.keeps_saved()));
    plan.backward_workspace(cuda_backward_workspace(s));
    return;
  }
  plan.workspace(forward_strands(s, *forward_).workspace_bytes());
  plan.backward_workspace(backward_strands(s, *backward_).workspace_bytes());
}

void Recurrence::forward_cpu(const mneme::KernelCall& call) const {
  const RecurrenceShape s = shape_of(call);
  RecurrenceBuffers buffers = buffers_of(call);
  buffers.out = call.output(0).data<void>();
  buffers.last_state = call.output(1).data<void>();
  if (!call.keeps_saved()) buffers.kept = nullptr;
  forward_strands(s, *forward_).run(call.workspace(), [&](void* scratch, int64_t piece) {
    forward_->forward(s, buffers, scratch, piece);
  });
}

void Recurrence::backward_cpu(const mneme::KernelCall& call) const {
  const RecurrenceShape s = shape_of(call);
  const RecurrenceBuffers buffers = buffers_of(call);
  RecurrenceGradients grads;
  grads.out = call.grad_output(0).data<void>();
  grads.last_state = call.grad_output(1).data<void>();
  grads.q = call.grad_input(0).data<void>();
  grads.k = call.grad_input(1).data<void>();
  grads.v = call.grad_input(2).data<void>();
  grads.decay = call.grad_input(3).data<void>();
  grads.state = call.grad_input(4).data<void>();
  grads.beta = call.grad_input(5).data<void>();
  backward_strands(s, *backward_).run(call.workspace(), [&](void* scratch, int64_t piece) {
    backward_->backward(s, buffers, grads, scratch, piece);
  });
}

#ifdef MNEME_HAS_CUDA
RecurrenceShape Recurrence::cuda_shape_of(const mneme::KernelCall& call) {
  RecurrenceShape s = shape_of(call);
  s.chunk = kCudaChunk;
  return s;
}
#endif

}  // namespace recurrences
