#include "host/backbone/attention/kernels/fused.hpp"

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "host/backbone/attention/kernels/fused_cuda.hpp"
#include "host/backbone/attention/kernels/operands.hpp"
#include "host/backbone/attention/positions.hpp"
#include "host/backbone/attention/shift.hpp"
#include "host/backbone/rows/dropout.hpp"
#include "host/base/text.hpp"
#include "host/kernel/attention.hpp"
#include "host/kernel/cuda/attention.hpp"
#include "host/tensor/dense_product.hpp"
#include "host/tensor/device.hpp"
#include "host/tensor/dispatch/trace.hpp"
#include "host/tensor/host_kernels.hpp"
#include "host/tensor/torch_function.hpp"

namespace mneme::backbone {
namespace {

kernel::Element element_of(at::ScalarType type) {
  if (type == at::kDouble) return kernel::Element::kF64;
  return type == at::kBFloat16 ? kernel::Element::kBF16 : kernel::Element::kF32;
}

kernel::AttentionShape shape_of(const AttentionArgs& args, const std::vector<KeyPiece>& pieces,
                                const ColumnRule& rule) {
  kernel::AttentionShape shape;
  shape.element = element_of(args.q.scalar_type());
  shape.lanes = args.q.size(0);
  shape.queries = args.q.size(1);
  shape.heads = args.q.size(2);
  shape.width = args.q.size(3);
  shape.key_heads = pieces.back().k.size(2);
  for (const KeyPiece& piece : pieces) shape.keys += piece.k.size(1);
  shape.free = args.first_placed;
  shape.window = rule.window;
  shape.clamp = rule.clamp;
  shape.scale = args.scale;
  return shape;
}

// body(scratch, piece) for every piece, on several threads.
void for_each_piece(std::int64_t pieces, std::uint64_t scratch_bytes,
                    const std::function<void(void*, std::int64_t)>& body) {
  tensor::parallel_for(pieces, 1, [&](std::int64_t begin, std::int64_t end) {
    const at::Tensor scratch = at::empty({static_cast<std::int64_t>(scratch_bytes)}, at::kByte);
    for (std::int64_t piece = begin; piece < end; ++piece) body(scratch.data_ptr(), piece);
  });
}

// All numbers that a call depends on besides its tensors, for a trace; "" where none is written.
std::string traced_text(const char* name, const kernel::AttentionShape& shape,
                        const kernel::ProbabilityDropout& dropout) {
  if (!tensor::is_tracing()) return "";
  return str(name, " free ", shape.free, " window ", shape.window, " clamp ", shape.clamp,
             " scale ", format_exact(shape.scale), mask_text(dropout.mask),
             dropout.mask.is_on ? str(" of heads ", dropout.head) : "");
}

AttentionOutput attended(const kernel::AttentionShape& shape, const AttentionOperands& operands,
                         bool wants_lse) {
  const at::Tensor& q = operands.q;
  AttentionOutput out;
  out.z = at::empty(q.sizes(), q.options());
  if (wants_lse) {
    out.lse = at::empty({shape.lanes, shape.heads, shape.queries},
                        q.options().dtype(score_dtype(q.scalar_type())));
  }
  const auto attend = [shape, n = operands.pieces.size(), dropout = operands.dropout,
                       device = device_attention(q.device())](
                          const std::vector<at::Tensor>& tensors, std::int64_t) {
    const AttentionOperands given(tensors, n, dropout);
    const OperandsView inputs(given);
    const at::Tensor& lse = tensors.back();
    const kernel::AttentionResults results{tensors[tensors.size() - 2].data_ptr(),
                                           lse.defined() ? lse.data_ptr() : nullptr};
    if (device != nullptr) {
      device->attend(shape, inputs.get(), results, given.q.device());
      return;
    }
    const auto& kernels = tensor::fastest_kernels<kernel::AttentionKernels>();
    for_each_piece(kernel::AttentionParts(shape).pieces(shape),
                   kernels.attend_scratch(shape, inputs.get()),
                   [&](void* scratch, std::int64_t piece) {
                     kernels.attend(shape, inputs.get(), results, scratch, piece);
                   });
  };
  tensor::run_traced(traced_text("attention", shape, operands.dropout), operands.tensors(),
                     {out.z, out.lse}, attend);
  return out;
}

// Gradients of the operands; undefined where they are not wanted.
struct Gradients {
  QueryGradients queries;
  std::vector<KeyPiece> pieces;
};

struct Wanted {
  bool table = false, content_bias = false, position_bias = false;
  std::vector<bool> keys, values;  // of pieces
};

void* room_of(const at::Tensor& t) { return t.defined() ? t.data_ptr() : nullptr; }

// The kernel's view of a backward pass: what the forward pass gave, and its gradients.
struct Pass {
  AttentionOutput forward;
  at::Tensor grad_z, grad_lse;

