// The feed-forward part of a layer.
#include "host/backbone/layer.hpp"
#include "host/backbone/linear.hpp"
#include "host/backbone/rows/rows.hpp"
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

kernel::Activation function_of(config::FeedForward kind) {
  switch (kind) {
    case config::FeedForward::kRelu:
      return kernel::Activation::kRelu;
    case config::FeedForward::kGelu:
      return kernel::Activation::kGelu;
    case config::FeedForward::kGeluTanh:
      return kernel::Activation::kGeluTanh;
    case config::FeedForward::kSwiglu:
      break;
  }
  return kernel::Activation::kSwiglu;
}

}  // namespace

AddedRows Layer::add_attended(const at::Tensor& h, const at::Tensor& attended, double dropout,
                              Noise& noise) const {
  const bool is_pre_norm = settings_->is_pre_norm();
  const kernel::RowKernels* const kernels = row_kernels(h);
  if (kernels == nullptr) {
    const at::Tensor sum = h + noise.apply(attended, dropout);
    return {is_pre_norm ? sum : weights_.norm(sum), {}};
  }
  RowSum args{.h = h, .x = attended, .dropout = noise.draw(attended.sizes(), dropout)};
  if (!is_pre_norm) {
    args.norm = &weights_.norm;
    args.result = h.scalar_type();
    args.wants_sum = false;
    return {added_rows(*kernels, args).normed, {}};
  }
  // A part that is computed a second time keeps the sum alone.
  if (!settings_->recomputes || !at::GradMode::is_enabled()) args.norm = &weights_.ff_norm;
  args.result = settings_->compute;
  return added_rows(*kernels, args);
}

at::Tensor Layer::feed_forward_by(const kernel::RowKernels& kernels, const LayerWeights& weights,
                                  const AddedRows& rows, double dropout, Noise& noise) const {
  const at::ScalarType compute = settings_->compute;
  const bool is_pre_norm = settings_->is_pre_norm();
  const at::Tensor& h = rows.sum;
  const at::Tensor input = !is_pre_norm            ? h
                           : rows.normed.defined() ? rows.normed
                                                   : weights.ff_norm(h, compute);
  const at::Tensor outer = linear(input, in_compute(weights.ff_in), {}, compute);
  std::vector<std::int64_t> shape = outer.sizes().vec();
  shape.back() = settings_->ff;
  const at::Tensor inner =
      activated_rows(kernels, outer, weights.ff_in_bias, function_of(settings_->feed_forward),
                     noise.draw(shape, dropout));
  RowSum args{.h = h,
              .x = linear(inner, in_compute(weights.ff_out), {}, compute),
              .bias = weights.ff_out_bias,
              .dropout = noise.draw(h.sizes(), dropout)};
  if (is_pre_norm) return added_rows(kernels, args).sum;
  args.norm = &weights.ff_norm;
  args.result = h.scalar_type();
  args.wants_sum = false;
  return added_rows(kernels, args).normed;
}

at::Tensor Layer::feed_forward(const LayerWeights& weights, const AddedRows& rows, double dropout,
                               Noise& noise) const {
  const at::Tensor& h = rows.sum;
  if (const kernel::RowKernels* const kernels = row_kernels(h)) {
    return feed_forward_by(*kernels, weights, rows, dropout, noise);
  }
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
    return feed_forward(weights, {given[0], {}}, dropout, used);
  };
  return tensor::recomputed(f, inputs);
}

at::Tensor Layer::feed_forward(const AddedRows& rows, double dropout, Noise& noise) const {
  const at::Tensor& h = rows.sum;
  if (at::GradMode::is_enabled()) {
    return settings_->recomputes ? recomputed_feed_forward(h, dropout, noise)
                                 : feed_forward(weights_, rows, dropout, noise);
  }
  const std::int64_t count = h.numel() / h.size(-1);
  if (dropout > 0.0 || count <= kFeedForwardRows || !h.is_cpu()) {
    return feed_forward(weights_, rows, dropout, noise);
  }
  std::vector<at::Tensor> parts;
  for (const at::Tensor& part : h.reshape({count, h.size(-1)}).split(kFeedForwardRows)) {
    parts.push_back(feed_forward(weights_, {part, {}}, 0.0, noise));
  }
  return at::cat(parts).view(h.sizes());
}

}  // namespace mneme::backbone
