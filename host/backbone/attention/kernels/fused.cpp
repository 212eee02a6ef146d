#include "host/backbone/attention/kernels/fused.hpp"

#include <array>
#include <functional>
#include <optional>

#include "host/backbone/attention/kernels/fused_cuda.hpp"
#include "host/backbone/attention/positions.hpp"
#include "host/kernel/attention.hpp"
#include "host/kernel/cuda/attention.hpp"
#include "host/tensor/dense_product.hpp"
#include "host/tensor/device.hpp"
#include "host/tensor/host_kernels.hpp"
#include "host/tensor/torch_function.hpp"

namespace mneme::backbone {
namespace {

kernel::Element element_of(at::ScalarType type) {
  if (type == at::kDouble) return kernel::Element::kF64;
  return type == at::kBFloat16 ? kernel::Element::kBF16 : kernel::Element::kF32;
}

at::Tensor with_dense_rows(const at::Tensor& rows) {
  return rows.stride(3) == 1 || rows.size(3) == 1 ? rows : rows.contiguous();
}

// Of [B,n,heads,d].
kernel::Rows rows_of(const at::Tensor& rows) {
  return {.data = rows.const_data_ptr(),
          .lane = rows.stride(0),
          .head = rows.stride(2),
          .row = rows.stride(1)};
}

// Whether the kernel for such operands reads a table row by row.
bool reads_rows(const at::TensorOptions& options) {
  return options.device().is_cuda() && options.dtype() == at::kBFloat16;
}

// What attention is computed from, as tensors that the kernel reads where they lie.
struct Operands {
  at::Tensor q;  // [B,T,H,d]
  std::vector<KeyPiece> pieces;
  at::Tensor table;                        // [H,W,d]
  at::Tensor content_bias, position_bias;  // [H,d]
  at::Tensor bias;                         // [H|1,B|1,T|1,K|1]
  at::Tensor valid;                        // [B,K] bool
  at::Tensor slopes;                       // [H]

  Operands(const AttentionArgs& args, const std::vector<KeyPiece>& all, const ColumnRule& rule)
      : q(with_dense_rows(args.q)), bias(args.bias) {
    const at::ScalarType sums = score_dtype(args.q.scalar_type());
    const auto numbers = [&](const at::Tensor& t) {
      return t.defined() ? t.to(sums).contiguous() : t;
    };
    for (const KeyPiece& piece : all) {
      if (piece.k.size(1) == 0) continue;
      pieces.push_back({with_dense_rows(piece.k), with_dense_rows(piece.v)});
    }
    if (args.table.defined()) {
      table = laid_out(args.table.to(reads_rows(q.options()) ? q.scalar_type() : sums));
    }
    content_bias = numbers(args.content_bias);
    position_bias = numbers(args.position_bias);
    if (bias.defined()) bias = bias.to(sums);
    if (rule.valid.defined()) valid = rule.valid.contiguous();
    if (rule.slopes != nullptr && !rule.slopes->empty()) {
      slopes = slopes_on(*rule.slopes, q.options().dtype(sums));
    }
  }
  // From what `tensors` returned, keys and values of `n` pieces.
  Operands(const std::vector<at::Tensor>& saved, std::size_t n) {
    std::size_t at = 0;
    for (at::Tensor* t : single()) *t = saved[at++];
    for (std::size_t p = 0; p < n; ++p, at += 2) pieces.push_back({saved[at], saved[at + 1]});
  }
  std::vector<at::Tensor> tensors() {
    std::vector<at::Tensor> out;
    for (const at::Tensor* t : single()) out.push_back(*t);
    for (const KeyPiece& piece : pieces) {
      out.push_back(piece.k);
      out.push_back(piece.v);
    }
    return out;
  }
  static constexpr std::size_t kSingle = 7;

