#include "host/backbone/attention/attention.hpp"

#include <ATen/record_function.h>

#include <array>
#include <limits>
#include <optional>
#include <vector>

#include "host/backbone/attention/shift.hpp"
#include "host/tensor/torch_function.hpp"

namespace mneme::backbone {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct Sizes {
  std::int64_t heads, lanes, queries, keys, width, placed;
  std::int64_t key_heads;

  std::int64_t shared() const { return heads / key_heads; }    // heads that use one head of keys
  std::int64_t products() const { return key_heads * lanes; }  // with keys or values
};

// Rows [H,B,n,m] of all heads that use one head of keys, in one matrix: [G*B, H/G*n, m].
at::Tensor grouped(const at::Tensor& t, const Sizes& s) {
  const std::int64_t n = t.size(2), m = t.size(3);
  if (s.shared() == 1) return t.view({s.products(), n, m});
  return t.view({s.key_heads, s.shared(), s.lanes, n, m})
      .transpose(1, 2)
      .reshape({s.products(), s.shared() * n, m});
}

// The inverse: [G*B, H/G*n, m] to [H,B,n,m], contiguous.
at::Tensor ungrouped(const at::Tensor& t, const Sizes& s) {
  const std::int64_t n = t.size(1) / s.shared(), m = t.size(2);
  if (s.shared() == 1) return t.view({s.heads, s.lanes, n, m});
  return t.view({s.key_heads, s.lanes, s.shared(), n, m})
      .transpose(1, 2)
      .reshape({s.heads, s.lanes, n, m})
      .contiguous();  // with one head of keys it is a view
}

at::Tensor sum_to(const at::Tensor& x, const at::Tensor& like) {
  return at::sum_to(x, like.sizes()).to(like.scalar_type());
}

// Of one product of a pass.
c10::IValue hidden_operations(const AttentionArgs& args) {
  const at::Tensor& q = args.q;
  return 2 * args.hidden_pairs * q.size(0) * q.size(2) * q.size(3);
}

const char* scope_name(bool is_of_hook) {
  return is_of_hook ? "attention of a hook" : kAttentionScope;
}

class AttentionFunction : public torch::autograd::Function<AttentionFunction> {
 public:
  using Optional = std::optional<at::Tensor>;
  enum Input { kQ, kK, kV, kTable, kContent, kPosition, kBias, kVirtualLogit, kVirtualValue };

