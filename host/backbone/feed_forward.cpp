// The feed-forward part of a layer.
#include "host/backbone/layer.hpp"
#include "host/backbone/linear.hpp"
#include "host/backbone/rows/rows.hpp"
#include "host/tensor/host_kernels.hpp"
#include "host/tensor/recompute.hpp"
#include "host/tensor/torch.hpp"

namespace mneme::backbone {
namespace {

// The tensors of the feed-forward part that are there.
std::vector<at::Tensor*> tensors_of_feed_forward(LayerWeights& w) {
  std::vector<at::Tensor*> out;
  for (at::Tensor* t : {&w.ff_in, &w.ff_in_bias, &w.ff_out, &w.ff_out_bias, &w.ff_norm.weight,
                        &w.ff_norm.bias, &w.ff_result_norm.weight, &w.ff_result_norm.bias}) {
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
    case config::FeedForward::kRelu2:
      return overwrites ? x.relu_().square_() : x.relu().square();
    case config::FeedForward::kGelu:
      return overwrites ? at::gelu_(x) : at::gelu(x);
    case config::FeedForward::kGeluTanh:
      return overwrites ? at::gelu_(x, "tanh") : at::gelu(x, "tanh");
    case config::FeedForward::kSwiglu:
    case config::FeedForward::kGeglu:
      break;
  }
  const at::Tensor first = x.narrow(-1, 0, settings.ff);
  const bool is_gelu = settings.feed_forward == config::FeedForward::kGeglu;
  at::Tensor gate = is_gelu ? at::gelu(first, "tanh") : at::silu(first);
  const at::Tensor up = x.narrow(-1, settings.ff, settings.ff);
  return overwrites ? gate.mul_(up) : gate * up;
}

kernel::Activation function_of(config::FeedForward kind) {
  switch (kind) {
    case config::FeedForward::kRelu:
      return kernel::Activation::kRelu;
    case config::FeedForward::kRelu2:
      return kernel::Activation::kRelu2;
    case config::FeedForward::kGelu:
      return kernel::Activation::kGelu;
    case config::FeedForward::kGeluTanh:
      return kernel::Activation::kGeluTanh;
    case config::FeedForward::kGeglu:
      return kernel::Activation::kGeglu;
    case config::FeedForward::kSwiglu:
      break;
  }
  return kernel::Activation::kSwiglu;
}

}  // namespace

AddedRows Layer::add_attended(const at::Tensor& h, const at::Tensor& result, double dropout,
                              Noise& noise) const {
  const at::Tensor attended =
      settings_->has_result_norms() ? weights_.result_norm(result, h.scalar_type()) : result;
  const bool is_pre_norm = settings_->is_pre_norm();
  const kernel::RowKernels* const kernels = row_kernels(h);
  if (kernels == nullptr) {
    const at::Tensor sum = h + noise.apply(attended, dropout);
    return {is_pre_norm ? sum : weights_.norm(sum), {}};
  }
  RowSum args{.h = h, .x = attended, .dropout = noise.draw(attended.sizes(), dropout, h.device())};
  if (!is_pre_norm) {
    args.following = {&weights_.norm, h.scalar_type()};
    args.wants_sum = false;
    return {added_rows(*kernels, args).normed, {}};
  }
  // A part that is computed a second time keeps the sum alone.
  if (!settings_->recomputes || !at::GradMode::is_enabled()) {
    args.following = {&weights_.ff_norm, settings_->compute};
  }
  return added_rows(*kernels, args);
}

AddedRows Layer::feed_forward_by(const kernel::RowKernels& kernels, const LayerWeights& weights,
                                 const AddedRows& rows, double dropout, Noise& noise,
                                 const FollowingNorm& following) const {
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
                     noise.draw(shape, dropout, h.device()));
  const bool has_result_norm = settings_->has_result_norms();
  at::Tensor x = linear(inner, in_compute(weights.ff_out),
                        has_result_norm ? in_compute(weights.ff_out_bias) : at::Tensor(), compute);
  if (has_result_norm) x = weights.ff_result_norm(x, h.scalar_type());
  RowSum args{.h = h,
              .x = x,
              .bias = has_result_norm ? at::Tensor() : weights.ff_out_bias,
              .dropout = noise.draw(h.sizes(), dropout, h.device())};
  args.following = is_pre_norm ? following : FollowingNorm{&weights.ff_norm, h.scalar_type()};
  args.wants_sum = is_pre_norm;
  const AddedRows out = added_rows(kernels, args);
  return is_pre_norm ? out : AddedRows{out.normed, {}};
}

at::Tensor Layer::feed_forward(const LayerWeights& weights, const at::Tensor& h, double dropout,
                               Noise& noise) const {
  if (const kernel::RowKernels* const kernels = row_kernels(h)) {
    return feed_forward_by(*kernels, weights, {h, {}}, dropout, noise, {}).sum;
  }
  const at::ScalarType compute = settings_->compute;
  const at::Tensor input = settings_->is_pre_norm() ? weights.ff_norm(h) : h;
  const at::Tensor inner = noise.apply(
      activated(linear(input, in_compute(weights.ff_in), in_compute(weights.ff_in_bias), compute),
                *settings_),
      dropout);
  at::Tensor result =
      linear(inner, in_compute(weights.ff_out), in_compute(weights.ff_out_bias), compute);
  if (settings_->has_result_norms()) result = weights.ff_result_norm(result, h.scalar_type());
  const at::Tensor out = h + noise.apply(result, dropout);
  return settings_->is_pre_norm() ? out : weights.ff_norm(out);
}

at::Tensor Layer::recomputed_feed_forward(const at::Tensor& h, double dropout, Noise& noise) const {
  LayerWeights weights = weights_;
  std::vector<at::Tensor> inputs = {h};
  for (const at::Tensor* t : tensors_of_feed_forward(weights)) inputs.push_back(*t);
  // The first call draws from the model's noise, later ones the same masks from its copy.
  const auto f = [this, weights, dropout, first = &noise,
                  start = noise](const std::vector<at::Tensor>& given) mutable {
    const tensor::WithoutRowKernels plain(settings_->is_without_row_kernels());
    std::size_t i = 1;
    for (at::Tensor* t : tensors_of_feed_forward(weights)) *t = given[i++];
    Noise again = start;
    Noise& used = first != nullptr ? *first : again;
    first = nullptr;
    return feed_forward(weights, given[0], dropout, used);
  };
  return tensor::recomputed(f, inputs);
}

AddedRows Layer::feed_forward(const AddedRows& rows, double dropout, Noise& noise,
                              const FollowingNorm& following) const {
  const at::Tensor& h = rows.sum;
  const bool has_gradient = at::GradMode::is_enabled();
  if (has_gradient && settings_->recomputes) {
    return {recomputed_feed_forward(h, dropout, noise), {}};
  }
  if (const kernel::RowKernels* const kernels = row_kernels(h)) {
    return feed_forward_by(*kernels, weights_, rows, dropout, noise, following);
  }
  const std::int64_t count = h.numel() / h.size(-1);
  if (has_gradient || dropout > 0.0 || count <= kFeedForwardRows || !h.is_cpu()) {
    return {feed_forward(weights_, h, dropout, noise), {}};
  }
  std::vector<at::Tensor> parts;
  for (const at::Tensor& part : h.reshape({count, h.size(-1)}).split(kFeedForwardRows)) {
    parts.push_back(feed_forward(weights_, part, 0.0, noise));
  }
  return {at::cat(parts).view(h.sizes()), {}};
}

}  // namespace mneme::backbone
