#include "tests/backbone/library/fake_kernels.hpp"

#include <ATen/Context.h>
#include <torch/library.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <tuple>

#include "host/tensor/torch.hpp"

namespace mneme::backbone {
namespace {

using at::Tensor;
using OptionalTensor = std::optional<Tensor>;

constexpr int64_t kNoMask = 0, kMaskFromBottomRight = 2;
constexpr int64_t kLseMultiple = 32;

KernelCalls calls;

// As both kernels index them.
struct Problem {
  Tensor q, k, v;  // [B,T,H,d], [B,K,G,d]
  Tensor bias;     // [B,H,T,K]; undefined = none
  double scale;
  int64_t left = -1;  // columns left of a query's own; -1 = all
  bool is_causal = true;

  int64_t shared() const { return q.size(2) / k.size(2); }
};

bool is_defined(const OptionalTensor& t) { return t && t->defined(); }

int64_t elements_of_16_bytes(const Tensor& t) { return 16 / t.element_size(); }

// Vectors of 16 bytes are read along the last dimension.
void check_aligned(const Tensor& t, const char* name) {
  const int64_t multiple = elements_of_16_bytes(t);
  TORCH_CHECK(t.dim() == 4, name, " has ", t.dim(), " dimensions");
  TORCH_CHECK(t.stride(3) == 1, name, ": the last dimension is not contiguous");
  TORCH_CHECK(reinterpret_cast<std::uintptr_t>(t.const_data_ptr()) % 16 == 0, name, ": address");
  for (int64_t d = 0; d < 3; ++d) {
    TORCH_CHECK(t.stride(d) % multiple == 0, name, ": stride ", t.stride(d), " of dimension ", d);
  }
}

void check_rows(const Problem& p) {
  check_aligned(p.q, "query");
  check_aligned(p.k, "key");
  check_aligned(p.v, "value");
  TORCH_CHECK(p.k.sizes() == p.v.sizes(), "keys and values");
  TORCH_CHECK(p.q.size(0) == p.k.size(0) && p.q.size(3) == p.k.size(3), "lanes and widths");
  TORCH_CHECK(!p.is_causal || p.q.size(1) <= p.k.size(1), "more queries than keys");
  TORCH_CHECK(p.q.size(3) % 8 == 0, "head width ", p.q.size(3));
  TORCH_CHECK(p.k.scalar_type() == p.q.scalar_type() && p.v.scalar_type() == p.q.scalar_type(),
              "dtypes");
}

void check_flash(const Problem& p) {
  check_rows(p);
  TORCH_CHECK(p.q.scalar_type() == at::kBFloat16, "FlashAttention computes in bf16");
  TORCH_CHECK(p.q.size(3) <= 256, "head width ", p.q.size(3));
  TORCH_CHECK(p.q.size(2) % p.k.size(2) == 0, "heads of keys");
}

void check_efficient(const Problem& p) {
  check_rows(p);
  TORCH_CHECK(p.q.scalar_type() == at::kBFloat16 || p.q.scalar_type() == at::kFloat, "dtype");
  TORCH_CHECK(p.q.size(2) == p.k.size(2), "heads of keys");
  if (!p.bias.defined()) return;
  check_aligned(p.bias, "bias");
  TORCH_CHECK(p.bias.scalar_type() == p.q.scalar_type(), "dtype of the bias");
  TORCH_CHECK(
      p.bias.sizes() == at::IntArrayRef({p.q.size(0), p.q.size(2), p.q.size(1), p.k.size(1)}),
      "shape of the bias");
}

Tensor all_heads(const Tensor& rows, const Problem& p) {  // [B,H,n,d] in f64
  return rows.to(at::kDouble).repeat_interleave(p.shared(), 2).permute({0, 2, 1, 3});
}

// Masked scores [B,H,T,K].
Tensor scores(const Problem& p) {
  const int64_t tokens = p.q.size(1), keys = p.k.size(1);
  Tensor s =
      at::matmul(p.q.to(at::kDouble).permute({0, 2, 1, 3}), all_heads(p.k, p).transpose(2, 3))
          .mul(p.scale);
  if (p.bias.defined()) s = s + p.bias.to(at::kDouble);
  if (!p.is_causal) return s;
  // Distance of a column to the left of the query's own, the last row's being the last column.
  const Tensor distance = at::arange(tokens, at::kLong).unsqueeze(1) + (keys - tokens) -
                          at::arange(keys, at::kLong).unsqueeze(0);
  Tensor absent = distance.lt(0);
  if (p.left >= 0) absent = absent.logical_or(distance.gt(p.left));
  return s.masked_fill(absent, -std::numeric_limits<double>::infinity());
}

// z [B,T,H,d] and lse [B,H,T].
std::pair<Tensor, Tensor> forward(const Problem& p) {
  const Tensor s = scores(p), lse = at::logsumexp(s, {-1});
  TORCH_CHECK(at::isfinite(lse).all().item<bool>(), "a query sees no column");
  const Tensor z = at::matmul((s - lse.unsqueeze(-1)).exp(), all_heads(p.v, p));
  return {z.permute({0, 2, 1, 3}).to(p.q.scalar_type()).contiguous(), lse.to(at::kFloat)};
}

struct Gradients {
  Tensor q, k, v, bias;
};

// With the z and lse [B,H,T] that the forward pass gave.
Gradients backward(const Problem& p, const Tensor& grad_z, const Tensor& z, const Tensor& lse) {
  const auto heads_first = [](const Tensor& t) { return t.to(at::kDouble).permute({0, 2, 1, 3}); };
  const Tensor g = heads_first(grad_z), q = heads_first(p.q);
  const Tensor probability = (scores(p) - lse.to(at::kDouble).unsqueeze(-1)).exp();
  const Tensor delta = (g * heads_first(z)).sum(-1, true);
  const Tensor grad_s =
      probability * (at::matmul(g, all_heads(p.v, p).transpose(2, 3)) - delta);  // [B,H,T,K]
  const auto of_keys = [&](const Tensor& grad) {  // [B,H,K,d] to [B,K,G,d]
    const int64_t groups = p.k.size(2);
    return grad.view({grad.size(0), groups, p.shared(), grad.size(2), grad.size(3)})
        .sum(2)
        .permute({0, 2, 1, 3})
        .to(p.k.scalar_type())
        .contiguous();
  };
  Gradients out;
  out.q = at::matmul(grad_s, all_heads(p.k, p)).mul(p.scale).permute({0, 2, 1, 3});
  out.q = out.q.to(p.q.scalar_type()).contiguous();
  out.k = of_keys(at::matmul(grad_s.transpose(2, 3), q).mul(p.scale));
  out.v = of_keys(at::matmul(probability.transpose(2, 3), g));
  out.bias = grad_s;
  return out;
}

Tensor no_seed() { return at::empty({}, at::kLong); }

Problem flash_problem(const Tensor& q, const Tensor& k, const Tensor& v, int64_t max_q,
                      int64_t max_k, double dropout, bool is_causal, std::optional<double> scale,
                      std::optional<int64_t> left, std::optional<int64_t> right) {
  TORCH_CHECK(max_q == q.size(1) && max_k == k.size(1), "longest sequences");
  TORCH_CHECK(dropout == 0.0 && (is_causal || !left) && scale, "dropout, mask or scale");
  TORCH_CHECK(left.has_value() == right.has_value(), "half a window");
  TORCH_CHECK(right.value_or(0) == 0 && left.value_or(0) >= 0, "window");
  Problem p{.q = q,
            .k = k,
            .v = v,
            .bias = {},
            .scale = *scale,
            .left = left.value_or(-1),
            .is_causal = is_causal};
  check_flash(p);
  return p;
}

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> flash_forward(
    const Tensor& q, const Tensor& k, const Tensor& v, const OptionalTensor& begins_q,
    const OptionalTensor& begins_k, int64_t max_q, int64_t max_k, double dropout, bool is_causal,
    bool returns_mask, std::optional<double> scale, std::optional<int64_t> left,
    std::optional<int64_t> right, const OptionalTensor& used_k, const OptionalTensor& slopes) {
  ++calls.flash;
  TORCH_CHECK(!is_defined(begins_q) && !is_defined(begins_k) && !is_defined(used_k), "sequences");
  TORCH_CHECK(!is_defined(slopes) && !returns_mask, "slopes have no gradient");
  const auto [z, lse] =
      forward(flash_problem(q, k, v, max_q, max_k, dropout, is_causal, scale, left, right));
  return {z, lse, no_seed(), no_seed(), at::empty({0})};
}

std::tuple<Tensor, Tensor, Tensor> flash_backward(
    const Tensor& grad_z, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& z,
    const Tensor& lse, const Tensor& begins_q, const Tensor& begins_k, int64_t max_q, int64_t max_k,
    double dropout, bool is_causal, const Tensor& seed, const Tensor& offset,
    std::optional<double> scale, std::optional<int64_t> left, std::optional<int64_t> right) {
  ++calls.flash_backward;
  TORCH_CHECK(!begins_q.defined() && !begins_k.defined(), "sequences");
  TORCH_CHECK(is_causal && seed.defined() && offset.defined(), "mask or state of random numbers");
  const at::Context& context = at::globalContext();
  TORCH_CHECK(context.deterministicAlgorithms() && !context.deterministicAlgorithmsWarnOnly() &&
                  !context.deterministicFillUninitializedMemory(),
              "not deterministic, or with memory that is filled");
  const Problem p = flash_problem(q, k, v, max_q, max_k, dropout, is_causal, scale, left, right);
  const Gradients out = backward(p, grad_z, z, lse);
  return {out.q, out.k, out.v};
}

std::tuple<Tensor, Tensor, Tensor, Tensor, c10::SymInt, c10::SymInt> efficient_forward(
    const Tensor& q, const Tensor& k, const Tensor& v, const OptionalTensor& bias,
    const OptionalTensor& begins_q, const OptionalTensor& begins_k, std::optional<int64_t> max_q,
    std::optional<int64_t> max_k, double dropout, int64_t mask, bool wants_lse,
    std::optional<double> scale, const OptionalTensor& used_k, std::optional<int64_t> window) {
  ++calls.efficient;
  TORCH_CHECK(!is_defined(begins_q) && !is_defined(begins_k) && !is_defined(used_k), "sequences");
  TORCH_CHECK(!max_q && !max_k && !window && dropout == 0.0 && scale, "what is not used");
  TORCH_CHECK((mask == kMaskFromBottomRight || mask == kNoMask) && wants_lse,
              "mask or log-sum-exp");
  const Problem p{.q = q,
                  .k = k,
                  .v = v,
                  .bias = bias.value_or(Tensor()),
                  .scale = *scale,
                  .is_causal = mask == kMaskFromBottomRight};
  check_efficient(p);
  const auto [z, lse] = forward(p);
  const int64_t tokens = q.size(1),
                padded = (tokens + kLseMultiple - 1) / kLseMultiple * kLseMultiple;
  const Tensor all =
      at::full({q.size(0), q.size(2), padded}, std::numeric_limits<float>::infinity(), at::kFloat);
  all.narrow(2, 0, tokens).copy_(lse);
  return {z, all, no_seed(), no_seed(), c10::SymInt(tokens), c10::SymInt(k.size(1))};
}

std::tuple<Tensor, Tensor, Tensor, Tensor> efficient_backward(
    const Tensor& grad_z, const Tensor& q, const Tensor& k, const Tensor& v,
    const OptionalTensor& bias, const Tensor& z, const OptionalTensor& begins_q,
    const OptionalTensor& begins_k, int64_t /*max_q*/, int64_t /*max_k*/, const Tensor& lse,
    double dropout, const Tensor& seed, const Tensor& offset, int64_t mask, bool wants_bias,
    std::optional<double> scale, std::optional<int64_t> parts, std::optional<int64_t> window,
    bool shares_storage) {
  ++calls.efficient_backward;
  TORCH_CHECK(!is_defined(begins_q) && !is_defined(begins_k), "sequences");
  TORCH_CHECK(!window && dropout == 0.0 && scale && !shares_storage, "what is not used");
  TORCH_CHECK(mask == kMaskFromBottomRight && seed.defined() && offset.defined(), "mask or seeds");
  TORCH_CHECK(parts == 1, "several parts of the keys are not deterministic");
  TORCH_CHECK(lse.size(2) % kLseMultiple == 0, "the log-sum-exp is not that of the forward pass");
  TORCH_CHECK(!wants_bias || is_defined(bias), "gradient of no bias");
  const Problem p{.q = q, .k = k, .v = v, .bias = bias.value_or(Tensor()), .scale = *scale};
  check_efficient(p);
  Gradients out = backward(p, grad_z, z, lse.narrow(2, 0, q.size(1)));
  if (!wants_bias) return {out.q, out.k, out.v, Tensor()};
  const int64_t keys = k.size(1);
  const Tensor grad_bias =
      at::full({q.size(0), q.size(2), q.size(1), (keys + 15) / 16 * 16}, std::nan(""), q.options())
          .narrow(3, 0, keys);
  // Of hidden scores nothing is written.
  const Tensor hidden =
      at::ones({q.size(1), keys}, at::kBool).triu(keys - q.size(1) + 1).expand_as(grad_bias);
  return {out.q, out.k, out.v, grad_bias.copy_(out.bias.masked_fill(hidden, std::nan("")))};
}

}  // namespace

KernelCalls kernel_calls() { return calls; }

TORCH_LIBRARY_IMPL(aten, CPU, m) {
  m.impl("_flash_attention_forward", flash_forward);
  m.impl("_flash_attention_backward", flash_backward);
  m.impl("_efficient_attention_forward", efficient_forward);
  m.impl("_efficient_attention_backward", efficient_backward);
}

}  // namespace mneme::backbone
