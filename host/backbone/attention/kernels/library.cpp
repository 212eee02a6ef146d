#include "host/backbone/attention/kernels/library.hpp"

#include <algorithm>
#include <optional>

#include "host/backbone/attention/shift.hpp"
#include "host/tensor/dispatch/deterministic.hpp"
#include "host/tensor/torch_function.hpp"

namespace mneme::backbone {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Heads are a multiple of it wide, and strides of queries, keys, values: 16 bytes of bf16.
constexpr std::int64_t kRowMultiple = 8;
// The memory-efficient kernel reads and writes rows of biases in pieces of so many bytes at most.
constexpr std::int64_t kBiasMultiple = 16;
constexpr std::int64_t kNoMask = 0, kCausalFromBottomRight = 2;  // LibTorch's sdp::CustomMaskType

std::int64_t rounded(std::int64_t n, std::int64_t multiple) {
  return (n + multiple - 1) / multiple * multiple;
}

// [B,n,heads,d] as the kernels read it: heads padded with zeros, rows aligned to 16 bytes.
at::Tensor kernel_rows(const at::Tensor& rows) {
  const std::int64_t width = rows.size(3), padding = rounded(width, kRowMultiple) - width;
  if (padding > 0) return at::constant_pad_nd(rows, {0, padding});
  bool is_aligned =
      rows.stride(3) == 1 && reinterpret_cast<std::uintptr_t>(rows.const_data_ptr()) % 16 == 0;
  for (std::int64_t d = 0; d < 3; ++d) {
    is_aligned = is_aligned && rows.stride(d) % kRowMultiple == 0;
  }
  return is_aligned ? rows : rows.clone(at::MemoryFormat::Contiguous);
}

// Rows of G heads as H.
at::Tensor repeated_heads(const at::Tensor& rows, std::int64_t heads) {
  const std::int64_t shared = heads / rows.size(2);
  if (shared == 1) return rows;
  return rows.unsqueeze(3)
      .expand({rows.size(0), rows.size(1), rows.size(2), shared, rows.size(3)})
      .reshape({rows.size(0), rows.size(1), heads, rows.size(3)});
}

// Heads [H,n,d] padded with zeros.
at::Tensor padded_heads(const at::Tensor& t) {
  const std::int64_t padding = rounded(t.size(2), kRowMultiple) - t.size(2);
  return padding == 0 ? t : at::constant_pad_nd(t, {0, padding});
}

// What is added to the scores, [H|1,B|1,T,K] in the compute dtype: relative term, mask, biases.
// bf16 rounds them as it rounds the products of queries and keys, by 1/512 of their size.
class TermsFunction : public torch::autograd::Function<TermsFunction> {
 public:
  using Optional = std::optional<at::Tensor>;

  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& q, const Optional& /*table*/,
                            const Optional& /*position*/, const Optional& /*bias*/,
                            const AttentionArgs* args, std::int64_t keys) {
    const at::Tensor &table = args->table, &position = args->position_bias, &bias = args->bias;
    const std::int64_t placed = keys - args->first_placed;
    const auto extent = [&](std::int64_t dim, std::int64_t of_table) {
      std::int64_t most = table.defined() ? of_table : 1;
      for (const at::Tensor* t : {&args->mask, &bias}) {
        if (t->defined()) most = std::max(most, t->size(dim));
      }
      return most;
    };
    const at::Tensor out = at::empty({extent(0, q.size(2)), extent(1, q.size(0)), q.size(1),
                                      rounded(keys, kBiasMultiple)},
                                     q.options())
                               .narrow(3, 0, keys);
    at::Tensor qw, filled;
    if (table.defined()) {
      filled = padded_heads(with_aligned_rows(table));
      qw = padded_heads(scaled_query(q.permute({2, 0, 1, 3}), position, args->scale)
                            .view({q.size(2), q.size(0) * q.size(1), q.size(3)}));
      out.narrow(3, 0, args->first_placed).zero_();
      out.narrow(3, args->first_placed, placed)
          .copy_(shifted(at::bmm(qw, filled.transpose(1, 2)), q.size(0), placed));
    } else {
      out.zero_();
    }
    if (args->mask.defined()) out.add_(args->mask);
    if (bias.defined()) out.add_(bias);
    ctx->save_for_backward({qw, table, position, bias, filled});
    ctx->saved_data["scale"] = args->scale;
    ctx->saved_data["first_placed"] = args->first_placed;
    return out;
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const variable_list saved = ctx->get_saved_variables();
    const at::Tensor &qw = saved[0], &table = saved[1], &position = saved[2], &bias = saved[3];
    const at::Tensor &grad = grads[0], &filled = saved[4];  // [H|1,B|1,T,K]
    const std::int64_t first_placed = ctx->saved_data["first_placed"].toInt();
    variable_list out(6);
    if (bias.defined() && bias.requires_grad()) {
      out[3] = at::sum_to(grad, bias.sizes()).to(bias.scalar_type());
    }
    if (!table.defined()) return out;
    const at::Tensor raw =
        unshifted(grad.narrow(3, first_placed, grad.size(3) - first_placed), filled.size(1));
    const at::Tensor grad_qw =
        at::bmm(raw, filled).narrow(2, 0, table.size(2)).mul_(ctx->saved_data["scale"].toDouble());
    out[0] = grad_qw.reshape({grad.size(0), grad.size(1), grad.size(2), table.size(2)})
                 .permute({1, 2, 0, 3});
    if (table.requires_grad()) {
      out[1] =
          at::bmm(raw.transpose(1, 2), qw).narrow(1, 0, table.size(1)).narrow(2, 0, table.size(2));
    }
    if (position.defined() && position.requires_grad()) {
      out[2] = grad_qw.sum(1).to(position.scalar_type());
    }
    return out;
  }
};