  static variable_list forward(AutogradContext* ctx, const at::Tensor& q, const at::Tensor& k,
                               const at::Tensor& v, const Optional& /*table*/,
                               const Optional& /*content*/, const Optional& /*position*/,
                               const Optional& /*bias*/, const Optional& /*virtual_logit*/,
                               const Optional& /*virtual_value*/, const AttentionArgs* args,
                               at::Tensor* mass) {
    const at::Tensor &table = args->table, &content = args->content_bias;
    const at::Tensor &position = args->position_bias, &bias = args->bias;
    const at::Tensor &virtual_logit = args->virtual_logit, &virtual_value = args->virtual_value;
    const Sizes s = sizes_of(q, k, args->first_placed);
    const at::Tensor heads_first = q.permute({2, 0, 1, 3});
    const at::Tensor qu = scaled_query(heads_first, content, args->scale);
    const at::Tensor qw = !table.defined() ? at::Tensor()
                          : position.is_same(content)
                              ? qu
                              : scaled_query(heads_first, position, args->scale);
    at::Tensor p = scores(qu, qw, k, table, *args, s);  // becomes the probabilities
    at::Tensor capped;                                  // as a share of the cap
    if (args->softcap > 0.0) {
      capped = p.div_(args->softcap).tanh_();
      p = capped * args->softcap;
      if (args->mask.defined()) p.add_(args->mask);
    }
    if (bias.defined()) p.add_(bias);
    const bool is_manual = args->wants_lse || args->may_be_empty || virtual_logit.defined();
    at::Tensor lse;
    at::Tensor virtual_p;
    if (is_manual) {
      std::tie(lse, virtual_p) = softmax_in_place(p, virtual_logit);
    } else {
      p = at::softmax(p, -1);
    }
    if (args->wants_mass) *mass = mass_of(p, args->query_valid);
    if (args->on_probabilities) args->on_probabilities(p);
    p = p.to(q.scalar_type());
    at::Tensor noise;
    if (args->dropout > 0.0) {
      noise =
          args->noise->mask(p.sizes(), p.options(), args->dropout, LaneDim::kSecond);  // [H,B,T,S]
    }
    const at::Tensor used = noise.defined() ? p * noise : p;
    at::Tensor z = ungrouped(at::bmm(grouped(used, s), v.view({s.products(), s.keys, s.width})), s);
    if (virtual_p.defined()) {
      const at::ScalarType type = virtual_value.scalar_type();
      z = at::addcmul(z.to(type), virtual_p.unsqueeze(-1).to(type), virtual_value);
    }
    ctx->save_for_backward({qu, qw, k, v, table, content, position, bias, virtual_value, p, noise,
                            z, args->may_be_empty ? lse : at::Tensor(), virtual_p, capped});
    const std::array inputs = {
        &q, &k, &v, &table, &content, &position, &bias, &virtual_logit, &virtual_value};
    std::int64_t needs = 0;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (inputs[i]->defined() && inputs[i]->requires_grad()) needs |= std::int64_t{1} << i;
    }
    ctx->saved_data["needs"] = needs;
    ctx->saved_data["scale"] = args->scale;
    ctx->saved_data["first_placed"] = args->first_placed;
    ctx->saved_data["is_of_hook"] = args->is_of_hook;
    ctx->saved_data["hidden"] = hidden_operations(*args);
    if (!args->wants_lse) return {z.permute({1, 2, 0, 3})};
    return {z.permute({1, 2, 0, 3}), lse.permute({1, 0, 2})};
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads);

  static Sizes sizes_of(const at::Tensor& q, const at::Tensor& k, std::int64_t first_placed) {
    return {q.size(2), q.size(0), q.size(1), k.size(2), q.size(3), k.size(2) - first_placed,
            k.size(0)};
  }

 private:
  // Scaled, masked scores [H,B,T,K] in the score dtype; without the mask where they are capped.
  static at::Tensor scores(const at::Tensor& qu, const at::Tensor& qw, const at::Tensor& k,
                           const at::Tensor& table, const AttentionArgs& args, const Sizes& s) {
    const at::ScalarType type = score_dtype(qu.scalar_type());
    const at::Tensor query = grouped(qu, s);
    const at::Tensor keys = k.view({s.products(), s.keys, s.width}).transpose(1, 2);
    if (!table.defined()) {
      at::Tensor out = ungrouped(at::bmm(query, keys), s).to(type);
      if (args.mask.defined() && args.softcap == 0.0) out.add_(args.mask);
      return out;
    }
    const at::Tensor raw =
        at::bmm(qw.view({s.heads, s.lanes * s.queries, s.width}), table.transpose(1, 2));
    const at::Tensor moved = shifted(raw, s.lanes, s.placed);
    at::Tensor out = at::empty({s.heads, s.lanes, s.queries, s.keys}, qu.options().dtype(type));
    at::Tensor placed = out.narrow(3, args.first_placed, s.placed);
    at::Tensor free = out.narrow(3, 0, args.first_placed);
    if (args.mask.defined()) {
      at::add_out(placed, moved, args.mask.narrow(-1, args.first_placed, s.placed));
      if (args.first_placed > 0)
        free.copy_(args.mask.narrow(-1, 0, args.first_placed).expand_as(free));
    } else {
      placed.copy_(moved);
      if (args.first_placed > 0) free.zero_();
    }
    if (type == qu.scalar_type() && s.shared() == 1) {
      out.view({s.products(), s.queries, s.keys}).baddbmm_(query, keys);
    } else {
      out.add_(ungrouped(at::bmm(query, keys), s));
    }
    return out;
  }

