#include "host/train/step/update.hpp"

#include "host/tensor/torch.hpp"

namespace mneme::train {

void add_all(ReportSums& sums, const ReportSums& terms) {
  for (const auto& [name, term] : terms) {
    at::Tensor& sum = sums[name];
    sum = sum.defined() ? sum + term : term;
  }
}

void LossSums::add(const LossSums& terms) {
  if (!terms.loss.defined()) return;
  loss = loss.defined() ? loss + terms.loss : terms.loss;
  add_all(losses, terms.losses);
}

at::Tensor LossSums::are_finite(const at::Tensor& norm) const {
  std::vector<at::Tensor> all = {loss};
  for (const auto& [name, sum] : losses) all.push_back(sum);
  all.push_back(norm);
  return at::isfinite(at::stack(all)).all();
}

StepUpdate::StepUpdate(optim::Optimizer& optimizer, double clip, double factor,
                       const at::Tensor& skip_before)
    : optimizer_(optimizer),
      clip_(clip),
      rates_(optimizer.rates(factor)),
      skip_before_(skip_before.defined()
                       ? skip_before
                       : torch::zeros({}, optimizer.moments().front().count.options())) {}

void StepUpdate::run(const LossSums& sums) {
  const at::NoGradGuard no_grad;
  norm = optimizer_.gradient_norm().to(sums.loss.device());
  const at::Tensor fails = sums.are_finite(norm).logical_not().to(at::kFloat);
  skip = at::maximum(fails, skip_before_);
  if (clip_ > 0.0) optimizer_.clip(norm, clip_);
  optimizer_.step(rates_, skip);
}

}  // namespace mneme::train
