#include "host/optim/optimizer.hpp"

#include <algorithm>

#include "host/tensor/torch.hpp"

namespace mneme::optim {
namespace {

std::vector<at::Tensor> gradients_of(const std::vector<TrainableParameter>& parameters) {
  std::vector<at::Tensor> out;
  for (const TrainableParameter& parameter : parameters) {
    if (parameter.tensor.grad().defined()) out.push_back(parameter.tensor.grad());
  }
  return out;
}

}  // namespace

Adam::Adam(std::vector<TrainableParameter> parameters, const AdamOptions& options)
    : parameters_(std::move(parameters)), options_(options) {
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const TrainableParameter& parameter = parameters_[i];
    const auto count = parameter.tensor.options().dtype(at::kFloat).requires_grad(false);
    moments_.push_back({parameter.name, torch::zeros_like(parameter.tensor),
                        torch::zeros_like(parameter.tensor), torch::zeros({}, count)});
    const auto same = std::find_if(groups_.begin(), groups_.end(), [&](const Group& group) {
      return group.lr == parameter.lr && group.weight_decay == parameter.weight_decay;
    });
    Group& group = same != groups_.end()
                       ? *same
                       : groups_.emplace_back(Group{parameter.lr, parameter.weight_decay, {}});
    group.members.push_back(i);
  }
}

void Adam::zero_grad() {
  for (TrainableParameter& parameter : parameters_) parameter.tensor.mutable_grad() = at::Tensor();
}

at::Tensor Adam::gradient_norm() const {
  const at::NoGradGuard no_grad;
  const std::vector<at::Tensor> gradients = gradients_of(parameters_);
  if (gradients.empty()) return torch::zeros({}, at::kDouble);
  const std::vector<at::Tensor> norms = at::_foreach_norm(gradients, 2);
  return at::stack(norms).to(at::kDouble).norm();
}

void Adam::clip(double norm, double max_norm) {
  const double scale = max_norm / (norm + 1e-6);
  if (scale >= 1.0) return;
  const at::NoGradGuard no_grad;
  const std::vector<at::Tensor> gradients = gradients_of(parameters_);
  at::_foreach_mul_(gradients, scale);
}

Adam::Batch Adam::batch_of(const Group& group) const {
  Batch batch;
  for (const std::size_t i : group.members) {
    const at::Tensor& gradient = parameters_[i].tensor.grad();
    if (!gradient.defined()) continue;
    batch.tensors.push_back(parameters_[i].tensor);
    batch.gradients.push_back(gradient.contiguous());
    batch.means.push_back(moments_[i].mean);
    batch.squares.push_back(moments_[i].square);
    batch.counts.push_back(moments_[i].count);
  }
  return batch;
}

void Adam::step(double factor) {
  const at::NoGradGuard no_grad;
  for (const Group& group : groups_) {
    Batch b = batch_of(group);
    if (b.tensors.empty()) continue;
    at::_foreach_add_(b.counts, 1);
    const double lr = group.lr * factor;
    if (options_.kind == config::Optimizer::kAdamW) {
      at::_fused_adamw_(b.tensors, b.gradients, b.means, b.squares, {}, b.counts, lr,
                        options_.beta1, options_.beta2, group.weight_decay, options_.eps,
                        /*amsgrad=*/false, /*maximize=*/false);
    } else {
      at::_fused_adam_(b.tensors, b.gradients, b.means, b.squares, {}, b.counts, lr, options_.beta1,
                       options_.beta2, group.weight_decay, options_.eps, /*amsgrad=*/false,
                       /*maximize=*/false);
    }
  }
}

std::vector<std::string> Adam::untrained() const {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const bool is_frozen = parameters_[i].lr == 0.0;
    if (!is_frozen && moments_[i].count.item<float>() == 0.0F) names.push_back(moments_[i].name);
  }
  return names;
}

std::vector<std::string> Adam::non_finite_gradients() const {
  const at::NoGradGuard no_grad;
  std::vector<std::string> names;
  for (const TrainableParameter& parameter : parameters_) {
    const at::Tensor& gradient = parameter.tensor.grad();
    if (gradient.defined() && !at::isfinite(gradient).all().item<bool>()) {
      names.push_back(parameter.name);
    }
  }
  return names;
}

}  // namespace mneme::optim
