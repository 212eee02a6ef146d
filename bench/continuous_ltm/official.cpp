#include "bench/continuous_ltm/official.hpp"

#include <cmath>
#include <numbers>

#include "host/tensor/torch_function.hpp"

namespace mneme::bench {
namespace {

using torch::indexing::None;
using torch::indexing::Slice;

// Normal densities N(at; mean, variance), broadcast.
at::Tensor normal_density(const at::Tensor& at, const at::Tensor& mean,
                          const at::Tensor& variance) {
  return at::exp(-0.5 * (at - mean).square() / variance) /
         at::sqrt(2.0 * std::numbers::pi * variance);
}

// psi [P,N] at positions [P] [infinity-former, section 3.1].
at::Tensor evaluate_basis(const at::Tensor& positions, const at::Tensor& centre,
                          const at::Tensor& width) {
  return normal_density(positions.unsqueeze(1), centre, width.square());
}

// The ridge regression's matrix [P,N] over `positions`, reduced to the rows [begin, begin + count):
// the others belong to the zero padding, whose targets are 0 [infinity-former, eq. 5]. In f64, for
// single precision loses per cents of it.
at::Tensor ridge_matrix(const at::Tensor& positions, const at::Tensor& centre,
                        const at::Tensor& width, double ridge, int64_t begin, int64_t count) {
  const at::Tensor f = evaluate_basis(positions, centre, width);  // [P,N]
  const at::Tensor gram = f.t().matmul(f) + ridge * torch::eye(f.size(1), f.options());
  const at::Tensor g = at::cholesky_solve(f.t(), at::linalg_cholesky(gram)).t();
  return g.slice(0, begin, begin + count);
}

at::Tensor first_positions(int64_t rows) {
  const int64_t spare = rows / 2;
  const auto f64 = at::TensorOptions().dtype(at::kDouble);
  return (torch::arange(-spare, rows + spare, f64) + 0.5) / static_cast<double>(rows);
}

// M places of the old signal, L of the new rows, between floor((L+M)/2) padding points on each
// side.
at::Tensor following_positions(const LtmSettings& s) {
  const auto f64 = at::TensorOptions().dtype(at::kDouble);
  const int64_t all = s.segment + s.samples;
  const double step = 1.0 / static_cast<double>(2 * s.segment + s.samples);
  const at::Tensor padding = torch::linspace(-0.5 + step, 1.5 - step, 2 * all, f64);
  const at::Tensor old =
      torch::arange(1, s.samples + 1, f64) * (s.tau / static_cast<double>(s.samples));
  const at::Tensor fresh = s.tau + torch::arange(1, s.segment + 1, f64) *
                                       ((1.0 - s.tau) / static_cast<double>(s.segment));
  return at::cat(
      {padding.slice(0, 0, all / 2), old, fresh, padding.slice(0, 2 * all - all / 2, 2 * all)});
}

// E[psi_n] under N(mu, variance) and its derivative by theta = (mu / variance, -1 / (2 variance)),
// which is Cov(phi, psi_n) with phi(t) = (t, t^2).
class NaturalExpectation : public torch::autograd::Function<NaturalExpectation> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* ctx, const at::Tensor& theta,
                            const at::Tensor& centre, const at::Tensor& width) {  // theta [R,2]
    const at::Tensor variance = -0.5 / theta.select(1, 1);
    const at::Tensor mu = theta.select(1, 0) * variance;
    const at::Tensor r = normal_density(mu.unsqueeze(1), centre,
                                        variance.unsqueeze(1) + width.square());  // [R,N]
    ctx->save_for_backward({mu, variance, r, centre, width});
    return r;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx,
                                                 const torch::autograd::variable_list& grads) {
    const auto saved = ctx->get_saved_variables();
    const at::Tensor mu = saved[0].unsqueeze(1), variance = saved[1].unsqueeze(1);  // [R,1]
    const at::Tensor &r = saved[2], &centre = saved[3], precision = saved[4].square().reciprocal();
    // The product of two normal densities is r times a normal one.
    const at::Tensor product_variance = (variance.reciprocal() + precision).reciprocal();
    const at::Tensor product_mean = product_variance * (mu / variance + centre * precision);
    const at::Tensor joint = at::stack(
        {product_mean * r, (product_mean.square() + product_variance) * r}, 1);  // [R,2,N]
    const at::Tensor means = at::stack({mu, mu.square() + variance}, 1);         // [R,2,1]
    const at::Tensor covariance = joint - at::bmm(means, r.unsqueeze(1));
    return {at::bmm(covariance, grads[0].unsqueeze(2)).squeeze(2), at::Tensor(), at::Tensor()};
  }
};

}  // namespace

