#include "host/memory/tier/tier.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <string_view>
#include <utility>

#include "host/base/error.hpp"
#include "host/base/random.hpp"
#include "host/plugin/plugin_options.hpp"
#include "host/tensor/torch.hpp"

namespace mneme::memory {
namespace {

// Unless it is given, the product of all dims but the first: that of linear and convolution
// weights.
std::int64_t fan_in_of(const ParameterDecl& decl) {
  if (decl.given.fan_in > 0) return decl.given.fan_in;
  return std::accumulate(decl.dims.begin() + (decl.dims.empty() ? 0 : 1), decl.dims.end(),
                         std::int64_t{1}, std::multiplies<>());
}

// Draws from a stream that only this parameter uses, so that initial values depend on seed and name
// alone.
at::Tensor initial_value(const ParameterDecl& decl, const std::string& name,
                         const BackboneInfo& backbone) {
  at::Tensor out = torch::zeros(decl.dims, at::kDouble);
  double* data = out.mutable_data_ptr<double>();
  const std::int64_t n = out.numel();
  Random random(backbone.seed, {"parameter", std::string_view(name)});
  const auto fill_uniform = [&](double low, double high) {
    for (std::int64_t i = 0; i < n; ++i) data[i] = low + (high - low) * random.uniform();
  };
  switch (decl.given.init) {
    case MNEME_PARAMETER_ZEROS:
      break;
    case MNEME_PARAMETER_CONSTANT:
      std::fill(data, data + n, decl.given.value);
      break;
    case MNEME_PARAMETER_NORMAL:
      for (std::int64_t i = 0; i < n; ++i)
        data[i] = decl.given.mean + decl.given.deviation * random.normal();
      break;
    case MNEME_PARAMETER_UNIFORM:
      fill_uniform(decl.given.low, decl.given.high);
      break;
    case MNEME_PARAMETER_XAVIER_UNIFORM: {
      const auto rank = decl.dims.size();
      const double fans = rank >= 2 ? static_cast<double>(decl.dims[rank - 1] + decl.dims[rank - 2])
                                    : static_cast<double>(n + 1);
      const double bound = (decl.given.gain == 0.0 ? 1.0 : decl.given.gain) * std::sqrt(6.0 / fans);
      fill_uniform(-bound, bound);
      break;
    }
    default: {
      const double bound =
          1.0 / std::sqrt(static_cast<double>(std::max<std::int64_t>(1, fan_in_of(decl))));
      fill_uniform(-bound, bound);
    }
  }
  return out;
}

bool same_parameters(const Instance& a, const Instance& b) {
  return std::equal(a.parameters.begin(), a.parameters.end(), b.parameters.begin(),
                    b.parameters.end(), [](const ParameterDecl& x, const ParameterDecl& y) {
                      return x.name == y.name && x.dims == y.dims &&
                             x.is_model_scope == y.is_model_scope;
                    });
}

}  // namespace

Tier::Tier(std::int64_t index, const config::TierConfig& config,
           const std::vector<std::string>& folders, const BackboneInfo& backbone,
           plugin::PluginLoader& loader)
    : index_(index), config_(config), where_(config.position.text()) {
  const plugin::LoadedPlugin& plugin = loader.load(config.plugin, folders, config.pin(), where_);
  name_ = str(index, ".", plugin.note.id);
  if (config.layers) {
    served_ = *config.layers;
  } else {
    served_.resize(static_cast<std::size_t>(backbone.layers));
    std::iota(served_.begin(), served_.end(), 0);
  }
  for (const std::int64_t layer : served_) {
    if (layer >= 0 && layer < backbone.layers) continue;
    throw_usage(ErrorText{.where = where_,
                          .failed = "layers: a layer does not exist",
                          .expected = str("0 to ", backbone.layers - 1),
                          .got = str(layer)});
  }
  option_specs_ = plugin::option_specs(*plugin.table, where_);
  loss_names_ = plugin::read_loss_names(*plugin.table, where_);
  config::Problems problems;
  const config::OptionValues options = config::resolve_options(config, option_specs_, problems);
  plugin::check_weights(config, loss_names_, problems);
  problems.throw_if_any();
  options_ = options.training;
  training_ = std::make_shared<Instance>(plugin, options.training, backbone, served_,
                                         Phase::kTraining, where_);
  if (!(options.training == options.evaluation)) {
    // A message that both instances log (about a shared constant) is logged once.
    const LogListener once([this](LogLevel level, std::string_view line) {
      const std::vector<LoggedLine>& said = training_->logged;
      return std::ranges::find(said, LoggedLine{level, std::string(line)}) == said.end();
    });
    evaluation_ = std::make_shared<Instance>(plugin, options.evaluation, backbone, served_,
                                             Phase::kEvaluation, where_);
    if (training_->replaced_attention() != evaluation_->replaced_attention()) {
      throw_plugin(ErrorText{
          .where = str(where_, ": plugin ", plugin.note.id),
          .failed = "the values for evaluation (eval_...) change how the plugin replaces the "
                    "attention: whether it does, its site, or the projections that it wants",
          .hint = "an option that decides this may not differ at evaluation: its schema must not "
                  "say so"});
    }
    if (!same_parameters(*training_, *evaluation_)) {
      throw_plugin(ErrorText{
          .where = str(where_, ": plugin ", plugin.note.id),
          .failed =
              "the values for evaluation (eval_...) change the parameters that the plugin declares",
          .hint = "an option that shapes parameters may not differ at evaluation: its schema must "
                  "not say so"});
    }
  }
  make_parameters(backbone);
}

std::string Tier::parameter_name(const ParameterDecl& decl, std::size_t copy) const {
  return str("memory.", name_, ".", decl.is_model_scope ? std::string("model") : str(served_[copy]),
             ".", decl.name);
}

void Tier::make_parameters(const BackboneInfo& backbone) {
  const at::ScalarType dtype = backbone.compute_dtype == at::kDouble ? at::kDouble : at::kFloat;
  for (const ParameterDecl& decl : training_->parameters) {
    std::vector<at::Tensor> tensors;
    const std::size_t copies = decl.is_model_scope ? 1 : served_.size();
    for (std::size_t i = 0; i < copies; ++i) {
      at::Tensor tensor =
          torch::empty(decl.dims, at::TensorOptions().dtype(dtype).device(backbone.device));
      if (!backbone.device.is_meta()) {  // an outline has shapes and no values
        backbone.draws_parameters
            ? tensor.copy_(initial_value(decl, parameter_name(decl, i), backbone))
            : tensor.fill_(std::numeric_limits<double>::quiet_NaN());
      }
      tensors.push_back(tensor.requires_grad_(true));
    }
    parameters_.push_back(std::move(tensors));
  }
}

void Tier::draw_parameters(const std::vector<std::string>& names, const BackboneInfo& backbone) {
  const at::NoGradGuard no_grad;
  for (std::size_t p = 0; p < parameters_.size(); ++p) {
    const ParameterDecl& decl = training_->parameters[p];
    for (std::size_t i = 0; i < parameters_[p].size(); ++i) {
      const std::string name = parameter_name(decl, i);
      if (std::ranges::find(names, name) == names.end()) continue;
      parameters_[p][i].copy_(initial_value(decl, name, backbone));
    }
  }
}

void Tier::describe_parameters(std::vector<TierParameter>& out) const {
  for (std::size_t p = 0; p < parameters_.size(); ++p) {
    const ParameterDecl& decl = training_->parameters[p];
    for (std::size_t i = 0; i < parameters_[p].size(); ++i) {
      TierParameter parameter;
      parameter.name = parameter_name(decl, i);
      parameter.tier = name_;
      parameter.tensor = parameters_[p][i];
      parameter.lr_factor = decl.given.lr_factor == 0.0 ? 1.0 : decl.given.lr_factor;
      parameter.lr = config_.lr;
      parameter.group = decl.group;
      parameter.weight_decay = config_.weight_decay;
      out.push_back(std::move(parameter));
    }
  }
}

std::int64_t Tier::served_index(std::int64_t layer) const {
  const auto found = std::ranges::find(served_, layer);
  return found == served_.end() ? -1 : found - served_.begin();
}

double Tier::loss_weight(const std::string& loss) const {
  const auto found = config_.weights.find(loss);
  return found == config_.weights.end() ? 1.0 : found->second;
}

const at::Tensor& Tier::parameter(std::size_t place, std::int64_t served_index) const {
  const auto& tensors = parameters_[place];
  return tensors[training_->parameters[place].is_model_scope
                     ? 0
                     : static_cast<std::size_t>(served_index)];
}

}  // namespace mneme::memory
