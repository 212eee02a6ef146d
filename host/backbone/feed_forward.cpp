// The feed-forward part of a layer.
#include "host/backbone/layer.hpp"
#include "host/backbone/linear.hpp"
#include "host/tensor/recompute.hpp"
#include "host/tensor/torch.hpp"

namespace mneme::backbone {
namespace {

// The tensors of the feed-forward part that are there.
std::vector<at::Tensor*> tensors_of_feed_forward(LayerWeights& w) {
  std::vector<at::Tensor*> out;
  for (at::Tensor* t :
       {&w.ff_in, &w.ff_in_bias, &w.ff_out, &w.ff_out_bias, &w.ff_norm.weight, &w.ff_norm.bias}) {
    if (t->defined()) out.push_back(t);
  }
  return out;
}

// x is nobody else's: without gradient it is overwritten.
at::Tensor activated(at::Tensor x, const LayerSettings& settings) {
  const bool overwrites = !at::GradMode::is_enabled();
  switch (settings.feed_forward) {
    case config::FeedForward::kRelu:
      return overwrites ? x.relu_() : x.relu();
    case config::FeedForward::kGelu:
      return overwrites ? at::gelu_(x) : at::gelu(x);
    case config::FeedForward::kGeluTanh:
      return overwrites ? at::gelu_(x, "tanh") : at::gelu(x, "tanh");
    case config::FeedForward::kSwiglu:
      break;
  }
  at::Tensor gate = at::silu(x.narrow(-1, 0, settings.ff));
  const at::Tensor up = x.narrow(-1, settings.ff, settings.ff);
  return overwrites ? gate.mul_(up) : gate * up;
}

}  // namespace

at::Tensor Layer::feed_forward(const LayerWeights& weights, const at::Tensor& h, double dropout,
                               Noise& noise) const {
  const at::ScalarType compute = settings_->compute;
  const at::Tensor input = settings_->is_pre_norm() ? weights.ff_norm(h) : h;
  const at::Tensor inner = noise.apply(
      activated(linear(input, in_compute(weights.ff_in), weights.ff_in_bias, compute), *settings_),
      dropout);
  const at::Tensor out =
      h +
      noise.apply(linear(inner, in_compute(weights.ff_out), weights.ff_out_bias, compute), dropout);
  return settings_->is_pre_norm() ? out : weights.ff_norm(out);
}

at::Tensor Layer::recomputed_feed_forward(const at::Tensor& h, double dropout, Noise& noise) const {
  LayerWeights weights = weights_;
  std::vector<at::Tensor> inputs = {h};
  for (const at::Tensor* t : tensors_of_feed_forward(weights)) inputs.push_back(*t);
  // The first call draws from the model's noise, later ones the same masks from its copy.
  const auto f = [this, weights, dropout, first = &noise,
                  start = noise](const std::vector<at::Tensor>& given) mutable {
    std::size_t i = 1;
    for (at::Tensor* t : tensors_of_feed_forward(weights)) *t = given[i++];
    Noise again = start;
    Noise& used = first != nullptr ? *first : again;
    first = nullptr;
    return feed_forward(weights, given[0], dropout, used);
  };
  return tensor::recomputed(f, inputs);
}

at::Tensor Layer::feed_forward(const at::Tensor& h, double dropout, Noise& noise) const {
  if (at::GradMode::is_enabled()) {
    return settings_->recomputes ? recomputed_feed_forward(h, dropout, noise)
                                 : feed_forward(weights_, h, dropout, noise);
  }
  const std::int64_t rows = h.numel() / h.size(-1);
  if (dropout > 0.0 || rows <= kFeedForwardRows || !h.is_cpu()) {
    return feed_forward(weights_, h, dropout, noise);
  }
  std::vector<at::Tensor> parts;
  for (const at::Tensor& part : h.reshape({rows, h.size(-1)}).split(kFeedForwardRows)) {
    parts.push_back(feed_forward(weights_, part, 0.0, noise));
  }
  return at::cat(parts).view(h.sizes());
}

}  // namespace mneme::backbone