OfficialLtm::OfficialLtm(const LtmSettings& s, LtmParameters parameters, Derivative derivative)
    : settings_(s), parameters_(std::move(parameters)), derivative_(derivative) {
  const auto f64 = at::TensorOptions().dtype(at::kDouble);
  const at::Tensor centre = torch::linspace(0, 1, s.centres(), f64)
                                .repeat_interleave(static_cast<int64_t>(s.widths.size()));
  const at::Tensor width = torch::tensor(s.widths, f64).repeat({s.centres()});
  const auto cast = [&](const at::Tensor& t) { return t.to(s.dtype).contiguous(); };
  first_ = cast(
      ridge_matrix(first_positions(s.segment), centre, width, s.ridge, s.segment / 2, s.segment));
  const int64_t all = s.segment + s.samples;
  following_ = cast(ridge_matrix(following_positions(s), centre, width, s.ridge, all / 2, all));
  const at::Tensor places = torch::arange(1, s.samples + 1, f64) / static_cast<double>(s.samples);
  sampled_ = cast(evaluate_basis(places, centre, width));
  centre_ = cast(centre);
  width_ = cast(width);
}

// Sigmoid of a convolution over time, times the rows [infinity-former, eq. 18].
at::Tensor OfficialLtm::gated(const at::Tensor& rows) const {
  if (!settings_.has_gate) return rows;
  const at::Tensor logits =
      at::conv1d(rows.transpose(1, 2), parameters_.gate_weight, parameters_.gate_bias, 1, 1);
  return at::sigmoid(logits.transpose(1, 2)) * rows;
}

at::Tensor OfficialLtm::updated(const at::Tensor& rows) const {
  if (!past_.defined()) return at::matmul(first_.t(), rows);
  const at::Tensor old = at::matmul(sampled_, past_);
  return at::matmul(following_.t(), at::cat({old, rows}, 1));
}

// mu, variance [B,H,T] -> [B,H,T,N].
at::Tensor OfficialLtm::expectations(const at::Tensor& mu, const at::Tensor& variance) const {
  if (derivative_ == Derivative::kDirect)
    return normal_density(mu.unsqueeze(3), centre_, variance.unsqueeze(3) + width_.square());
  const at::Tensor theta = at::stack({mu / variance, -0.5 / variance}, 3).flatten(0, 2);
  return NaturalExpectation::apply(theta, centre_, width_)
      .view({mu.size(0), mu.size(1), mu.size(2), settings_.basis});
}

LtmOutcome OfficialLtm::step(const LtmInputs& in) {
  const LtmSettings& s = settings_;
  const at::Tensor signal = updated(gated(in.rows));  // [B,N,D]
  past_ = signal.detach();
  const auto heads = [&](const at::Tensor& weight) {
    return at::linear(signal, weight).unflatten(2, {s.heads, s.head_width()}).transpose(1, 2);
  };
  const at::Tensor keys = heads(parameters_.key), values = heads(parameters_.value);
  const at::Tensor q =
      in.q.transpose(1, 2) / std::sqrt(static_cast<double>(s.head_width()));  // [B,H,T,d]
  const at::Tensor scores = at::matmul(q, keys.transpose(2, 3));              // [B,H,T,N]
  const at::Tensor mu = at::sigmoid(at::linear(scores, parameters_.mu_weight)).squeeze(3);
  const at::Tensor variance = at::softplus(at::linear(scores, parameters_.sigma_weight))
                                  .squeeze(3)
                                  .clamp_min(s.variance_floor);
  const at::Tensor context = at::matmul(expectations(mu, variance), values);  // [B,H,T,d]
  const at::Tensor z = at::linear(context.transpose(1, 2).flatten(2), parameters_.output);
  const at::Tensor ratio = variance / (s.sigma_0 * s.sigma_0);
  const at::Tensor kl = 0.5 * (ratio - at::log(ratio) - 1.0);
  return {in.projected + z, s.lambda_kl * kl.mean()};
}

int64_t OfficialLtm::state_bytes() const {
  int64_t bytes = 0;
  for (const at::Tensor& t : {centre_, width_, first_, following_, sampled_, past_}) {
    if (t.defined()) bytes += static_cast<int64_t>(t.nbytes());
  }
  return bytes;
}

}  // namespace mneme::bench
