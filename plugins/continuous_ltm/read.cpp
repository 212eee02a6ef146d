// The read, after the write (stage 6 of mneme/plugin.h): every query gets the expected value of the
// signal under a density of its own.
#include <algorithm>
#include <cmath>

#include "continuous_ltm.hpp"

namespace continuous_ltm {
namespace {

using mneme::DType;
using mneme::Tensor;

// Densities have the state's type, f32 or f64, also where queries are bf16: with the narrowest
// densities an error of 4e-6 in mu becomes one of 4e-4 in an expectation.
DType density_dtype(const Tensor& coefficients) { return coefficients.dtype(); }

}  // namespace

mneme::Read ContinuousLtm::read(mneme::Layer& l, const mneme::Queries& in) {
  const std::vector<int64_t> absorbed = l.counts(absorbed_).get();
  if (std::all_of(absorbed.begin(), absorbed.end(), [](int64_t n) { return n == 0; }))
    return mneme::nothing();
  const Tensor coefficients = l.slot(coefficients_);
  const Densities densities = densities_of(l, in.q, coefficients);
  const DType compute = in.q.dtype();
  const int64_t lanes = in.q.dim(0);
  const int64_t queries = in.q.dim(1);
  const mneme::Shape heads{in.q.dim(2), in.q.dim(3)};
  const int64_t inner = heads[0] * heads[1];
  const Tensor values =
      reshape(linear(cast(coefficients, compute), cast(l.parameter(value_), compute)),
              {lanes, settings_.basis, heads[0], heads[1]});
  Tensor context;  // [B,T,H,d]
  if (settings_.is_plain) {
    const Tensor r = cast(basis_expectations(densities), compute);
    context = permute(matmul(r, permute(values, {0, 2, 1, 3})), {0, 2, 1, 3});
  } else {
    context = l.call(expectation_id_, {densities.mean, densities.variance, values})[0];
  }
  report_metrics_and_kl(l, densities, absorbed);
  if (settings_.is_sticky) keep_histogram(l, densities);
  publish_read(l, densities, values);
  // An empty lane's coefficients are zero, and so is its result.
  return mneme::add(
      linear(reshape(context, {lanes, queries, inner}), cast(l.parameter(output_), compute)));
}

// mu = sigmoid(w_mu . S), s2 = max(softplus(w_sigma . S), floor), S = K q / sqrt(d) [equations
// 9 and 10; as in the official code shared by the heads, and without bias unless affine_bias].
ContinuousLtm::Densities ContinuousLtm::densities_of(mneme::Layer& l, const Tensor& q,
                                                     const Tensor& coefficients) const {
  const Tensor scaled = permute(cast(q, density_dtype(coefficients)), {0, 2, 1, 3}) *
                        (1.0 / std::sqrt(static_cast<double>(q.dim(3))));
  Densities out;
  Tensor logits;  // [B,H,T,2]
  if (settings_.is_plain) {
    const mneme::Shape shape{q.dim(0), settings_.basis, q.dim(2), q.dim(3)};
    const Tensor keys = reshape(linear(coefficients, l.parameter(key_)), shape);
    out.scores = matmul(scaled, permute(keys, {0, 2, 3, 1}));
    logits = linear(out.scores, mneme::cat({l.parameter(mu_), l.parameter(sigma_)}, 0));
  } else {
    logits = fast_logits(l, scaled, coefficients);
  }
  Tensor mu_logit = squeeze(slice(logits, 3, 0, 1), 3);
  Tensor sigma_logit = squeeze(slice(logits, 3, 1, 2), 3);
  if (settings_.has_affine_bias) {
    mu_logit = mu_logit + l.parameter(mu_bias_);
    sigma_logit = sigma_logit + l.parameter(sigma_bias_);
  }
  out.mean = sigmoid(mu_logit);
  out.variance = clamp_min(softplus(sigma_logit), settings_.variance_floor);
  return out;
}

// w . S = q . u with u = W_k (C^T w), head by head, C the coefficients and q [B,H,T,d] already
// scaled by 1 / sqrt(d): neither scores nor keys are formed, because mu and s2 need one number per
// query each.
Tensor ContinuousLtm::fast_logits(mneme::Layer& l, const Tensor& q,
                                  const Tensor& coefficients) const {
  const Tensor weights = mneme::cat({l.parameter(mu_), l.parameter(sigma_)}, 0);  // [2,N]
  const Tensor mixed = apply(weights, coefficients);                              // [B,2,D]
  const Tensor u = reshape(linear(mixed, l.parameter(key_)), {q.dim(0), 2, q.dim(1), q.dim(3)});
  return matmul(q, permute(u, {0, 2, 3, 1}));
}

Tensor ContinuousLtm::centres(DType dtype) const {
  return matrix("centres", 1, settings_.basis, dtype, [&] {
    Matrix out(1, settings_.basis);
    for (int64_t n = 0; n < settings_.basis; ++n)
      out.values[static_cast<std::size_t>(n)] = settings_.grid.centre(n / settings_.grid.widths);
    return out;
  });
}

Tensor ContinuousLtm::widths(DType dtype) const {
  return matrix("widths", 1, settings_.basis, dtype, [&] {
    Matrix out(1, settings_.basis);
    for (int64_t n = 0; n < settings_.basis; ++n)
      out.values[static_cast<std::size_t>(n)] = settings_.grid.width[n % settings_.grid.widths];
    return out;
  });
}

// r [B,H,T,N] = N(mu; mu_n, sigma_n^2 + s2), the expected values of the basis functions [equation
// 11]; the integral runs over the whole line.
Tensor ContinuousLtm::basis_expectations(const Densities& densities) const {
  const DType dtype = densities.mean.dtype();
  const Tensor v = unsqueeze(densities.variance, 3) + square(widths(dtype));
  const Tensor off = unsqueeze(densities.mean, 3) - centres(dtype);
  return exp(-0.5 * square(off) / v) * rsqrt(v) * kInverseRootTwoPi;
}

void ContinuousLtm::report_metrics_and_kl(mneme::Layer& l, const Densities& densities,
                                          const std::vector<int64_t>& absorbed) const {
  const DType dtype = densities.mean.dtype();
  const auto heads = static_cast<double>(densities.mean.dim(1));
  std::vector<double> weights;  // valid queries of lanes that have a memory
  std::vector<double> shares;
  for (int64_t b = 0; b < l.lanes(); ++b) {
    const auto valid = static_cast<double>(l.valid_count(b));
    weights.push_back(absorbed[static_cast<std::size_t>(b)] > 0 ? valid : 0.0);
    shares.push_back(1.0 / (heads * std::max(valid, 1.0)));
  }
  const Tensor weight = cast(mneme::from_data<double>({l.lanes()}, weights), dtype);
  const Tensor share = cast(mneme::from_data<double>({l.lanes()}, shares), dtype);
  const auto lane_mean = [&](const Tensor& x) {  // of [B,H,T], over heads and valid queries
    const Tensor kept = l.valid() ? where(unsqueeze(l.valid(), 1), x, 0.0) : x;
    return sum(kept, {1, 2}) * share;
  };
  const Tensor is_floored = le(densities.variance, settings_.variance_floor);
  l.metric("floored", layer_share_ * lane_mean(cast(is_floored, dtype)), weight);
  if (settings_.sigma_0 == 0.0) return;
  // KL(N(mu, s2) || N(mu_0, sigma_0^2)); mu_0 = mu unless kl_mean [equations 20 and 21, corrected
  // as in the official code].
  const double prior = settings_.sigma_0 * settings_.sigma_0;
  const Tensor ratio = densities.variance * (1.0 / prior);
  Tensor kl = 0.5 * (ratio - log(ratio) - 1.0);
  if (settings_.has_kl_mean) kl = kl + (0.5 / prior) * square(densities.mean - settings_.mu_0);
  if (l.wants_probe("memory.kl")) l.probe("memory.kl", kl);
  const Tensor mean_kl = lane_mean(kl);
  l.metric("kl", mean_kl, weight);
  l.aux("kl", settings_.lambda_kl * mean_kl, weight);
}

// Keeps the histogram of this segment's densities, from which the next update draws its samples. A
// segment's first step (offset 0) replaces the last segment's, the later steps in generation add.
void ContinuousLtm::keep_histogram(mneme::Layer& l, const Densities& densities) const {
  const Tensor valid =
      l.valid() ? l.valid()
                : mneme::full({densities.mean.dim(0), densities.mean.dim(2)}, 1.0, DType::kBool);
  const Tensor mass = l.call(histogram_id_, {densities.mean, densities.variance, valid})[0];
  l.slot(density_histogram_) = l.offset() > 0 ? l.slot(density_histogram_).get() + mass : mass;
}

void ContinuousLtm::publish_read(mneme::Layer& l, const Densities& densities,
                                 const Tensor& values) const {
  if (l.wants_probe("memory.density.mean")) l.probe("memory.density.mean", densities.mean);
  if (l.wants_probe("memory.density.variance"))
    l.probe("memory.density.variance", densities.variance);
  if (densities.scores && l.wants_probe("memory.scores"))
    l.probe("memory.scores", densities.scores);
  if (l.wants_probe("memory.expectation"))
    l.probe("memory.expectation", basis_expectations(densities));
  if (l.wants_probe("memory.values")) l.probe("memory.values", values);
}

}  // namespace continuous_ltm