  // Turns scores into probabilities; returns (lse, probability of the virtual key). A row without
  // keys becomes all 0 with lse = -inf.
  static std::pair<at::Tensor, at::Tensor> softmax_in_place(at::Tensor& p,
                                                            const at::Tensor& virtual_logit) {
    at::Tensor top =
        p.size(3) > 0 ? at::amax(p, {-1}, true)
                      : at::full({p.size(0), p.size(1), p.size(2), 1}, kMinusInfinity, p.options());
    at::Tensor extra;
    if (virtual_logit.defined()) {
      extra = virtual_logit.to(p.scalar_type()).unsqueeze(-1);
      top = at::maximum(top, extra);
    }
    top.masked_fill_(top == kMinusInfinity, 0.0);
    p.sub_(top).exp_();
    at::Tensor sum = p.sum(-1, true);
    if (extra.defined()) {
      extra = (extra - top).exp_();
      sum.add_(extra);
    }
    const at::Tensor lse = (top + sum.log()).squeeze(-1);
    sum.masked_fill_(sum == 0.0, 1.0);
    p.div_(sum);
    return {lse, extra.defined() ? extra.div_(sum).squeeze(-1) : at::Tensor()};
  }

  static at::Tensor mass_of(const at::Tensor& p, const at::Tensor& query_valid) {
    if (!query_valid.defined()) return p.sum(at::IntArrayRef({0, 2}));
    const at::Tensor weight = query_valid.to(p.scalar_type()).view({1, p.size(1), p.size(2), 1});
    return (p * weight).sum(at::IntArrayRef({0, 2}));
  }
};

