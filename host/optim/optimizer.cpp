#include "host/optim/optimizer.hpp"

#include <c10/core/DeviceGuard.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "host/base/error.hpp"
#include "host/base/text.hpp"
#include "host/optim/muon.hpp"
#include "host/tensor/device.hpp"
#include "host/tensor/dispatch/trace.hpp"
#include "host/tensor/host_kernels.hpp"
#include "host/tensor/to_device.hpp"
#include "host/tensor/torch.hpp"
#include "host/tensor/torch_function.hpp"

namespace mneme::optim {
namespace {

std::vector<at::Tensor> gradients_of(const std::vector<TrainableParameter>& parameters) {
  std::vector<at::Tensor> out;
  for (const TrainableParameter& parameter : parameters) {
    if (parameter.tensor.grad().defined()) out.push_back(parameter.tensor.grad());
  }
  return out;
}

// Two tensors of zeros like a parameter. Those without dimensions are parts of one: a trace takes a
// number of the CPU in a tensor of its own for one of the code (tensor::is_number).
std::array<at::Tensor, 2> two_zeros(const at::Tensor& like) {
  if (like.dim() > 0) return {torch::zeros_like(like), torch::zeros_like(like)};
  const at::Tensor both = torch::zeros({2}, like.options().requires_grad(false));
  return {both[0], both[1]};
}

}  // namespace

Optimizer::Optimizer(std::vector<TrainableParameter> parameters, const OptimizerOptions& options,
                     backbone::ConvertedWeights* converted)
    : parameters_(std::move(parameters)), options_(options), converted_(converted) {
  std::erase_if(parameters_, [](const TrainableParameter& one) { return one.is_frozen; });
  const at::NoGradGuard no_grad;
  if (!parameters_.empty()) {
    const auto type = parameters_.front().tensor.options().dtype(at::kFloat).requires_grad(false);
    counts_ = torch::zeros({static_cast<std::int64_t>(parameters_.size())}, type);
    const at::Tensor& first = parameters_.front().tensor;
    if (converted != nullptr && first.scalar_type() == at::kFloat)
      kernels_ = tensor::adam_kernels(first.device());
  }
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const TrainableParameter& parameter = parameters_[i];
    Moments& moments = moments_.emplace_back();
    moments.name = parameter.name;
    moments.count = counts_.select(0, static_cast<std::int64_t>(i));
    if (parameter.by_muon) {
      moments.momentum = torch::zeros_like(parameter.tensor);
    } else {
      const auto [mean, square] = two_zeros(parameter.tensor);
      moments.mean = mean;
      moments.square = square;
    }
    const auto same = std::find_if(groups_.begin(), groups_.end(), [&](const Group& group) {
      return group.lr == parameter.lr && group.weight_decay == parameter.weight_decay &&
             group.by_muon == parameter.by_muon;
    });
    Group& group = same != groups_.end()
                       ? *same
                       : groups_.emplace_back(
                             Group{parameter.lr, parameter.weight_decay, parameter.by_muon, {}});
    group.members.push_back(i);
  }
}

void Optimizer::zero_grad() {
  for (TrainableParameter& parameter : parameters_) parameter.tensor.mutable_grad() = at::Tensor();
}

at::Tensor Optimizer::gradient_norm() const {
  const at::NoGradGuard no_grad;
  const std::vector<at::Tensor> gradients = gradients_of(parameters_);
  if (gradients.empty()) return torch::zeros({}, at::kDouble);
  const std::vector<at::Tensor> norms = at::_foreach_norm(gradients, 2);
  return at::stack(norms).to(at::kDouble).norm();
}

void Optimizer::clip(double norm, double max_norm) {
  const double scale = max_norm / (norm + 1e-6);
  if (scale >= 1.0) return;
  const at::NoGradGuard no_grad;
  const std::vector<at::Tensor> gradients = gradients_of(parameters_);
  at::_foreach_mul_(gradients, scale);
}

