#include "reconstruction.hpp"

#include <algorithm>
#include <cmath>
#include <string>

#include "cpu/kernel_table.hpp"
#include "mneme/cpp/kernel_checks.hpp"
#include "mneme/cpu/strands.hpp"
#ifdef MNEME_HAS_CUDA
#include "cuda/reconstruction.cuh"
#include "mneme/cuda/status.hpp"
#include "mneme/cuda/views.hpp"
#endif

namespace compressive {
namespace {

constexpr const char* kNames[] = {"q", "k_old", "v_old", "k_new", "v_new"};

mneme::DType sum_type(mneme::DType dtype) {
  return dtype == mneme::DType::kF64 ? mneme::DType::kF64 : mneme::DType::kF32;
}

void check_types(const mneme::KernelPlan& plan) {
  const mneme::DType dtype = plan.input(0).dtype;
  if (dtype != mneme::DType::kF32 && dtype != mneme::DType::kF64 && dtype != mneme::DType::kBF16) {
    mneme::fail(MNEME_E_DTYPE, "q: expected f32, f64 or bf16, got dtype code " + code_of(dtype));
  }
  for (uint32_t i = 1; i < 5; ++i) {
    const mneme::DType got = plan.input(i).dtype;
    if (got == dtype) continue;
    mneme::fail(MNEME_E_DTYPE, std::string(kNames[i]) + ": expected the type of q, code " +
                                   code_of(dtype) + ", got dtype code " + code_of(got));
  }
  const mneme::DType counts = plan.input(5).dtype;
  if (counts != mneme::DType::kI64) {
    mneme::fail(MNEME_E_DTYPE, "counts: expected i64, got dtype code " + code_of(counts));
  }
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
  if (!std::isfinite(plan.real(0))) {
    mneme::fail(MNEME_E_INVALID_ARGUMENT,
                "scale: expected a finite number, got " + std::to_string(plan.real(0)));
  }
}

// From the shapes and types of inputs 0, 1 and 3.
ReconstructionShape make_shape(const mneme::Shape& q, int64_t old_rows, int64_t new_rows,
                               mneme::DType dtype) {
  ReconstructionShape shape;
  shape.lanes = q[0];
  shape.queries = q[1];
  shape.heads = q[2];
  shape.head_width = q[3];
  shape.old_rows = old_rows;
  shape.new_rows = new_rows;
  shape.element = mneme::element_of(dtype);
  return shape;
}

ReconstructionShape shape_of(const mneme::KernelCall& call) {
  const mneme::View q = call.input(0);
  ReconstructionShape shape = make_shape({q.dim(0), q.dim(1), q.dim(2), q.dim(3)},
                                         call.input(1).dim(1), call.input(3).dim(1), q.dtype());
  shape.wants_gradient = call.integer(0) != 0;
  shape.scale = call.real(0);
  return shape;
}

ReconstructionBuffers buffers_of(const mneme::KernelCall& call) {
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

ReconstructionGradients gradients_of(const mneme::KernelCall& call) {
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

// The workspace of the CPU's forward pass, and what its parts are for.
class Workspace {
 public:
  Workspace(const ReconstructionShape& shape, const cpu::KernelTable& table)
      : heads_(shape.lanes * shape.heads) {
    // Queries are shared out where there are fewer heads than strands, two tiles or more each;
    // this depends on nothing but the shape, so results do not either.
    const int64_t tiles = (shape.queries + cpu::kQueryTile - 1) / cpu::kQueryTile;
    if (heads_ > 0 && heads_ < mneme::cpu::kMostStrands) {
      const int64_t wanted = (mneme::cpu::kMostStrands + heads_ - 1) / heads_;
      groups_ = std::max<int64_t>(1, std::min(wanted, tiles / 2));
    }
    const int64_t size = shape.is_f64() ? 8 : 4;
    const bool has_parts = shape.wants_gradient && groups_ > 1;
    error_bytes_ = static_cast<uint64_t>(heads_ * groups_) * sizeof(double);
    part_bytes_ =
        has_parts
            ? static_cast<uint64_t>(heads_ * groups_ * 2 * shape.new_rows * shape.head_width * size)
            : 0;
    strands_ = {heads_ * groups_, table.reconstruct_scratch(shape)};
  }
  int64_t heads() const { return heads_; }
  uint64_t bytes() const { return error_bytes_ + part_bytes_ + strands_.workspace_bytes(); }
  cpu::ReconstructionParts parts(void* workspace) const {
    cpu::ReconstructionParts parts;
    parts.groups = groups_;
    parts.errors = static_cast<double*>(workspace);
    if (part_bytes_ > 0) parts.gradients = static_cast<unsigned char*>(workspace) + error_bytes_;
    return parts;
  }
  template <typename Body>
  void run(void* workspace, const Body& body) const {
    strands_.run(static_cast<unsigned char*>(workspace) + error_bytes_ + part_bytes_, body);
  }

 private:
  int64_t heads_;
  int64_t groups_ = 1;
  uint64_t error_bytes_ = 0;
  uint64_t part_bytes_ = 0;
  mneme::cpu::Strands strands_;
};

template <typename T>
void sum_errors(const cpu::ReconstructionParts& parts, const ReconstructionShape& shape, T* error) {
  const double* part = parts.errors;
  for (int64_t lane = 0; lane < shape.lanes; ++lane) {
    double sum = 0.0;
    for (int64_t i = 0; i < shape.heads * parts.groups; ++i) sum += *part++;
    error[lane] = static_cast<T>(sum);
  }
}

// infer is not told the device: a plan's workspace is enough for either.
uint64_t cuda_workspace([[maybe_unused]] const ReconstructionShape& shape) {
#ifdef MNEME_HAS_CUDA
  return cuda::reconstruction_workspace(shape);
#else
  return 0;
#endif
}

}  // namespace

Reconstruction::Reconstruction(const cpu::KernelTable* table)
    : table_(table != nullptr ? table : cpu::kernel_tables().front()) {}

void Reconstruction::infer(mneme::KernelPlan& plan) const {
  check_types(plan);
  check_shapes(plan);
  check_scalars(plan);
  const mneme::TypedShape q = plan.input(0);
  const mneme::Shape k_new = plan.input(3).shape;
  ReconstructionShape shape = make_shape(q.shape, plan.input(1).shape[1], k_new[1], q.dtype);
  shape.wants_gradient = plan.integer(0) != 0;
  plan.output(0, sum_type(q.dtype), {shape.lanes});
  for (const uint32_t i : {0U, 1U}) {
    plan.saved(i, sum_type(q.dtype), shape.wants_gradient ? k_new : mneme::Shape{0});
  }
  plan.workspace(std::max(Workspace(shape, *table_).bytes(), cuda_workspace(shape)));
}

void Reconstruction::forward_cpu(const mneme::KernelCall& call) const {
  const ReconstructionShape shape = shape_of(call);
  const ReconstructionBuffers buffers = buffers_of(call);
  const Workspace workspace(shape, *table_);
  const cpu::ReconstructionParts parts = workspace.parts(call.workspace());
  workspace.run(call.workspace(), [&](void* scratch, int64_t piece) {
    table_->reconstruct(shape, buffers, parts, scratch, piece);
  });
  if (parts.gradients != nullptr) {
    mneme::parallel_for(workspace.heads(), 1, [&](int64_t begin, int64_t end) noexcept {
      for (int64_t head = begin; head < end; ++head) {
        table_->sum_groups(shape, buffers, parts, head);
      }
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
  for (uint32_t i = 0; i < kInputs; ++i) {
    if (i < 3 || gradients.arriving == nullptr) call.grad_input(i).clear();
  }
  if (gradients.arriving == nullptr) return;
  const int64_t row = std::max<int64_t>(1, shape.heads * shape.head_width);
  mneme::parallel_for(shape.lanes * shape.new_rows, std::max<int64_t>(1, 16384 / row),
                      [&](int64_t begin, int64_t end) noexcept {
                        for (int64_t i = begin; i < end; ++i) {
                          table_->scale_gradients(shape, gradients, i);
                        }
                      });
}

#ifdef MNEME_HAS_CUDA
void Reconstruction::forward_cuda(const mneme::KernelCall& call) const {
  mneme::cuda::check_launch(cuda::launch_reconstruction(shape_of(call), buffers_of(call),
                                                        call.workspace(),
                                                        static_cast<cudaStream_t>(call.stream())));
}

void Reconstruction::backward_cuda(const mneme::KernelCall& call) const {
  const ReconstructionShape shape = shape_of(call);
  const auto stream = static_cast<cudaStream_t>(call.stream());
  for (uint32_t i = 0; i < 3; ++i) mneme::cuda::clear(call.grad_input(i), stream);
  mneme::cuda::check_launch(
      cuda::launch_reconstruction_backward(shape, gradients_of(call), stream));
}
#endif

}  // namespace compressive
