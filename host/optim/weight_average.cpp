#include "host/optim/weight_average.hpp"

#include <algorithm>
#include <stdexcept>

#include "host/tensor/torch.hpp"

namespace mneme::optim {

WeightAverage::WeightAverage(std::vector<TrainableParameter> parameters, double decay)
    : decay_(decay) {
  for (const TrainableParameter& one : parameters) {
    if (one.is_frozen) continue;
    parameters_.push_back(one.tensor.detach());
    averages_.push_back(parameters_.back().clone());
  }
}

void WeightAverage::add(std::int64_t updates, const at::Tensor& skip) {
  if (parameters_.empty()) return;
  const at::NoGradGuard no_grad;
  const auto t = static_cast<double>(updates);
  const double share = 1.0 - std::min(decay_, (1.0 + t) / (10.0 + t));
  const at::TensorOptions type = parameters_.front().options();
  // The same bits with and without `skip`.
  const at::Tensor weight = skip.defined()
                                ? at::rsub(skip.to(type.dtype().toScalarType()), 1.0) * share
                                : at::full({}, share, type);
  const std::vector<at::Tensor> steps = at::_foreach_sub(parameters_, averages_);
  at::_foreach_mul_(steps, weight);
  at::_foreach_add_(averages_, steps);
}

void WeightAverage::exchange() {
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const at::Tensor kept = parameters_[i].clone();
    parameters_[i].copy_(averages_[i]);
    averages_[i].copy_(kept);
  }
}

void WeightAverage::reset() {
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < parameters_.size(); ++i) averages_[i].copy_(parameters_[i]);
}

void WeightAverage::attach(std::vector<Optimizer::Moments>& moments) const {
  if (moments.empty()) return;
  if (moments.size() != averages_.size()) throw std::logic_error("moments of other parameters");
  for (std::size_t i = 0; i < moments.size(); ++i) moments[i].weight = averages_[i];
}

}  // namespace mneme::optim