void Optimizer::clip(const at::Tensor& norm, double max_norm) {
  const at::NoGradGuard no_grad;
  const std::vector<at::Tensor> gradients = gradients_of(parameters_);
  if (gradients.empty()) return;
  const at::Tensor scale = at::full_like(norm, max_norm).div_(norm + 1e-6).clamp_max_(1.0);
  at::_foreach_mul_(gradients, scale.to(gradients.front().scalar_type()));
}

at::Tensor Optimizer::copy_of(std::size_t i) const {
  return kernels_ != nullptr ? converted_->written_with(parameters_[i].tensor) : at::Tensor();
}

Optimizer::Batch Optimizer::batch_of(const Group& group) const {
  Batch batch;
  for (const std::size_t i : group.members) {
    const at::Tensor& gradient = parameters_[i].tensor.grad();
    if (!gradient.defined()) continue;
    batch.tensors.push_back(parameters_[i].tensor);
    batch.gradients.push_back(gradient.contiguous());
    batch.means.push_back(moments_[i].mean);
    batch.squares.push_back(moments_[i].square);
    batch.counts.push_back(moments_[i].count);
    batch.copies.push_back(copy_of(i));
  }
  return batch;
}

at::Tensor Optimizer::rates(double factor) const {
  std::vector<double> values;
  for (const Group& group : groups_) values.push_back(group.lr * factor);
  const at::Tensor out = torch::tensor(values, at::kDouble);
  if (parameters_.empty()) return out;
  const at::Tensor& first = parameters_.front().tensor;
  const bool takes_f32 =
      kernels_ != nullptr || (first.is_cuda() && first.scalar_type() == at::kFloat);
  return takes_f32 ? tensor::to_device(out.to(at::kFloat), first.device()) : out;
}

std::vector<NamedTensor> Optimizer::changed() const {
  std::vector<NamedTensor> out;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const std::string& name = parameters_[i].name;
    out.emplace_back("parameter " + name, parameters_[i].tensor);
    if (parameters_[i].by_muon) {
      out.emplace_back("the optimiser's momentum of " + name, moments_[i].momentum);
    } else {
      out.emplace_back("the optimiser's mean of " + name, moments_[i].mean);
      out.emplace_back("the optimiser's square of " + name, moments_[i].square);
    }
    out.emplace_back("the optimiser's count of " + name, moments_[i].count);
    if (const at::Tensor copy = copy_of(i); copy.defined())
      out.emplace_back("the copy in bf16 of " + name, copy);
  }
  return out;
}

void Optimizer::update_by_kernel(const Group& group, const Batch& batch, const at::Tensor& rate,
                                 const at::Tensor& skip) const {
  const kernel::AdamRule rule = {.is_decoupled = is_decoupled(),
                                 .beta1 = options_.beta1,
                                 .beta2 = options_.beta2,
                                 .weight_decay = group.weight_decay,
                                 .epsilon = options_.eps};
  std::vector<at::Tensor> reads = {rate, skip}, writes;
  for (const auto* part :
       {&batch.gradients, &batch.counts, &batch.tensors, &batch.means, &batch.squares})
    reads.insert(reads.end(), part->begin(), part->end());
  for (const auto* part : {&batch.tensors, &batch.means, &batch.squares, &batch.copies})
    writes.insert(writes.end(), part->begin(), part->end());
  const std::size_t count = batch.tensors.size();
  tensor::run_traced(
      str(rule.is_decoupled ? "AdamW" : "Adam", " by ", format_exact(rule.beta1), ' ',
          format_exact(rule.beta2), ' ', format_exact(rule.weight_decay), ' ',
          format_exact(rule.epsilon)),
      reads, writes,
      [given = rule, count, &kernels = *kernels_](const std::vector<at::Tensor>& t, std::int64_t) {
        const c10::DeviceGuard current(t[0].device());
        kernel::AdamRule own = given;
        own.rate = t[0].const_data_ptr<float>();
        own.skip = t[1].defined() ? t[1].const_data_ptr<float>() : nullptr;
        const auto part = [&](std::size_t p, std::size_t i) { return t[2 + p * count + i]; };
        std::vector<kernel::AdamTensor> tensors;
        for (std::size_t i = 0; i < count; ++i) {
          const at::Tensor copy = part(8, i);
          const std::int64_t numbers = part(5, i).numel();
          const bool has_rows = copy.defined() && copy.dim() == 2;
          tensors.push_back({.weight = part(5, i).mutable_data_ptr<float>(),
                             .gradient = part(0, i).const_data_ptr<float>(),
                             .mean = part(6, i).mutable_data_ptr<float>(),
                             .square = part(7, i).mutable_data_ptr<float>(),
                             .count = part(1, i).const_data_ptr<float>(),
                             .copy = copy.defined() ? copy.mutable_data_ptr() : nullptr,
                             .numbers = numbers,
                             .width = has_rows ? copy.size(1) : numbers,
                             .stride = has_rows ? copy.stride(0) : numbers});
        }
        const char* const failed =
            kernels.update(own, tensors.data(), static_cast<std::int64_t>(tensors.size()),
                           tensor::stream_of(t[0].device()));
        if (failed != nullptr) throw_device({.where = "update of parameters", .failed = failed});
      });
}