variable_list AttentionFunction::backward(AutogradContext* ctx, variable_list grads) {
  const std::array hidden = {ctx->saved_data["hidden"]};
  RECORD_USER_SCOPE_WITH_INPUTS(scope_name(ctx->saved_data["is_of_hook"].toBool()), hidden);
  const variable_list saved = ctx->get_saved_variables();
  const at::Tensor &qu = saved[0], &qw = saved[1], &k = saved[2], &v = saved[3], &table = saved[4];
  const at::Tensor &content = saved[5], &position = saved[6], &bias = saved[7];
  const at::Tensor &virtual_value = saved[8], &p = saved[9], &noise = saved[10], &z = saved[11];
  const at::Tensor &lse = saved[12], &virtual_p = saved[13], &capped = saved[14];
  const double scale = ctx->saved_data["scale"].toDouble();
  const std::int64_t needed = ctx->saved_data["needs"].toInt();
  const auto needs = [&](Input input) { return ((needed >> input) & 1) != 0; };
  const std::int64_t first_placed = ctx->saved_data["first_placed"].toInt();
  const Sizes s{qu.size(0), qu.size(1), qu.size(2), k.size(2), qu.size(3), k.size(2) - first_placed,
                k.size(0)};
  const at::ScalarType type = score_dtype(qu.scalar_type());
  variable_list out(11);

  at::Tensor grad_lse;
  if (grads.size() > 1 && grads[1].defined()) {
    grad_lse = grads[1].permute({1, 0, 2}).to(type);
    // A query without keys has a constant lse; the gradient that arrives for it may be NaN.
    if (lse.defined()) grad_lse = grad_lse.masked_fill(lse == kMinusInfinity, 0.0);
  }
  const at::Tensor grad_z =
      grads[0].defined() ? grads[0].permute({2, 0, 1, 3}).contiguous() : at::zeros_like(z);
  const at::Tensor grad_z3 = grouped(grad_z, s).to(qu.scalar_type());
  // d lse and -z . dz are added to every score of the row.
  at::Tensor row = at::mul(grad_z, z).sum(-1, false, type).neg_();
  if (grad_lse.defined()) row.add_(grad_lse);

  if (needs(kV)) {
    const at::Tensor used = noise.defined() ? p * noise : p;
    out[kV] = at::bmm(grouped(used, s).transpose(1, 2), grad_z3).view(v.sizes());
  }
  const at::Tensor values = v.view({s.products(), s.keys, s.width}).transpose(1, 2);
  at::Tensor grad_s;  // [H,B,T,K], score dtype
  if (noise.defined() || type != p.scalar_type() || s.shared() > 1) {
    grad_s = ungrouped(at::bmm(grad_z3, values), s).to(type);
    if (noise.defined()) grad_s.mul_(noise);
    grad_s.add_(row.unsqueeze(3));
  } else {
    const at::Tensor row3 = row.view({s.products(), s.queries, 1});
    grad_s = ungrouped(at::baddbmm(row3, grad_z3, values), s);
  }
  grad_s.mul_(p);
  if (bias.defined() && needs(kBias)) out[kBias] = sum_to(grad_s, bias);
  if (virtual_p.defined()) {
    if (needs(kVirtualLogit)) {
      out[kVirtualLogit] = ((grad_z * virtual_value).sum(-1, false, type) + row) * virtual_p;
    }
    if (needs(kVirtualValue)) {
      out[kVirtualValue] = grad_z * virtual_p.unsqueeze(-1).to(grad_z.scalar_type());
    }
  }
  // The bias is added to capped scores, and its gradient may lie in grad_s.
  if (capped.defined()) grad_s = grad_s * (1.0 - capped * capped);
  const at::Tensor grad_low = grad_s.to(qu.scalar_type());
  const at::Tensor grad_keys = grouped(grad_low, s);
  if (needs(kK)) {
    out[kK] = at::bmm(grad_keys.transpose(1, 2), grouped(qu, s)).view(k.sizes());
  }
  at::Tensor grad_q =
      ungrouped(at::bmm(grad_keys, k.view({s.products(), s.keys, s.width})), s).mul_(scale);
  if (content.defined() && needs(kContent)) {
    out[kContent] =
        grad_q.view({s.heads, s.lanes * s.queries, s.width}).sum(1).to(content.scalar_type());
  }
  if (table.defined()) {
    const at::Tensor raw = unshifted(grad_low.narrow(3, first_placed, s.placed), table.size(1));
    const at::Tensor grad_qw = at::bmm(raw, table).mul_(scale);  // [H,B*T,d]
    if (position.defined() && needs(kPosition)) {
      out[kPosition] = grad_qw.sum(1).to(position.scalar_type());
    }
    if (needs(kTable)) {
      out[kTable] = at::bmm(raw.transpose(1, 2), qw.view({s.heads, s.lanes * s.queries, s.width}));
    }
    grad_q.add_(grad_qw.view_as(grad_q));
  }
  out[kQ] = grad_q.permute({1, 2, 0, 3});
  return out;
}

}  // namespace

at::Tensor softcapped(const at::Tensor& s, double cap) {
  return cap == 0.0 ? s : (s / cap).tanh() * cap;
}

at::ScalarType score_dtype(at::ScalarType compute) {
  return compute == at::kDouble ? at::kDouble : at::kFloat;
}

AttentionOutput attend(const AttentionArgs& given) {
  const std::array hidden = {hidden_operations(given)};
  RECORD_USER_SCOPE_WITH_INPUTS(scope_name(given.is_of_hook), hidden);
  AttentionArgs args = given;
  if (args.q.is_cuda() && args.table.defined()) args.table = with_aligned_rows(args.table);
  at::Tensor mass;
  using tensor::optional_input;
  const variable_list results = AttentionFunction::apply(
      args.q, args.k, args.v, optional_input(args.table), optional_input(args.content_bias),
      optional_input(args.position_bias), optional_input(args.bias),
      optional_input(args.virtual_logit), optional_input(args.virtual_value), &args, &mass);
  return {results[0], args.wants_lse ? results[1] : at::Tensor(), mass};
}

}  // namespace mneme::backbone
