#include "bench/lamemo/official.hpp"

#include <cmath>
#include <limits>

#include "host/backbone/attention/positions.hpp"
#include "host/tensor/torch.hpp"

namespace mneme::bench {
namespace {

constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();
constexpr double kEpsilon = 1e-6;

// x [N,K,B,H] in descending distance -> column j of row i is column j + N-1-i [Dai et al. 2019,
// appendix B].
at::Tensor shifted(const at::Tensor& x) {
  const int64_t n = x.size(0), k = x.size(1);
  const at::Tensor padded =
      at::cat({torch::zeros({n, 1, x.size(2), x.size(3)}, x.options()), x}, 1);
  return padded.view({k + 1, n, x.size(2), x.size(3)}).narrow(0, 1, k).view_as(x);
}

// x [M,M,B,H] in ascending offset -> column j of row i is column j-i; garbage where j < i.
at::Tensor shifted_ahead(const at::Tensor& x) {
  const int64_t m = x.size(0);
  const at::Tensor padded =
      at::cat({x, torch::zeros({m, 1, x.size(2), x.size(3)}, x.options())}, 1);
  return padded.view({m + 1, m, x.size(2), x.size(3)}).narrow(0, 0, m);
}

at::Tensor newest(const at::Tensor& rows, int64_t count) {
  const int64_t from = std::max<int64_t>(0, rows.size(0) - count);
  return rows.narrow(0, from, rows.size(0) - from).detach();
}

}  // namespace

OfficialLaMemo::OfficialLaMemo(const StackSizes& sizes, std::vector<OfficialLayer> layers,
                               at::Tensor content_bias, at::Tensor position_bias,
                               at::Tensor position_bias_ahead)
    : sizes_(sizes),
      layers_(std::move(layers)),
      content_bias_(std::move(content_bias)),
      position_bias_(std::move(position_bias)),
      position_bias_ahead_(std::move(position_bias_ahead)),
      scale_(1.0 / std::sqrt(static_cast<double>(sizes.head_width))),
      sinusoids_(backbone::sinusoids(at::arange(sizes.rows + sizes.segment, -1, -1, at::kLong),
                                     sizes.width, content_bias_.options().requires_grad(false))),
      state_(layers_.size()) {}

OfficialLaMemo::Attended OfficialLaMemo::look_ahead(const at::Tensor& q, const at::Tensor& k,
                                                    const at::Tensor& v,
                                                    const at::Tensor& positions,
                                                    const Attended& carried) const {
  const int64_t rows = q.size(0), window = std::min(sizes_.segment, rows);
  const at::Tensor keys = k.narrow(0, rows - window + 1, window);
  const at::Tensor content = at::einsum("ibnd,jbnd->ijbn", {q + content_bias_, keys});
  // Distances 1 .. M, ascending: of M x M terms those of the window's columns are used.
  const at::Tensor table = positions.narrow(0, positions.size(0) - 1 - rows, rows).flip(0);
  const at::Tensor place =
      shifted_ahead(at::einsum("ibnd,jnd->ijbn", {q + position_bias_ahead_, table}))
          .narrow(1, rows - window, window);
  const at::Tensor mask =
      torch::ones({rows, rows}, at::kBool).tril(-1).narrow(1, rows - window, window);
  const at::Tensor scores =
      ((content + place) * scale_).masked_fill(mask.unsqueeze(-1).unsqueeze(-1), kMinusInfinity);
  const at::Tensor lse = at::logsumexp(scores, 1);
  const at::Tensor context = at::einsum(
      "ijbn,jbnd->ibnd", {at::softmax(scores, 1), v.narrow(0, rows - window + 1, window)});
  const at::Tensor top = at::maximum(carried.lse, lse);
  const at::Tensor old = (carried.lse - top).exp(), fresh = (lse - top).exp();
  const at::Tensor alpha = (old / (old + fresh + kEpsilon)).unsqueeze(-1);
  return {alpha * carried.context + (1.0 - alpha) * context, at::logaddexp(carried.lse, lse)};
}

at::Tensor OfficialLaMemo::layer(size_t index, const at::Tensor& rows, const at::Tensor& tokens) {
  const OfficialLayer& w = layers_[index];
  const int64_t m = rows.size(0), n = tokens.size(0), lanes = tokens.size(1);
  const at::Tensor all = at::cat({rows, tokens}, 0);
  const auto heads = [&](const at::Tensor& t) {
    return t.view({t.size(0), lanes, sizes_.heads, sizes_.head_width});
  };
  const at::Tensor q = heads(at::linear(all, w.q));
  const std::vector<at::Tensor> kv = at::linear(all, w.kv).chunk(2, -1);
  const at::Tensor k = heads(kv[0]), v = heads(kv[1]);
  const at::Tensor positions =
      at::linear(sinusoids_.narrow(0, sinusoids_.size(0) - 1 - m - n, m + n + 1), w.positions)
          .view({-1, sizes_.heads, sizes_.head_width});
  const at::Tensor own = q.narrow(0, m, n);
  const at::Tensor content = at::einsum("ibnd,jbnd->ijbn", {own + content_bias_, k});
  // Distances M+N-1 .. 0.
  const at::Tensor place =
      shifted(at::einsum("ibnd,jnd->ijbn", {own + position_bias_, positions.narrow(0, 1, m + n)}));
  const at::Tensor mask = torch::ones({n, m + n}, at::kBool).triu(m + 1);
  const at::Tensor scores =
      ((content + place) * scale_).masked_fill(mask.unsqueeze(-1).unsqueeze(-1), kMinusInfinity);
  Attended of_tokens{at::einsum("ijbn,jbnd->ibnd", {at::softmax(scores, 1), v}),
                     at::logsumexp(scores, 1)};
  at::Tensor context = of_tokens.context, lse = of_tokens.lse;
  if (m > 0) {
    const Attended of_rows = look_ahead(q.narrow(0, 0, m), k, v, positions, state_[index]);
    context = at::cat({of_rows.context, context}, 0);
    lse = at::cat({of_rows.lse, lse}, 0);
  }
  state_[index] = {newest(context, sizes_.rows), newest(lse, sizes_.rows)};
  const at::Tensor attended = at::linear(context.reshape({m + n, lanes, -1}), w.output);
  const at::Tensor middle =
      at::layer_norm(all + attended, {sizes_.width}, w.norm, w.norm_bias, 1e-5);
  const at::Tensor inner = at::linear(middle, w.ff_in, w.ff_in_bias).relu();
  return at::layer_norm(middle + at::linear(inner, w.ff_out, w.ff_out_bias), {sizes_.width},
                        w.ff_norm, w.ff_norm_bias, 1e-5);
}

at::Tensor OfficialLaMemo::segment(const at::Tensor& embedded) {
  at::Tensor rows = embedded_.defined() ? embedded_ : embedded.narrow(0, 0, 0).detach();
  at::Tensor tokens = embedded;
  const int64_t m = rows.size(0), n = tokens.size(0);
  for (size_t l = 0; l < layers_.size(); ++l) {
    const at::Tensor out = layer(l, rows, tokens);
    rows = out.narrow(0, 0, m);
    tokens = out.narrow(0, m, n);
  }
  embedded_ =
      newest(embedded_.defined() ? at::cat({embedded_, embedded}, 0) : embedded, sizes_.rows);
  return tokens;
}

}  // namespace mneme::bench