// Undefined where the causal mask is all.
at::Tensor terms_of(const AttentionArgs& args, std::int64_t keys) {
  if (!args.table.defined() && !args.mask.defined() && !args.bias.defined()) return {};
  const at::Tensor terms = TermsFunction::apply(args.q, tensor::optional_input(args.table),
                                                tensor::optional_input(args.position_bias),
                                                tensor::optional_input(args.bias), &args, keys);
  return terms.permute({1, 0, 2, 3}).expand({args.q.size(0), args.q.size(2), args.q.size(1), keys});
}

// What is added to scores, [B,H,T,K], with rows as the memory-efficient kernel reads them.
at::Tensor aligned_terms(const at::Tensor& terms) {
  const auto bytes = static_cast<std::uintptr_t>(kBiasMultiple * terms.element_size());
  bool is_aligned =
      terms.stride(3) == 1 && reinterpret_cast<std::uintptr_t>(terms.const_data_ptr()) % bytes == 0;
  for (std::int64_t d = 0; d < 3; ++d) {
    is_aligned = is_aligned && terms.stride(d) % kBiasMultiple == 0;
  }
  if (is_aligned) return terms;
  const at::Tensor room = at::empty(
      {terms.size(0), terms.size(1), terms.size(2), rounded(terms.size(3), kBiasMultiple)},
      terms.options());
  const at::Tensor out = room.narrow(3, 0, terms.size(3));
  out.copy_(terms);
  return out;
}

// Rows to the left of a query's own column, and to its right; none = no bound.
std::pair<std::optional<std::int64_t>, std::optional<std::int64_t>> window_of(std::int64_t window) {
  if (window == 0) return {};
  return {window - 1, 0};
}

struct KernelCall {
  bool is_flash;
  double scale;
  std::int64_t window = 0;  // of is_flash
  bool is_causal = true;    // from the bottom right
};

struct KernelResult {
  at::Tensor z, lse;  // [B,T,H,d], [B,H,T or more]
  at::Tensor seed, offset;
};

// q [B,T,H,d], k, v [B,K,G,d]; terms [B,H,T,K], undefined = none.
KernelResult call_kernel(const KernelCall& call, const at::Tensor& q, const at::Tensor& k,
                         const at::Tensor& v, const at::Tensor& terms) {
  KernelResult out;
  if (call.is_flash) {
    const auto [left, right] = window_of(call.window);
    std::tie(out.z, out.lse, out.seed, out.offset, std::ignore) = at::_flash_attention_forward(
        q, k, v, {}, {}, q.size(1), k.size(1), 0.0, call.is_causal, false, call.scale, left, right);
  } else {
    std::tie(out.z, out.lse, out.seed, out.offset, std::ignore, std::ignore) =
        at::_efficient_attention_forward(q, k, v, tensor::optional_input(terms), {}, {}, {}, {},
                                         0.0, call.is_causal ? kCausalFromBottomRight : kNoMask,
                                         true, call.scale);
  }
  return out;
}

class KernelFunction : public torch::autograd::Function<KernelFunction> {
 public:
  using Optional = std::optional<at::Tensor>;

  // q [B,T,H,d], k, v [B,K,G,d]; terms [B,H,T,K]. Returns z [B,T,H,d] and lse [B,H,T or more].
  static variable_list forward(AutogradContext* ctx, const at::Tensor& q, const at::Tensor& k,
                               const at::Tensor& v, const Optional& terms, bool is_flash,
                               double scale, std::int64_t window) {
    ctx->saved_data["is_flash"] = is_flash;
    ctx->saved_data["scale"] = scale;
    ctx->saved_data["window"] = window;
    const at::Tensor added = terms.value_or(at::Tensor());
    const KernelResult out = call_kernel({is_flash, scale, window}, q, k, v, added);
    ctx->save_for_backward({q, k, v, added, out.z, out.lse, out.seed, out.offset});
    ctx->mark_non_differentiable({out.lse});
    return {out.z, out.lse};
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const variable_list saved = ctx->get_saved_variables();
    const at::Tensor &q = saved[0], &k = saved[1], &v = saved[2], &terms = saved[3];
    const at::Tensor &z = saved[4], &lse = saved[5], &seed = saved[6], &offset = saved[7];
    const double scale = ctx->saved_data["scale"].toDouble();
    variable_list out(7);
    if (ctx->saved_data["is_flash"].toBool()) {
      // It adds gradients of queries with atomic operations otherwise; so each block of keys has
      // sums of its own.
      const tensor::DeterministicAlgorithms deterministic;
      const auto [left, right] = window_of(ctx->saved_data["window"].toInt());
      std::tie(out[0], out[1], out[2]) =
          at::_flash_attention_backward(grads[0], q, k, v, z, lse, {}, {}, q.size(1), k.size(1),
                                        0.0, true, seed, offset, scale, left, right);
      return out;
    }
    // With one part of the keys each gradient is written by one block of threads.
    constexpr std::int64_t kParts = 1;
    const Optional bias = tensor::optional_input(terms);
    std::tie(out[0], out[1], out[2], out[3]) = at::_efficient_attention_backward(
        grads[0], q, k, v, bias, z, {}, {}, q.size(1), k.size(1), lse, 0.0, seed, offset,
        kCausalFromBottomRight, bias && bias->requires_grad(), scale, kParts);
    // It passes over tiles of hidden scores, whose gradients may hold anything.
    if (out[3].defined()) out[3].tril_(k.size(1) - q.size(1));
    return out;
  }
};

