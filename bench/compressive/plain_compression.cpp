#include "bench/compressive/plain_compression.hpp"

#include "host/tensor/torch.hpp"

namespace mneme::bench {
namespace {

at::Tensor random(at::IntArrayRef shape, double deviation, const CompressionSizes& s) {
  return at::randn(shape, at::TensorOptions(s.dtype)) * deviation;
}

at::Tensor attend(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, double scale) {
  return at::matmul(at::softmax(at::matmul(q, k.transpose(2, 3)) * scale, -1), v);
}

}  // namespace

CompressionInputs random_inputs(const CompressionSizes& s) {
  const double deviation = 1.5 / std::sqrt(static_cast<double>(s.width));
  CompressionInputs in;
  in.hidden = random({s.lanes, s.segment, s.width}, 1.0, s);
  in.old = random({s.lanes, s.segment, s.width}, 1.0, s);
  for (at::Tensor* w : {&in.query, &in.key, &in.value})
    *w = random({s.width, s.width}, deviation, s).set_requires_grad(true);
  const at::NoGradGuard no_grad;
  const auto heads = [&](const at::Tensor& rows, const at::Tensor& w) {
    return at::linear(rows, w).view({s.lanes, s.segment, s.heads, s.head_width()});
  };
  in.q = heads(in.hidden, in.query);
  in.old_k = heads(in.old, in.key);
  in.old_v = heads(in.old, in.value);
  return in;
}

CompressionWeights random_weights(const CompressionSizes& s) {
  const double deviation = 1.0 / std::sqrt(static_cast<double>(s.width * s.rate));
  return {random({s.width, s.width, s.rate}, deviation, s).set_requires_grad(true),
          random({s.width}, deviation, s).set_requires_grad(true)};
}

PlainCompression::PlainCompression(const CompressionSizes& sizes, const CompressionWeights& weights,
                                   Plain how)
    : sizes_(sizes),
      weights_{weights.weight.detach().clone().set_requires_grad(true),
               weights.bias.detach().clone().set_requires_grad(true)},
      how_(how) {}

// [B,m,D] -> [B,H,m,d]
at::Tensor PlainCompression::heads(const at::Tensor& rows, const at::Tensor& weight) const {
  return at::linear(rows, weight.detach())
      .view({sizes_.lanes, rows.size(1), sizes_.heads, sizes_.head_width()})
      .transpose(1, 2);
}

Compressed PlainCompression::step(const CompressionInputs& in) const {
  const at::Tensor rows = at::conv1d(in.old.transpose(1, 2), weights_.weight, weights_.bias,
                                     /*stride=*/sizes_.rate)
                              .transpose(1, 2);
  const bool reuses = how_ == Plain::kReuses;
  const at::Tensor q = reuses ? in.q.transpose(1, 2) : heads(in.hidden, in.query);
  const at::Tensor k = reuses ? in.old_k.transpose(1, 2) : heads(in.old, in.key);
  const at::Tensor v = reuses ? in.old_v.transpose(1, 2) : heads(in.old, in.value);
  const at::Tensor target = attend(q, k, v, sizes_.scale());
  const at::Tensor got = attend(q, heads(rows, in.key), heads(rows, in.value), sizes_.scale());
  return {rows, at::mse_loss(got, target)};
}

}  // namespace mneme::bench
