#include "kernels/reconstruction.hpp"

#include <algorithm>
#include <string>

#include "mneme_kernels/cpu/arena.hpp"
#include "mneme_kernels/cpu/strands.hpp"
#include "mneme_kernels/infer.hpp"

namespace compressive {
namespace {

constexpr const char* kNames[] = {"q", "k_old", "v_old", "k_new", "v_new"};

void check_types(const mneme::KernelPlan& plan) {
  using mneme::DType;
  const DType dtype = plan.input(0).dtype;
  check_dtype("q", dtype, {DType::kF32, DType::kF64, DType::kBF16}, "f32, f64 or bf16");
  for (uint32_t i = 1; i < 5; ++i) {
    check_dtype(kNames[i], plan.input(i).dtype, {dtype}, "the type of q, code " + code_of(dtype));
  }
  check_dtype("counts", plan.input(5).dtype, {DType::kI64}, "i64");
}

void check_shapes(const mneme::KernelPlan& plan) {
  const mneme::Shape q = plan.input(0).shape;
  check_rank("q", q, 4, "[B, T, H, d]");
  for (const uint32_t keys : {1U, 3U}) {
    const mneme::Shape k = plan.input(keys).shape;
    check_rank(kNames[keys], k, 4, keys == 1 ? "[B, E, H, d]" : "[B, N, H, d]");
    check_shape(kNames[keys], k, {q[0], k[1], q[2], q[3]});
    check_shape(kNames[keys + 1], plan.input(keys + 1).shape, k);
  }
  check_shape("counts", plan.input(5).shape, {q[0], 2});
}

void check_scalars(const mneme::KernelPlan& plan) {
  const int64_t wants_gradient = plan.integer(0);
  if (wants_gradient != 0 && wants_gradient != 1) {
    mneme::fail(MNEME_E_INVALID_ARGUMENT,
                "wants_gradient: expected 0 or 1, got " + std::to_string(wants_gradient));
  }
  mneme::check_finite("scale", plan.real(0));
}

// Of a plan or a call.
template <typename Source>
ReconstructionShape make_shape(const Source& from) {
  const mneme::TypedShape q = mneme::input_of(from, 0);
  ReconstructionShape shape;
  shape.lanes = q.shape[0];
  shape.queries = q.shape[1];
  shape.heads = q.shape[2];
  shape.head_width = q.shape[3];
  shape.old_rows = mneme::input_of(from, 1).shape[1];
  shape.new_rows = mneme::input_of(from, 3).shape[1];
  shape.element = mneme::element_of(q.dtype);
  shape.wants_gradient = from.integer(0) != 0;
  shape.scale = from.real(0);
  return shape;
}

// The CPU's forward pass: what its pieces are, and what its workspace holds.
class Workspace {
 public:
  Workspace(const ReconstructionShape& shape, const ReconstructionKernels& kernels, void* base)
      : heads_(shape.lanes * shape.heads), memory_(base) {
    // Queries are split into groups where there are fewer heads than strands, two tiles or more
    // each.
    const int64_t tiles = mneme::cpu::divide_up(shape.queries, kQueryTile);
    if (heads_ > 0 && heads_ < mneme::cpu::kMaxStrands) {
      const int64_t wanted = mneme::cpu::divide_up(mneme::cpu::kMaxStrands, heads_);
      parts_.groups = std::max<int64_t>(1, std::min(wanted, tiles / 2));
    }
    const int64_t pieces = heads_ * parts_.groups;
    parts_.errors = memory_.take<double>(pieces);
    if (shape.wants_gradient && parts_.groups > 1) {
      parts_.gradients = memory_.take<unsigned char>(pieces * 2 * shape.new_rows *
                                                     shape.head_width * (shape.is_f64() ? 8 : 4));
    }
    strands_ = {pieces, kernels.reconstruct_scratch(shape)};
  }
  int64_t heads() const { return heads_; }
  uint64_t bytes() const { return memory_.bytes() + strands_.workspace_bytes(); }
  const ReconstructionParts& parts() const { return parts_; }
  template <typename Body>
  void run(const Body& body) const {
    strands_.run(memory_.rest(), body);
  }

