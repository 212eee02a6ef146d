// Swapping the memory of a running model (architecture.md, section 5).
#include <utility>

#include "host/base/error.hpp"
#include "host/tensor/torch.hpp"
#include "host/optim/parameter_groups.hpp"
#include "host/run/runtime.hpp"

namespace mneme::run {
namespace {

// The memory that runs.
TrainedMemory trained_by(const memory::Stack& stack) {
  const auto parameter = [&stack](const std::string& name) {
    for (const memory::TierParameter& one : stack.parameters()) {
      if (one.name == name) return one.tensor.detach();
    }
    return at::Tensor();
  };
  return {parameter, stack.trained_options()};
}

// "" when the value fits the parameter.
std::string misfit(const memory::TierParameter& parameter, const at::Tensor& value,
                   const std::vector<plugin::OptionChange>& changes) {
  for (const plugin::OptionChange& change : changes) {
    if (parameter.tier == change.tier) return change.text();
  }
  if (!value.defined()) return "there is none of this name";
  if (value.sizes() == parameter.tensor.sizes()) return "";
  return str("shape ", list_text(value.sizes().vec()), " in place of ",
             list_text(parameter.tensor.sizes().vec()));
}

// Copies what fits into the new memory's parameters and draws the others, which it returns. Throws
// before anything is copied when `policy` forbids that there are others.
std::vector<std::string> carry_parameters(memory::Stack& next, const TrainedMemory& trained,
                                          config::Carry policy) {
  const auto changes = next.changed_options(trained.options);
  if (policy == config::Carry::kRefuse && !changes.empty()) {
    plugin::throw_changed_options("memory", changes);
  }
  std::vector<std::pair<at::Tensor, at::Tensor>> copies;
  std::vector<std::string> reset, fresh;
  for (const memory::TierParameter& parameter : next.parameters()) {
    const at::Tensor value = trained.parameter(parameter.name);
    const std::string reason = misfit(parameter, value, changes);
    if (reason.empty()) {
      copies.emplace_back(parameter.tensor, value);
    } else {
      reset.push_back(str(parameter.name, ": ", reason));
      fresh.push_back(parameter.name);
    }
  }
  if (policy == config::Carry::kRefuse && !reset.empty()) {
    throw_usage({.where = "memory",
                 .failed = str("parameters of the new memory have no trained values:\n  ",
                               join(reset, "\n  "), "\n"),
                 .hint = "memory.carry = \"reset\" starts them afresh"});
  }
  const at::NoGradGuard no_grad;
  for (auto& [to, from] : copies) to.copy_(from);
  next.draw_parameters(fresh);
  return reset;
}

}  // namespace

MemorySwap Runtime::swap_memory(const config::MemoryConfig& memory,
                                const std::optional<TrainedMemory>& trained) {
  config::Experiment experiment = config::with_memory(experiment_, memory);
  memory::BackboneInfo backbone = stack_->backbone();
  backbone.draws_parameters = false;  // values are carried, or drawn where there are none
  auto next = std::make_unique<memory::Stack>(memory, backbone, *loader_);
  MemorySwap swap;
  swap.reset = carry_parameters(*next, trained ? *trained : trained_by(*stack_), memory.carry);
  auto parameters = optim::group_parameters(experiment.train, model_->parameters(), next->parameters());
  next->succeed(*stack_);

  // Nothing fails from here on.
  experiment_ = std::move(experiment);
  parameters_ = std::move(parameters);
  std::swap(stack_, next);
  model_->weights_changed();
  swap.retired = std::move(next);
  return swap;
}

}  // namespace mneme::run
