#include "bench/generation/official.hpp"

#include <cmath>
#include <limits>
#include <stdexcept>

#include "host/base/text.hpp"
#include "host/tensor/torch.hpp"

namespace mneme::bench {
namespace {

at::Tensor parameter(const run::Runtime& runtime, const std::string& name) {
  for (const optim::TrainableParameter& p : runtime.parameters()) {
    if (p.name.ends_with(name)) return p.tensor;
  }
  throw std::runtime_error("no parameter " + name);
}

// [T,K,B,H]: column j of row i moves to column j - (T-1-i).
at::Tensor relative_shift(const at::Tensor& x) {
  const at::Tensor zero = at::zeros({x.size(0), 1, x.size(2), x.size(3)}, x.options());
  return at::cat({zero, x}, 1)
      .view({x.size(1) + 1, x.size(0), x.size(2), x.size(3)})
      .slice(0, 1)
      .view_as(x);
}

// Distances K-1 .. 0.
at::Tensor sinusoids(std::int64_t keys, std::int64_t width) {
  const at::Tensor frequency = 1.0 / at::pow(10000.0, at::arange(0.0, width, 2.0) / width);
  const at::Tensor angle = at::ger(at::arange(keys - 1, -1, -1.0, at::kFloat), frequency);
  return at::cat({angle.sin(), angle.cos()}, 1);
}

}  // namespace

OfficialXl::OfficialXl(const run::Runtime& runtime, std::int64_t heads, std::int64_t rows)
    : heads_(heads),
      rows_(rows),
      table_(parameter(runtime, "embedding.0.weight")),
      content_bias_(parameter(runtime, "attention.content_bias")),
      position_bias_(parameter(runtime, "attention.position_bias")) {
  for (std::int64_t l = 0; l < runtime.stack().backbone().layers; ++l) {
    const auto of = [&](const char* name) {
      return parameter(runtime, str(".layers.", l, ".", name));
    };
    layers_.push_back({of("attention.qkv.weight"), of("attention.position.weight"),
                       of("attention.output.weight"), of("attention.norm.weight"),
                       of("attention.norm.bias"), of("ff.in.weight"), of("ff.in.bias"),
                       of("ff.out.weight"), of("ff.out.bias"), of("ff.norm.weight"),
                       of("ff.norm.bias")});
  }
}

at::Tensor OfficialXl::attention(const Layer& layer, const at::Tensor& h, const at::Tensor& memory,
                                 const at::Tensor& sinusoids) const {
  const at::Tensor all = memory.defined() ? at::cat({memory, h}) : h;
  const std::int64_t keys = all.size(0), tokens = h.size(0), lanes = h.size(1);
  const std::vector<at::Tensor> qkv = at::linear(all, layer.qkv).chunk(3, -1);
  const auto by_head = [&](const at::Tensor& t) {
    return t.view({-1, lanes, heads_, t.size(-1) / heads_});
  };
  const at::Tensor q = by_head(qkv[0].slice(0, keys - tokens).contiguous());
  const at::Tensor k = by_head(qkv[1].contiguous()), v = by_head(qkv[2].contiguous());
  const at::Tensor r = at::linear(sinusoids, layer.position).view({keys, heads_, q.size(3)});
  const at::Tensor content = at::einsum("ibnd,jbnd->ijbn", {q + content_bias_, k});
  const at::Tensor position = relative_shift(at::einsum("ibnd,jnd->ijbn", {q + position_bias_, r}));
  at::Tensor score = (content + position) / std::sqrt(static_cast<double>(q.size(3)));
  const at::Tensor future = at::ones({tokens, keys}, at::kBool).triu(1 + keys - tokens);
  score = score.masked_fill(future.unsqueeze(-1).unsqueeze(-1),
                            -std::numeric_limits<double>::infinity());
  const at::Tensor z = at::einsum("ijbn,jbnd->ibnd", {score.softmax(1), v});
  return at::linear(z.reshape({tokens, lanes, -1}), layer.output);
}

at::Tensor OfficialXl::segment(const at::Tensor& ids) {
  const std::int64_t width = table_.size(1), tokens = ids.size(1);
  at::Tensor h = at::embedding(table_, ids.t()) * std::sqrt(static_cast<double>(width));
  const std::int64_t held = memory_.empty() ? 0 : memory_[0].size(0);
  const at::Tensor distances = sinusoids(held + tokens, width);
  std::vector<at::Tensor> inputs;
  for (std::size_t l = 0; l < layers_.size(); ++l) {
    const Layer& layer = layers_[l];
    inputs.push_back(h);
    const at::Tensor memory = memory_.empty() ? at::Tensor() : memory_[l];
    h = at::layer_norm(h + attention(layer, h, memory, distances), {width}, layer.norm_weight,
                       layer.norm_bias);
    const at::Tensor inner = at::linear(h, layer.ff_in, layer.ff_in_bias).relu();
    h = at::layer_norm(h + at::linear(inner, layer.ff_out, layer.ff_out_bias), {width},
                       layer.ff_norm_weight, layer.ff_norm_bias);
  }
  memory_.resize(layers_.size());
  for (std::size_t l = 0; l < layers_.size(); ++l) {
    const at::Tensor all = memory_[l].defined() ? at::cat({memory_[l], inputs[l]}) : inputs[l];
    memory_[l] = all.slice(0, std::max<std::int64_t>(0, all.size(0) - rows_));
  }
  return h.transpose(0, 1);
}

}  // namespace mneme::bench