  [[nodiscard]] kernel::AttentionPass get() const {
    kernel::AttentionPass pass;
    pass.z = forward.z.const_data_ptr();
    pass.lse = forward.lse.const_data_ptr();
    pass.grad_z = rows_of(grad_z);
    if (grad_lse.defined()) pass.grad_lse = grad_lse.const_data_ptr();
    return pass;
  }
};

std::vector<kernel::KeyGradient> key_gradients(const std::vector<KeyPiece>& pieces) {
  std::vector<kernel::KeyGradient> out;
  for (const KeyPiece& piece : pieces) out.push_back({room_of(piece.k), room_of(piece.v)});
  return out;
}

// Of the CPU: the operands' tensors with n pieces, those of the pass, the table by rows; then the
// gradients of q, table, content and position bias, and those of the pieces.
void differentiate_tensors(const kernel::AttentionShape& shape, std::size_t n,
                           const std::vector<at::Tensor>& tensors) {
  const AttentionOperands operands(tensors, n);
  const OperandsView inputs(operands);
  const at::Tensor* next = tensors.data() + AttentionOperands::kSingle + 2 * n;
  const Pass given{{next[0], next[1], {}}, next[2], next[3]};
  kernel::AttentionPass pass = given.get();
  if (next[4].defined()) pass.table_by_row = next[4].const_data_ptr();
  next += 5;
  std::vector<KeyPiece> pieces;
  for (std::size_t p = 0; p < n; ++p) pieces.push_back({next[4 + 2 * p], next[5 + 2 * p]});
  const std::vector<kernel::KeyGradient> keys = key_gradients(pieces);
  kernel::AttentionGradients gradients;
  gradients.q = next[0].data_ptr();
  gradients.pieces = keys.data();
  gradients.table = room_of(next[1]);
  gradients.content_bias = room_of(next[2]);
  gradients.position_bias = room_of(next[3]);
  const auto& kernels = tensor::fastest_kernels<kernel::AttentionGradientKernels>();
  for_each_piece(kernel::GradientParts(shape).pieces(shape),
                 kernels.backward_scratch(shape, inputs.get()),
                 [&](void* scratch, std::int64_t piece) {
                   kernels.backward(shape, inputs.get(), pass, gradients, scratch, piece);
                 });
}

// On the CPU; the gradients of `pieces` are added to what is there.
QueryGradients differentiate(const kernel::AttentionShape& shape, const AttentionOperands& operands,
                             const Pass& pass, const std::vector<KeyPiece>& pieces,
                             const Wanted& wanted) {
  const std::int64_t shares = kernel::GradientParts(shape).shares;
  const at::Tensor& q = operands.q;
  const auto sums = q.options().dtype(score_dtype(q.scalar_type()));
  const std::int64_t padded = kernel::padded_width(shape);
  const auto of_heads = [&](bool is_wanted) {
    return is_wanted ? at::empty({shares, shape.heads, shape.width}, sums) : at::Tensor();
  };

  at::Tensor by_row, table;
  if (operands.table.defined()) {
    const std::int64_t rows = operands.table.size(1);
    by_row = at::constant_pad_nd(operands.table, {0, padded - shape.width}).contiguous();
    if (wanted.table) {
      table = at::empty({shares, shape.heads, rows + kernel::kTableSpare, padded}, sums);
    }
  }

  QueryGradients out;
  out.q = at::empty(q.sizes(), q.options());
  out.content_bias = of_heads(wanted.content_bias);
  out.position_bias = of_heads(wanted.position_bias);
  std::vector<at::Tensor> reads = operands.tensors();
  reads.insert(reads.end(), {pass.forward.z, pass.forward.lse, pass.grad_z, pass.grad_lse, by_row});
  std::vector<at::Tensor> writes = {out.q, table, out.content_bias, out.position_bias};
  for (const KeyPiece& piece : pieces) writes.insert(writes.end(), {piece.k, piece.v});
  tensor::run_traced(
      traced_text("attention, backward", shape, {}), reads, writes,
      [shape, n = pieces.size()](const std::vector<at::Tensor>& tensors, std::int64_t) {
        differentiate_tensors(shape, n, tensors);
      });
  if (table.defined()) {
    out.table = table.sum(0).narrow(1, 0, operands.table.size(1)).narrow(2, 0, shape.width);
  }
  for (at::Tensor* bias : {&out.content_bias, &out.position_bias}) {
    if (bias->defined()) *bias = bias->sum(0);
  }
  return out;
}

// `next`: those of the pass; then the gradients of q, of positions and of the pieces.
void differentiate_tensors_by(const DeviceAttention& device, const kernel::AttentionShape& shape,
                              const AttentionOperands& operands, const at::Tensor* next) {
  const OperandsView inputs(operands);
  const Pass given{{next[0], next[1], {}}, next[2], next[3]};
  std::vector<KeyPiece> pieces;
  for (std::size_t p = 0; p < operands.pieces.size(); ++p) {
    pieces.push_back({next[6 + 2 * p], next[7 + 2 * p]});
  }
  const std::vector<kernel::KeyGradient> keys = key_gradients(pieces);
  device.differentiate(shape, inputs.get(), given.get(),
                       {next[4].data_ptr(), keys.data(), room_of(next[5])}, operands.q.device());
}

// The same on a device; gradients of biases are made where one of them is wanted.
QueryGradients differentiate_by(const DeviceAttention& device, const kernel::AttentionShape& shape,
                                const AttentionOperands& operands, const Pass& pass,
                                const std::vector<KeyPiece>& pieces, bool wants_biases) {
  const at::Tensor &q = operands.q, &table = operands.table;
  const at::Tensor through_keys = at::empty(q.sizes(), q.options());
  at::Tensor positions;
  if (table.defined()) {
    positions = at::zeros({shape.heads, shape.lanes, shape.queries, table.size(1)}, q.options());
  }
  std::vector<at::Tensor> reads = operands.tensors();
  reads.insert(reads.end(), {pass.forward.z, pass.forward.lse, pass.grad_z, pass.grad_lse});
  std::vector<at::Tensor> writes = {through_keys, positions};
  for (const KeyPiece& piece : pieces) writes.insert(writes.end(), {piece.k, piece.v});
  tensor::run_traced(traced_text("attention, backward", shape, operands.dropout), reads, writes,
                     [&device, shape, n = pieces.size(), dropout = operands.dropout](
                         const std::vector<at::Tensor>& tensors, std::int64_t) {
                       differentiate_tensors_by(
                           device, shape, AttentionOperands(tensors, n, dropout),
                           tensors.data() + AttentionOperands::kSingle + 2 * n);
                     });
  return with_table(through_keys, positions, q, table, operands.position_bias, wants_biases);
}

Gradients gradients_of(const kernel::AttentionShape& shape, const AttentionOperands& operands,
                       const AttentionOutput& passed, const at::Tensor& grad_z,
                       const at::Tensor& grad_lse, const Wanted& wanted) {
  const Pass pass{passed, with_dense_rows(grad_z), grad_lse};
  Gradients out;
  for (std::size_t p = 0; p < operands.pieces.size(); ++p) {
    // Rows that no query's window reaches are left out.
    const auto like = [&](const at::Tensor& t, bool is_wanted) {
      return is_wanted ? at::zeros(t.sizes(), t.options()) : at::Tensor();
    };
    const KeyPiece& piece = operands.pieces[p];
    out.pieces.push_back({like(piece.k, wanted.keys[p]), like(piece.v, wanted.values[p])});
  }
  const DeviceAttention* const device = device_attention(operands.q.device());
  if (device == nullptr) {
    out.queries = differentiate(shape, operands, pass, out.pieces, wanted);
    return out;
  }
  out.queries = differentiate_by(*device, shape, operands, pass, out.pieces,
                                 wanted.content_bias || wanted.position_bias);
  if (!wanted.table) out.queries.table.reset();
  if (!wanted.content_bias) out.queries.content_bias.reset();
  if (!wanted.position_bias) out.queries.position_bias.reset();
  return out;
}

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

class FusedFunction : public torch::autograd::Function<FusedFunction> {
 public:
  using Optional = std::optional<at::Tensor>;