 private:
  std::array<at::Tensor*, kSingle> single() {
    return {&q, &table, &content_bias, &position_bias, &bias, &valid, &slopes};
  }
  static at::Tensor laid_out(const at::Tensor& table) {
    const bool is_laid_out = reads_rows(table.options())
                                 ? table.stride(2) == 1
                                 : table.stride(1) == 1 && table.size(2) > 1 &&
                                       table.stride(2) >= table.size(1) + kernel::kTableSpare;
    return is_laid_out ? table : laid_out_table(table);
  }
};

// The kernel's view of them, which must outlive it.
class Inputs {
 public:
  explicit Inputs(const Operands& from) {
    const auto data = [](const at::Tensor& t) {
      return t.defined() ? t.const_data_ptr() : nullptr;
    };
    in_.q = rows_of(from.q);
    for (const KeyPiece& piece : from.pieces) {
      pieces_.push_back({.rows = piece.k.size(1), .k = rows_of(piece.k), .v = rows_of(piece.v)});
    }
    in_.pieces = pieces_.data();
    in_.n_pieces = static_cast<std::int64_t>(pieces_.size());
    if (from.table.defined()) set_table(from.table);
    in_.content_bias = data(from.content_bias);
    in_.position_bias = data(from.position_bias);
    in_.slopes = data(from.slopes);
    if (from.valid.defined()) {
      in_.valid = reinterpret_cast<const std::uint8_t*>(from.valid.const_data_ptr<bool>());
    }
    in_.bias = data(from.bias);
    for (std::int64_t d = 0; d < 4 && from.bias.defined(); ++d) {
      in_.bias_stride[d] = from.bias.size(d) == 1 ? 0 : from.bias.stride(d);
    }
  }
  Inputs(const Inputs&) = delete;
  Inputs& operator=(const Inputs&) = delete;

  const kernel::AttentionInputs& get() const { return in_; }

 private:
  void set_table(const at::Tensor& table) {
    in_.table_rows = table.size(1);
    if (reads_rows(table.options())) {
      in_.table_by_row = {table.const_data_ptr(), 0, table.stride(0), table.stride(1)};
      return;
    }
    in_.table = table.const_data_ptr();
    in_.table_head = table.stride(0);
    in_.table_row = table.stride(2);
  }

