#include "bench/continuous_ltm/plugin_ltm.hpp"

#include <string_view>

#include "host/base/error.hpp"
#include "host/base/text.hpp"
#include "host/tensor/torch.hpp"

namespace mneme::bench {
namespace {

config::MemoryConfig manifest(const LtmSettings& s, const std::string& options) {
  std::string widths;
  for (const double width : s.widths) widths += str(widths.empty() ? "" : ", ", width);
  const std::string text =
      str("[memory]\nplugins = [\"", MNEME_PLUGIN_DIR, "\"]\n[[memory.tier]]\n",
          "plugin = \"continuous_ltm\"\nbasis = ", s.basis, "\nwidths = [", widths,
          "]\ntau = ", s.tau, "\nsamples = ", s.samples, "\nridge = ", s.ridge,
          "\ngate = ", s.has_gate ? "true" : "false", "\nvariance_floor = ", s.variance_floor,
          "\nsigma_0 = ", s.sigma_0, "\nlambda_kl = ", s.lambda_kl, "\n", options,
          "\n[model]\nlayers = 1\n[data]\ntask = \"motif\"\n[train]\nsteps = 1\n");
  return config::parse_experiment_text(text, "layer_bench.toml", "/").memory;
}

memory::BackboneInfo backbone(const LtmSettings& s) {
  memory::BackboneInfo info;
  info.layers = 1;
  info.width = s.width;
  info.heads = s.heads;
  info.head_width = s.head_width();
  info.compute_dtype = s.dtype;
  info.train_segment = info.eval_segment = s.segment;
  return info;
}

// [out,tap,in] here, [out,in,tap] in LtmParameters.
at::Tensor exchanged(const at::Tensor& t) { return t.dim() == 3 ? t.transpose(1, 2) : t; }

constexpr std::string_view kNames[] = {"key_weight", "value_weight", "output_weight", "gate_weight",
                                       "gate_bias",  "mu_weight",    "sigma_weight"};

}  // namespace

PluginLtm::PluginLtm(const LtmSettings& settings, const LtmParameters& given,
                     const std::string& options)
    : settings_(settings),
      driver_(manifest(settings, options), backbone(settings), loader_, memory::Phase::kTraining,
              settings.lanes),
      state_(driver_.state()),
      layer_({}, settings.heads) {
  const at::NoGradGuard no_grad;
  const std::vector<at::Tensor> from = given.all();
  const auto& declared = driver_.stack().parameters();
  for (const std::string_view name : kNames) {
    for (const memory::TierParameter& p : declared) {
      if (!p.name.ends_with("." + std::string(name))) continue;
      if (parameters_.size() < from.size()) p.tensor.copy_(exchanged(from[parameters_.size()]));
      parameters_.push_back(p.tensor);
    }
  }
  if (parameters_.size() != from.size() || declared.size() != from.size())
    throw_run(
        str("continuous_ltm declares ", declared.size(), " parameters, expected ", from.size()));
}

void PluginLtm::begin() { driver_.begin({.length = settings_.segment}); }

void PluginLtm::absorb(const LtmInputs& in) {
  memory::Rows rows;
  rows.count = in.rows.size(1);
  rows.hidden = in.rows;
  driver_.hooks().absorb_rows(0, 0, rows, in.rows, {}, layer_);
}

at::Tensor PluginLtm::read(const LtmInputs& in) {
  memory::LocalAttention local;
  local.q = in.q;
  return driver_.hooks().read_out(0, in.projected, local, layer_);
}

at::Tensor PluginLtm::auxiliary_loss() { return driver_.hooks().total_loss(); }

void PluginLtm::commit() { driver_.commit(); }

LtmOutcome PluginLtm::step(const LtmInputs& in) {
  begin();
  absorb(in);
  LtmOutcome outcome;
  outcome.out = read(in);
  outcome.aux = auxiliary_loss();
  commit();
  return outcome;
}

std::vector<at::Tensor> PluginLtm::gradients() const {
  std::vector<at::Tensor> grads;
  for (const at::Tensor& p : parameters_)
    grads.push_back(p.grad().defined() ? exchanged(p.grad()) : at::Tensor());
  return grads;
}

}  // namespace mneme::bench