  // keys_values: k and v of each piece in turn. Returns {z, lse}.
  static variable_list forward(AutogradContext* ctx, const at::Tensor& /*q*/,
                               const at::TensorList& /*keys_values*/, const Optional& /*table*/,
                               const Optional& /*content*/, const Optional& /*position*/,
                               AttentionOperands* operands, const kernel::AttentionShape* shape) {
    const AttentionOutput out = attended(*shape, *operands, true);
    variable_list saved = operands->tensors();
    saved.push_back(out.z);
    saved.push_back(out.lse);
    ctx->save_for_backward(saved);
    ctx->saved_data["window"] = shape->window;
    ctx->saved_data["clamp"] = shape->clamp;
    ctx->saved_data["free"] = shape->free;
    ctx->saved_data["scale"] = shape->scale;
    tensor::keep_pointer(ctx, std::make_shared<kernel::ProbabilityDropout>(operands->dropout));
    return {out.z, out.lse};
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const variable_list saved = ctx->get_saved_variables();
    const std::size_t n = (saved.size() - AttentionOperands::kSingle - 2) / 2;
    const AttentionOperands operands(saved, n,
                                     *tensor::kept_pointer<kernel::ProbabilityDropout>(ctx));
    const AttentionOutput passed{saved[saved.size() - 2], saved.back(), {}};
    AttentionArgs args;
    args.q = operands.q;
    args.first_placed = ctx->saved_data["free"].toInt();
    args.scale = ctx->saved_data["scale"].toDouble();
    const kernel::AttentionShape shape = shape_of(
        args, operands.pieces,
        {ctx->saved_data["window"].toInt(), nullptr, ctx->saved_data["clamp"].toInt(), {}});
    // Edges are those of the inputs that there are, in their order.
    Wanted wanted;
    std::size_t edge = 1;
    for (std::size_t p = 0; p < n; ++p) {
      wanted.keys.push_back(ctx->needs_input_grad(edge++));
      wanted.values.push_back(ctx->needs_input_grad(edge++));
    }
    const auto wants = [&](const at::Tensor& t) {
      return t.defined() && ctx->needs_input_grad(edge++);
    };
    wanted.table = wants(operands.table);
    wanted.content_bias = wants(operands.content_bias);
    wanted.position_bias = wants(operands.position_bias);
    const at::Tensor grad_lse =
        grads[1].defined() ? grads[1].to(passed.lse.scalar_type()).contiguous() : grads[1];
    const at::Tensor grad_z = grads[0].defined() ? grads[0] : at::zeros_like(passed.z);
    const Gradients got = gradients_of(shape, operands, passed, grad_z, grad_lse, wanted);
    variable_list out = {got.queries.q};
    for (const KeyPiece& piece : got.pieces) {
      out.push_back(piece.k);
      out.push_back(piece.v);
    }
    out.insert(out.end(),
               {got.queries.table, got.queries.content_bias, got.queries.position_bias, {}, {}});
    return out;
  }
};

}  // namespace

std::pair<at::Tensor, at::Tensor> joined_pieces(const std::vector<KeyPiece>& pieces) {
  std::vector<at::Tensor> k, v;
  for (const KeyPiece& piece : pieces) {
    k.push_back(piece.k.permute({2, 0, 1, 3}));
    v.push_back(piece.v.permute({2, 0, 1, 3}));
  }
  const auto in_one = [](const std::vector<at::Tensor>& parts) {
    if (parts.size() > 1) return at::cat(parts, 2);
    const at::Tensor& part = parts[0];
    const bool is_dense = part.stride(3) == 1 && part.stride(2) == part.size(3) &&
                          part.stride(0) == part.stride(1) * part.size(1);
    return is_dense ? part : part.contiguous();
  };
  return {in_one(k), in_one(v)};
}

bool trains_fused(at::ScalarType compute) {
  return compute == at::kFloat || compute == at::kDouble ||
         (compute == at::kBFloat16 && !tensor::has_bf16_units());
}

at::Tensor empty_table(std::int64_t heads, std::int64_t rows, std::int64_t width,
                       const at::TensorOptions& options) {
  if (reads_rows(options)) return at::empty({heads, rows, width}, options);
  const at::Tensor columns = at::empty({heads, width, rows + kernel::kTableSpare}, options);
  columns.narrow(2, rows, kernel::kTableSpare).zero_();
  return columns.narrow(2, 0, rows).transpose(1, 2);
}

at::Tensor laid_out_table(const at::Tensor& table) {
  const at::Tensor out = empty_table(table.size(0), table.size(1), table.size(2), table.options());
  return out.copy_(table);
}

AttentionOutput attend_fused(const AttentionArgs& asked, const std::vector<KeyPiece>& given,
                             const ColumnRule& rule) {
  AttentionArgs args = asked;
  if (args.q.is_cuda() && args.table.defined() && at::GradMode::is_enabled()) {
    args.table = with_aligned_rows(args.table);  // for the products of the backward pass
  }
  std::vector<KeyPiece> pieces = given;
  if (args.q.is_cuda() && given.size() > kernel::CudaAttention::kMostPieces) {
    const auto [k, v] = joined_pieces(given);
    pieces = {{k.permute({1, 2, 0, 3}), v.permute({1, 2, 0, 3})}};
  }
  const kernel::AttentionShape shape = shape_of(args, pieces, rule);
  if (!at::GradMode::is_enabled()) {
    return attended(shape, AttentionOperands(args, pieces, rule), args.wants_lse);
  }
  AttentionOperands operands = [&] {
    const at::NoGradGuard no_grad;
    return AttentionOperands(args, pieces, rule);
  }();
  std::vector<at::Tensor> keys_values;
  for (const KeyPiece& piece : pieces) {
    if (piece.k.size(1) > 0) keys_values.insert(keys_values.end(), {piece.k, piece.v});
  }
  const variable_list out =
      FusedFunction::apply(args.q, at::TensorList(keys_values), tensor::optional_input(args.table),
                           tensor::optional_input(args.content_bias),
                           tensor::optional_input(args.position_bias), &operands, &shape);
  return {out[0], args.wants_lse ? out[1] : at::Tensor(), {}};
}

}  // namespace mneme::backbone
