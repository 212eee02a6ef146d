#include "kernels/look_ahead.hpp"

#include <algorithm>
#include <string>

#include "mneme_kernels/cpu/arena.hpp"
#include "mneme_kernels/cpu/strands.hpp"
#include "mneme_kernels/infer.hpp"

namespace lamemo {
namespace {

using mneme::cpu::divide_up;

constexpr const char* kNames[] = {
    "q", "k", "v", "table", "content_bias", "position_bias", "valid", "lse", "context"};
constexpr int64_t kFarthest = int64_t{1} << 40;  // sums of a few places and offsets stay exact

void check_types(const mneme::KernelPlan& plan) {
  using mneme::DType;
  const DType dtype = plan.input(0).dtype;
  const DType sums = mneme::sum_type(dtype);
  check_dtype("q", dtype, {DType::kF32, DType::kF64, DType::kBF16}, "f32, f64 or bf16");
  for (uint32_t i = 1; i < LookAhead::kInputs; ++i) {
    const DType got = plan.input(i).dtype;
    if (i < 4) {
      check_dtype(kNames[i], got, {dtype}, "the type of q, code " + code_of(dtype));
    } else if (i == 6) {
      check_dtype(kNames[i], got, {DType::kBool}, "bool, code " + code_of(DType::kBool));
    } else {
      check_dtype(kNames[i], got, {sums}, "the type of the sums, code " + code_of(sums));
    }
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
  mneme::check_finite("scale", plan.real(0));
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

// Of a plan or a call.
template <typename Source>
LookAheadShape make_shape(const Source& from) {
  const mneme::TypedShape q = mneme::input_of(from, 0);
  LookAheadShape shape;
  shape.lanes = q.shape[0];
  shape.queries = q.shape[1];
  shape.keys = mneme::input_of(from, 1).shape[1];
  shape.heads = q.shape[2];
  shape.head_width = q.shape[3];
  shape.offsets = mneme::input_of(from, 3).shape[1];
  shape.element = mneme::element_of(q.dtype);
  shape.first = from.integer(0);
  shape.least = from.integer(1);
  shape.scale = from.real(0);
  return shape;
}

// Groups that a lane's queries are cut into so that there are `wanted` of them, two tiles or more
// each.
int64_t groups_of(const LookAheadShape& shape, int64_t wanted) {
  return std::max<int64_t>(1, std::min(wanted, divide_up(shape.queries, kQueryTile) / 2));
}

// How one pass is cut into pieces on the CPU, and where the parts of its workspace lie; without a
// base only how long it is. The cut depends on nothing but the shape, so results do not depend on
// the threads.
class Workspace {
 public:
  // The forward pass: pieces of one group of queries of one head of one lane.
  Workspace(const LookAheadShape& shape, const LookAheadKernels& kernels, void* base)
      : shape_(shape), memory_(base) {
    const int64_t heads = shape.lanes * shape.heads;
    if (heads > 0 && heads < mneme::cpu::kMaxStrands) {
      parts_.groups = groups_of(shape, divide_up(mneme::cpu::kMaxStrands, heads));
    }
    take_table();
    strands_ = {heads * parts_.groups, kernels.attend_scratch(shape)};
  }
  // The backward pass: pieces of one slice of one head, which has groups of several lanes, or,
  // where there are few lanes, one group of one lane.
  Workspace(const LookAheadShape& shape, const LookAheadBackwardKernels& kernels, void* base)
      : shape_(shape), memory_(base) {
    const int64_t wanted =
        shape.heads > 0 ? divide_up(mneme::cpu::kMaxStrands, shape.heads) : int64_t{1};
    if (shape.lanes >= wanted) {
      parts_.slices = wanted;
    } else if (shape.lanes > 0) {
      parts_.groups = groups_of(shape, divide_up(wanted, shape.lanes));
      parts_.slices = shape.lanes * parts_.groups;
    }
    const int64_t padded = mneme::cpu::padded_columns(shape.head_width);
    const int64_t pieces = shape.heads * parts_.slices;
    take_table();
    parts_.rows = take(shape.heads * shape.offsets * padded);
    parts_.table_sums = take(pieces * (shape.offsets + kSpareOffsets) * padded);
    parts_.bias_sums = take(pieces * 2 * padded);
    if (parts_.groups > 1) {
      parts_.key_sums =
          take(shape.lanes * shape.heads * parts_.groups * 2 * shape.keys * shape.head_width);
    }
    strands_ = {pieces, kernels.differentiate_scratch(shape)};
  }
  uint64_t bytes() const { return memory_.bytes() + strands_.workspace_bytes(); }
  const LookAheadParts& parts() const { return parts_; }

  void turn_table(const LookAheadKernels& kernels, const LookAheadBuffers& buffers) const {
    mneme::cpu::for_each_piece(
        shape_.heads * divide_up(shape_.offsets, kTurnedRows), 1,
        [&](int64_t piece) { kernels.turn_table(shape_, buffers, parts_, piece); });
  }
  template <typename Body>
  void run(const Body& body) const {
    strands_.run(memory_.rest(), body);
  }

 private:
  void* take(int64_t count) {
    return shape_.is_f64() ? static_cast<void*>(memory_.take<double>(count))
                           : static_cast<void*>(memory_.take<float>(count));
  }
  void take_table() {
    parts_.turned = take(shape_.heads * shape_.head_width *
                         mneme::cpu::turned_columns(shape_.offsets + kSpareOffsets));
  }

  LookAheadShape shape_;
  mneme::cpu::Arena memory_;
  LookAheadParts parts_;
  mneme::cpu::Strands strands_;
};

}  // namespace

LookAhead::LookAhead(mneme::cpu::InstructionSet set)
    : forward_(&mneme::cpu::kernels<LookAheadKernels>(set)),
      backward_(&mneme::cpu::kernels<LookAheadBackwardKernels>(set)) {}

LookAheadShape LookAhead::shape_of(const mneme::KernelCall& call) { return make_shape(call); }

LookAheadBuffers LookAhead::buffers_of(const mneme::KernelCall& call) {
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

LookAheadGradients LookAhead::gradients_of(const mneme::KernelCall& call) {
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

void LookAhead::infer(mneme::KernelPlan& plan) const {
  check_types(plan);
  check_shapes(plan);
  check_scalars(plan);
  const mneme::TypedShape q = plan.input(0);
  const LookAheadShape shape = make_shape(plan);
  check_offsets(shape);
  plan.output(0, mneme::sum_type(q.dtype), q.shape);
  plan.output(1, mneme::sum_type(q.dtype), {shape.lanes, shape.queries, shape.heads});
  if (plan.is_cuda()) {
    plan.backward_workspace(cuda_workspace(shape));
    return;
  }
  plan.workspace(Workspace(shape, *forward_, nullptr).bytes());
  plan.backward_workspace(Workspace(shape, *backward_, nullptr).bytes());
}

void LookAhead::forward_cpu(const mneme::KernelCall& call) const {
  const LookAheadShape shape = shape_of(call);
  const LookAheadBuffers buffers = buffers_of(call);
  const Workspace workspace(shape, *forward_, call.workspace());
  workspace.turn_table(*forward_, buffers);
  workspace.run([&](void* scratch, int64_t piece) {
    forward_->attend(shape, buffers, workspace.parts(), scratch, piece);
  });
}

void LookAhead::backward_cpu(const mneme::KernelCall& call) const {
  const LookAheadShape shape = shape_of(call);
  const LookAheadBuffers buffers = buffers_of(call);
  const LookAheadGradients gradients = gradients_of(call);
  const Workspace workspace(shape, *backward_, call.workspace());
  const LookAheadParts& parts = workspace.parts();
  workspace.turn_table(*forward_, buffers);
  workspace.run([&](void* scratch, int64_t piece) {
    backward_->differentiate(shape, buffers, gradients, parts, scratch, piece);
  });
  const auto sum = [&](int64_t count, int64_t grain, auto function) {
    mneme::cpu::for_each_piece(count, grain,
                               [&](int64_t i) { function(shape, gradients, parts, i); });
  };
  if (gradients.table != nullptr) sum(shape.heads * shape.offsets, 256, backward_->sum_table);
  sum(shape.heads, 16, backward_->sum_biases);
  if (parts.key_sums != nullptr) sum(shape.lanes * shape.heads, 1, backward_->sum_keys);
}

}  // namespace lamemo