// Attention over one lane's rows, which lie before all queries and which all lanes share, and over
// each lane's own: a call each, merged exactly by z = sum_i exp(lse_i - lse) z_i. In the first one
// the queries of all lanes are those of one. q as the kernel reads it, without gradient.
AttentionOutput attend_to_shared(bool is_flash, const AttentionArgs& args, const at::Tensor& q,
                                 const KeyPiece& shared, const KeyPiece& own) {
  const std::int64_t lanes = q.size(0), tokens = q.size(1), heads = q.size(2),
                     before = shared.k.size(1);
  at::Tensor of_shared, of_own;
  if (const at::Tensor terms = terms_of(args, before + own.k.size(1)); terms.defined()) {
    of_shared = aligned_terms(
        terms.narrow(3, 0, before).transpose(0, 1).reshape({1, heads, lanes * tokens, before}));
    of_own = aligned_terms(terms.narrow(3, before, own.k.size(1)));
  }
  const auto rows = [&](const at::Tensor& t) {
    return kernel_rows(is_flash ? t : repeated_heads(t, heads));
  };
  const KernelResult first =
      call_kernel({.is_flash = is_flash, .scale = args.scale, .is_causal = false},
                  q.reshape({1, lanes * tokens, heads, q.size(3)}), rows(shared.k.narrow(0, 0, 1)),
                  rows(shared.v.narrow(0, 0, 1)), of_shared);
  const KernelResult second =
      call_kernel({.is_flash = is_flash, .scale = args.scale}, q, rows(own.k), rows(own.v), of_own);
  const at::Tensor first_lse =
      first.lse.narrow(2, 0, lanes * tokens).reshape({heads, lanes, tokens}).transpose(0, 1);
  const at::Tensor second_lse = second.lse.narrow(2, 0, tokens);
  AttentionOutput out;
  out.lse = at::logaddexp(first_lse, second_lse);
  const auto weighted = [&](const at::Tensor& z, const at::Tensor& lse) {
    return (lse - out.lse).exp().transpose(1, 2).unsqueeze(3) * z;  // in f32
  };
  out.z = weighted(first.z.reshape(second.z.sizes()), first_lse)
              .add_(weighted(second.z, second_lse))
              .to(q.scalar_type());
  return out;
}

}  // namespace

AttentionOutput attend_by_library(AttentionPath path, const AttentionArgs& args,
                                  const std::vector<KeyPiece>& pieces, std::int64_t window) {
  const std::int64_t tokens = args.q.size(1), heads = args.q.size(2), width = args.q.size(3);
  const bool is_flash = path == AttentionPath::kFlash;
  at::Tensor q = args.q;
  if (args.content_bias.defined()) q = q + args.content_bias.to(q.scalar_type());
  q = kernel_rows(q);
  AttentionOutput attended;
  // A window may hide all of the shared rows from a token.
  if (window == 0 && !at::GradMode::is_enabled() && pieces[0].is_shared) {
    attended = attend_to_shared(is_flash, args, q, pieces[0], pieces[1]);
    attended.z = attended.z.narrow(3, 0, width);
    if (!args.wants_lse) attended.lse.reset();
    return attended;
  }
  std::vector<at::Tensor> keys, values;
  for (const KeyPiece& piece : pieces) {
    keys.push_back(piece.k);
    values.push_back(piece.v);
  }
  const auto in_one = [&](const std::vector<at::Tensor>& parts) {
    const at::Tensor all = parts.size() == 1 ? parts[0] : at::cat(parts, 1);
    return kernel_rows(is_flash ? all : repeated_heads(all, heads));
  };
  const at::Tensor k = in_one(keys), v = in_one(values);
  const variable_list out = KernelFunction::apply(
      q, k, v, tensor::optional_input(terms_of(args, k.size(1))), is_flash, args.scale, window);
  attended.z = out[0].narrow(3, 0, width);
  if (args.wants_lse) attended.lse = out[1].narrow(2, 0, tokens);
  return attended;
}

}  // namespace mneme::backbone