  std::vector<kernel::KeyPiece> pieces_;
  kernel::AttentionInputs in_;
};

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

AttentionOutput attended(const kernel::AttentionShape& shape, const Operands& operands,
                         bool wants_lse) {
  const Inputs inputs(operands);
  const at::Tensor& q = operands.q;
  AttentionOutput out;
  out.z = at::empty(q.sizes(), q.options());
  if (wants_lse) {
    out.lse = at::empty({shape.lanes, shape.heads, shape.queries},
                        q.options().dtype(score_dtype(q.scalar_type())));
  }
  const kernel::AttentionResults results{out.z.data_ptr(),
                                         wants_lse ? out.lse.data_ptr() : nullptr};
  if (q.is_cuda()) {
    attend_on_cuda(shape, inputs.get(), results, q.device());
    return out;
  }
  const auto& kernels = tensor::fastest_kernels<kernel::AttentionKernels>();
  for_each_piece(kernel::AttentionParts(shape).pieces(shape),
                 kernels.attend_scratch(shape, inputs.get()),
                 [&](void* scratch, std::int64_t piece) {
                   kernels.attend(shape, inputs.get(), results, scratch, piece);
                 });
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

QueryGradients differentiate(const kernel::AttentionShape& shape, const Operands& operands,
                             const kernel::AttentionInputs& inputs, kernel::AttentionPass pass,
                             const kernel::KeyGradient* pieces, const Wanted& wanted) {
  const kernel::GradientParts parts(shape);
  const at::Tensor& q = operands.q;
  const auto sums = q.options().dtype(score_dtype(q.scalar_type()));
  const std::int64_t padded = kernel::padded_width(shape);
  const auto of_heads = [&](bool is_wanted) {
    return is_wanted ? at::empty({parts.shares, shape.heads, shape.width}, sums) : at::Tensor();
  };

  at::Tensor by_row, table;
  if (operands.table.defined()) {
    const std::int64_t rows = operands.table.size(1);
    by_row = at::constant_pad_nd(operands.table, {0, padded - shape.width}).contiguous();
    pass.table_by_row = by_row.const_data_ptr();
    if (wanted.table) {
      table = at::empty({parts.shares, shape.heads, rows + kernel::kTableSpare, padded}, sums);
    }
  }

  QueryGradients out;
  out.q = at::empty(q.sizes(), q.options());
  out.content_bias = of_heads(wanted.content_bias);
  out.position_bias = of_heads(wanted.position_bias);
  kernel::AttentionGradients gradients;
  gradients.q = out.q.data_ptr();
  gradients.pieces = pieces;
  if (table.defined()) gradients.table = table.data_ptr();
  if (wanted.content_bias) gradients.content_bias = out.content_bias.data_ptr();
  if (wanted.position_bias) gradients.position_bias = out.position_bias.data_ptr();

  const auto& kernels = tensor::fastest_kernels<kernel::AttentionGradientKernels>();
  for_each_piece(parts.pieces(shape), kernels.backward_scratch(shape, inputs),
                 [&](void* scratch, std::int64_t piece) {
                   kernels.backward(shape, inputs, pass, gradients, scratch, piece);
                 });
  if (table.defined()) {
    out.table = table.sum(0).narrow(1, 0, operands.table.size(1)).narrow(2, 0, shape.width);
  }
  for (at::Tensor* bias : {&out.content_bias, &out.position_bias}) {
    if (bias->defined()) *bias = bias->sum(0);
  }
  return out;
}

Gradients gradients_of(const kernel::AttentionShape& shape, const Operands& operands,
                       const AttentionOutput& passed, const at::Tensor& grad_z,
                       const at::Tensor& grad_lse, const Wanted& wanted) {
  const Inputs inputs(operands);
  kernel::AttentionPass pass;
  const at::Tensor dense_grad = with_dense_rows(grad_z);
  pass.z = passed.z.const_data_ptr();
  pass.lse = passed.lse.const_data_ptr();
  pass.grad_z = rows_of(dense_grad);
  if (grad_lse.defined()) pass.grad_lse = grad_lse.const_data_ptr();
  Gradients out;
  std::vector<kernel::KeyGradient> pieces;
  for (std::size_t p = 0; p < operands.pieces.size(); ++p) {
    // Rows that no query's window reaches are left out.
    const auto like = [&](const at::Tensor& t, bool is_wanted) {
      return is_wanted ? at::zeros(t.sizes(), t.options()) : at::Tensor();
    };
    const KeyPiece& piece = operands.pieces[p];
    out.pieces.push_back({like(piece.k, wanted.keys[p]), like(piece.v, wanted.values[p])});
    const auto data = [](const at::Tensor& t) { return t.defined() ? t.data_ptr() : nullptr; };
    pieces.push_back({data(out.pieces.back().k), data(out.pieces.back().v)});
  }
  if (!operands.q.is_cuda()) {
    out.queries = differentiate(shape, operands, inputs.get(), pass, pieces.data(), wanted);
    return out;
  }
  out.queries =
      differentiate_on_cuda(shape, inputs.get(), pass, pieces.data(), operands.q, operands.table,
                            operands.position_bias, wanted.content_bias || wanted.position_bias);
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
                               Operands* operands, const kernel::AttentionShape* shape) {
    const AttentionOutput out = attended(*shape, *operands, true);
    variable_list saved = operands->tensors();
    saved.push_back(out.z);
    saved.push_back(out.lse);
    ctx->save_for_backward(saved);
    ctx->saved_data["window"] = shape->window;
    ctx->saved_data["clamp"] = shape->clamp;
    ctx->saved_data["free"] = shape->free;
    ctx->saved_data["scale"] = shape->scale;
    return {out.z, out.lse};
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const variable_list saved = ctx->get_saved_variables();
    const std::size_t n = (saved.size() - Operands::kSingle - 2) / 2;
    const Operands operands(saved, n);
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

AttentionOutput attend_fused(const AttentionArgs& args, const std::vector<KeyPiece>& given,
                             const ColumnRule& rule) {
  std::vector<KeyPiece> pieces = given;
  if (args.q.is_cuda() && given.size() > kernel::CudaAttention::kMostPieces) {
    const auto [k, v] = joined_pieces(given);
    pieces = {{k.permute({1, 2, 0, 3}), v.permute({1, 2, 0, 3})}};
  }
  const kernel::AttentionShape shape = shape_of(args, pieces, rule);
  if (!at::GradMode::is_enabled()) {
    return attended(shape, Operands(args, pieces, rule), args.wants_lse);
  }
  Operands operands = [&] {
    const at::NoGradGuard no_grad;
    return Operands(args, pieces, rule);
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