void Optimizer::update_by_muon(const Group& group, const at::Tensor& rate,
                               const at::Tensor& skip) const {
  const at::Tensor is_skipped = skip.defined() ? skip.to(at::kBool) : skip;
  const auto put = [&](const at::Tensor& to, const at::Tensor& value) {
    to.copy_(skip.defined() ? at::where(is_skipped, to, value) : value);
  };
  const at::Tensor kept = at::rsub(rate * group.weight_decay, 1.0);
  for (const std::size_t i : group.members) {
    const at::Tensor& weight = parameters_[i].tensor;
    const at::Tensor& gradient = weight.grad();
    if (!gradient.defined()) continue;
    const at::Tensor& momentum = moments_[i].momentum;
    const at::Tensor next = at::lerp(momentum, gradient, 1.0 - options_.momentum);
    const at::Tensor direction =
        orthogonalized(at::lerp(gradient, next, options_.momentum), options_.products);
    put(weight, weight * kept - direction * (rate * muon_scale(weight)));
    put(momentum, next);
    if (const at::Tensor copy = copy_of(i); copy.defined()) copy.copy_(weight);
  }
}

void Optimizer::step(const at::Tensor& rates, const at::Tensor& skip) {
  const at::NoGradGuard no_grad;
  const at::Tensor counted = skip.defined() ? at::rsub(skip, 1) : at::Tensor();
  const std::optional<at::Tensor> found_inf = tensor::optional_input(skip);
  // Then the kernel updates groups without copies too: an evaluation may make one of theirs later,
  // and how they are rounded must not depend on that.
  bool writes_copies = false;
  for (std::size_t i = 0; i < parameters_.size(); ++i)
    writes_copies = writes_copies || copy_of(i).defined();
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    const Group& group = groups_[g];
    Batch b = batch_of(group);
    if (b.tensors.empty()) continue;
    skip.defined() ? at::_foreach_add_(b.counts, counted) : at::_foreach_add_(b.counts, 1);
    const at::Tensor lr = rates.select(0, static_cast<std::int64_t>(g));
    if (group.by_muon) {
      update_by_muon(group, lr, skip);
    } else if (writes_copies) {
      update_by_kernel(group, b, lr, skip);
    } else if (is_decoupled()) {
      at::_fused_adamw_(b.tensors, b.gradients, b.means, b.squares, {}, b.counts, lr,
                        options_.beta1, options_.beta2, group.weight_decay, options_.eps,
                        /*amsgrad=*/false, /*maximize=*/false, /*grad_scale=*/{}, found_inf);
    } else {
      at::_fused_adam_(b.tensors, b.gradients, b.means, b.squares, {}, b.counts, lr, options_.beta1,
                       options_.beta2, group.weight_decay, options_.eps, /*amsgrad=*/false,
                       /*maximize=*/false, /*grad_scale=*/{}, found_inf);
    }
  }
}

std::vector<std::string> Optimizer::untrained() const {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const bool is_frozen = parameters_[i].lr == 0.0;
    if (!is_frozen && moments_[i].count.item<float>() == 0.0F) names.push_back(moments_[i].name);
  }
  return names;
}

std::vector<std::string> Optimizer::non_finite_gradients() const {
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
