#include "host/validate/session.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "host/base/error.hpp"
#include "host/base/random.hpp"
#include "host/eval/run_segment.hpp"
#include "host/tensor/torch.hpp"

namespace mneme::validate {

using backbone::Batch;
using backbone::Output;

config::MemoryConfig memory_of(const std::vector<std::string>& folders, const std::string& tiers,
                               const std::vector<std::string>& settings) {
  std::vector<config::Override> overrides;
  for (const std::string& one : settings)
    overrides.push_back(config::parse_override("memory." + one));
  // The other tables only make the text an experiment; nothing of them is used.
  return config::parse_experiment_text(
             str("[memory]\nplugins = [", quoted_list(folders, ", "), "]\n", tiers,
                 "\n[data]\ntask = \"motif\"\n[train]\nsteps = 1\n"),
             "memory.toml", "/", overrides)
      .memory;
}

at::Tensor random_ids(std::uint64_t seed, std::int64_t lanes, std::int64_t tokens,
                      std::int64_t vocabulary) {
  Random random(seed, {"test ids"});
  at::Tensor out = at::empty({lanes, tokens}, at::kLong);
  for (std::int64_t i = 0; i < out.numel(); ++i) {
    out.mutable_data_ptr<std::int64_t>()[i] = random.between(0, vocabulary - 1);
  }
  return out;
}

double largest_difference(const at::Tensor& a, const at::Tensor& b) {
  if (a.numel() == 0) return 0.0;
  const at::Tensor left = a.detach().to(at::kDouble);
  const at::Tensor right = b.detach().to(at::kDouble);
  const at::Tensor difference = (left - right).abs().masked_fill(left.eq(right), 0.0);
  return difference.nan_to_num(std::numeric_limits<double>::infinity()).max().item<double>();
}

Session::Session(const config::ModelConfig& config, const backbone::ModelSetup& setup,
                 const config::MemoryConfig& memory, plugin::FindGroup find_group)
    : loader(find_group), stack(memory, backbone::backbone_info(config, setup), loader) {
  backbone::ModelSetup replaced = setup;
  replaced.replaced = stack.replaced_layers();
  model = backbone::make_model(config, replaced);
  model->train(false);
}

Session::Result Session::run(memory::StackState& state, const at::Tensor& ids, const How& how) {
  Result out;
  const std::int64_t length = ids.size(1) - 1;
  at::Tensor target = how.target.defined() ? how.target : ids.narrow(1, 1, length);
  if (!how.valid_count.empty()) {
    const at::Tensor counts = at::tensor(how.valid_count, at::kLong).unsqueeze(1);
    target = target.masked_fill(at::arange(length, at::kLong).unsqueeze(0).ge(counts), -1);
  }
  eval::SegmentOptions with;
  with.forward.tap = how.tap;
  with.memory.wanted_probes = how.probes;
  with.memory.probes = &out.probes;
  with.memory.watch = how.watch;
  with.memory.released = how.released;
  with.before_commit = [&](const Output&, const memory::SegmentHooks& segment) {
    out.aux = segment.total_loss();
    for (const auto& [name, metric] : segment.metrics()) out.metrics[name] = metric.value;
  };
  const Batch batch{ids.narrow(1, 0, length), target, how.valid_count};
  const Output forward = eval::run_segment(*model, stack, state, batch, std::move(with));
  out.nll = forward.nll;
  out.top = forward.top;
  out.loss = out.nll.mean();
  if (out.aux.defined()) out.loss = out.loss + out.aux.to(out.loss.scalar_type());
  return out;
}

at::Tensor Session::nll(memory::StackState& state, const at::Tensor& ids,
                        const std::vector<std::int64_t>& lengths) {
  std::vector<at::Tensor> out;
  std::int64_t from = 0;
  for (const std::int64_t n : lengths) {
    out.push_back(nll(state, ids.narrow(1, from, n + 1)).detach());
    from += n;
  }
  return at::cat(out, 1);
}

at::Tensor Session::parameter(const std::string& name) const {
  for (const backbone::Parameter& p : model->parameters()) {
    if (p.name == name) return p.tensor;
  }
  for (const memory::TierParameter& p : stack.parameters()) {
    if (p.name.ends_with(name)) return p.tensor;
  }
  throw_run("no parameter is called ", name);
}

GradientComparison compare_gradient(at::Tensor leaf, const std::function<at::Tensor()>& loss,
                                    std::int64_t directions, double step, double rounding) {
  const at::AutoGradMode with_grad(true);
  leaf.mutable_grad().reset();
  const at::Tensor value = loss();
  if (value.requires_grad()) value.backward();
  const at::Tensor before = leaf.detach().clone();
  const at::Tensor grad = leaf.grad().defined() ? leaf.grad().clone() : at::zeros_like(before);
  const auto move_to = [&](const at::Tensor& values) {
    const at::NoGradGuard no_grad;
    leaf.copy_(values);
  };
  Random random(23, {"directions"});
  double error = 0.0, gradient = 0.0, difference = 0.0;
  const bool is_each = directions >= leaf.numel();
  for (std::int64_t i = 0; i < std::min(directions, leaf.numel()); ++i) {
    at::Tensor direction = at::zeros(before.sizes(), before.options());
    if (is_each) {
      direction.view(-1)[i] = 1.0;
    } else {
      double* const values = direction.mutable_data_ptr<double>();
      for (std::int64_t k = 0; k < leaf.numel(); ++k) values[k] = random.normal();
      direction /= direction.norm();
    }
    const auto at_offset = [&](double offset) {
      move_to(before + offset * direction);
      return loss().item<double>();  // with gradients: without, memories compute no losses
    };
    // Fourth order: the second-order formula's own error would be what is measured.
    const double near = at_offset(step) - at_offset(-step);
    const double far = at_offset(2 * step) - at_offset(-2 * step);
    const double expected = (8.0 * near - far) / (12.0 * step);
    const double got = (grad * direction).sum().item<double>();
    error += (got - expected) * (got - expected);
    gradient += got * got;
    difference += expected * expected;
  }
  move_to(before);
  const double least =
      16 * std::numeric_limits<double>::epsilon() * std::max(1.0, std::abs(value.item<double>()));
  const auto count = static_cast<double>(std::min(directions, leaf.numel()));
  return {.error = std::sqrt(error),
          .gradient = std::sqrt(gradient),
          .difference = std::sqrt(difference),
          .noise = std::sqrt(count) * std::max(least, 8 * rounding) / step};
}

double gradient_error(at::Tensor leaf, const std::function<at::Tensor()>& loss,
                      std::int64_t directions, double step) {
  const GradientComparison got = compare_gradient(std::move(leaf), loss, directions, step);
  return got.difference > 1e-8 ? got.error / got.difference
                               : std::numeric_limits<double>::infinity();
}

}  // namespace mneme::validate