 private:
  int64_t heads_;
  mneme::cpu::Arena memory_;
  ReconstructionParts parts_;
  mneme::cpu::Strands strands_;
};

template <typename T>
void sum_errors(const ReconstructionParts& parts, const ReconstructionShape& shape, T* error) {
  const double* part = parts.errors;
  for (int64_t lane = 0; lane < shape.lanes; ++lane) {
    double sum = 0.0;
    for (int64_t i = 0; i < shape.heads * parts.groups; ++i) sum += *part++;
    error[lane] = static_cast<T>(sum);
  }
}

}  // namespace

Reconstruction::Reconstruction(mneme::cpu::InstructionSet set)
    : kernels_(&mneme::cpu::kernels<ReconstructionKernels>(set)) {}

ReconstructionShape Reconstruction::shape_of(const mneme::KernelCall& call) {
  return make_shape(call);
}

ReconstructionBuffers Reconstruction::buffers_of(const mneme::KernelCall& call) {
  ReconstructionBuffers buffers;
  buffers.q = call.input(0).data<void>();
  buffers.k_old = call.input(1).data<void>();
  buffers.v_old = call.input(2).data<void>();
  buffers.k_new = call.input(3).data<void>();
  buffers.v_new = call.input(4).data<void>();
  buffers.counts = call.input(5).data<int64_t>();
  buffers.error = call.output(0).data<void>();
  buffers.k_grad = call.saved(0).data<void>();
  buffers.v_grad = call.saved(1).data<void>();
  return buffers;
}

ReconstructionGradients Reconstruction::gradients_of(const mneme::KernelCall& call) {
  if (call.integer(0) == 0) {
    mneme::fail(MNEME_E_INVALID_ARGUMENT,
                "wants_gradient was 0 in the forward pass, which made no derivatives");
  }
  ReconstructionGradients gradients;
  gradients.arriving = call.grad_output(0).data<void>();
  gradients.k_saved = call.saved(0).data<void>();
  gradients.v_saved = call.saved(1).data<void>();
  gradients.k_new = call.grad_input(3).data<void>();
  gradients.v_new = call.grad_input(4).data<void>();
  return gradients;
}

void Reconstruction::infer(mneme::KernelPlan& plan) const {
  check_types(plan);
  check_shapes(plan);
  check_scalars(plan);
  const mneme::TypedShape q = plan.input(0);
  const mneme::Shape k_new = plan.input(3).shape;
  const ReconstructionShape shape = make_shape(plan);
  plan.output(0, mneme::sum_type(q.dtype), {shape.lanes});
  for (const uint32_t i : {0U, 1U}) {
    plan.saved(i, mneme::sum_type(q.dtype), shape.wants_gradient ? k_new : mneme::Shape{0});
  }
  plan.workspace(plan.is_cuda() ? cuda_workspace(shape)
                                : Workspace(shape, *kernels_, nullptr).bytes());
}

void Reconstruction::forward_cpu(const mneme::KernelCall& call) const {
  const ReconstructionShape shape = shape_of(call);
  const ReconstructionBuffers buffers = buffers_of(call);
  const Workspace workspace(shape, *kernels_, call.workspace());
  const ReconstructionParts& parts = workspace.parts();
  workspace.run([&](void* scratch, int64_t piece) {
    kernels_->reconstruct(shape, buffers, parts, scratch, piece);
  });
  if (parts.gradients != nullptr) {
    mneme::cpu::for_each_piece(workspace.heads(), 1, [&](int64_t head) {
      kernels_->sum_groups(shape, buffers, parts, head);
    });
  }
  if (shape.is_f64()) {
    sum_errors(parts, shape, static_cast<double*>(buffers.error));
  } else {
    sum_errors(parts, shape, static_cast<float*>(buffers.error));
  }
}

void Reconstruction::backward_cpu(const mneme::KernelCall& call) const {
  const ReconstructionShape shape = shape_of(call);
  const ReconstructionGradients gradients = gradients_of(call);
  if (gradients.arriving == nullptr) {
    for (const uint32_t i : {3U, 4U}) call.grad_input(i).clear();
    return;
  }
  const int64_t row = std::max<int64_t>(1, shape.heads * shape.head_width);
  mneme::cpu::for_each_piece(shape.lanes * shape.new_rows, std::max<int64_t>(1, 16384 / row),
                             [&](int64_t i) { kernels_->scale_gradients(shape, gradients, i); });
}

}  // namespace compressive
