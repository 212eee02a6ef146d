#include "host/optim/parameter_groups.hpp"

#include <algorithm>
#include <optional>

#include "host/base/error.hpp"
#include "host/base/text.hpp"
#include "host/tensor/torch.hpp"

namespace mneme::optim {
namespace {

// Index of the first group that names the parameter.
std::optional<std::size_t> group_of(const config::TrainConfig& train, const std::string& name) {
  for (std::size_t g = 0; g < train.groups.size(); ++g) {
    for (const std::string& pattern : train.groups[g].parameters) {
      if (matches(pattern, name)) return g;
    }
  }
  return std::nullopt;
}

std::string rate_name(const std::string& source, double factor) {
  return factor == 1.0 ? source : str(source, " x ", format_exact(factor));
}

void apply_group(const config::TrainConfig& train, double factor, TrainableParameter& parameter) {
  const std::optional<std::size_t> index = group_of(train, parameter.name);
  if (!index) return;
  const config::ParameterGroup& group = train.groups[*index];
  if (group.weight_decay) parameter.weight_decay = *group.weight_decay;
  if (!group.lr) return;
  parameter.lr = *group.lr * factor;
  parameter.rate = rate_name(str("group.", *index), factor);
}

double default_decay(const config::TrainConfig& train, const memory::TierParameter& parameter) {
  if (parameter.group == "none") return 0.0;
  if (parameter.weight_decay) return *parameter.weight_decay;
  return parameter.tensor.dim() <= 1 ? 0.0 : train.weight_decay;
}

// "memory.<tier index>".
std::string tier_of(const std::string& name) { return name.substr(0, name.find('.', 7)); }

}  // namespace

bool matches(std::string_view pattern, std::string_view name) {
  const std::size_t star = pattern.find('*');
  if (star == std::string_view::npos) return pattern == name;
  if (!name.starts_with(pattern.substr(0, star))) return false;
  const std::string_view rest = pattern.substr(star + 1);
  for (std::size_t from = star; from <= name.size(); ++from) {
    if (matches(rest, name.substr(from))) return true;
  }
  return false;
}

std::vector<TrainableParameter> group_parameters(const config::TrainConfig& train,
                                                 const std::vector<backbone::Parameter>& backbone,
                                                 const std::vector<memory::TierParameter>& tiers) {
  std::vector<TrainableParameter> out;
  for (const backbone::Parameter& parameter : backbone) {
    const double decay = parameter.decays ? train.weight_decay : 0.0;
    out.push_back({"model." + parameter.name, parameter.tensor, train.lr, decay});
    apply_group(train, 1.0, out.back());
  }
  for (const memory::TierParameter& parameter : tiers) {
    const double lr = parameter.lr.value_or(train.lr) * parameter.lr_factor;
    out.push_back({parameter.name, parameter.tensor, lr, default_decay(train, parameter)});
    if (lr != train.lr) out.back().rate = rate_name(tier_of(parameter.name), parameter.lr_factor);
    apply_group(train, parameter.lr_factor, out.back());
  }
  return out;
}

void check_groups(const config::TrainConfig& train,
                  const std::vector<TrainableParameter>& parameters) {
  std::vector<std::string> names;
  for (const TrainableParameter& parameter : parameters) names.push_back(parameter.name);
  for (std::size_t g = 0; g < train.groups.size(); ++g) {
    for (const std::string& pattern : train.groups[g].parameters) {
      const bool is_used = std::any_of(names.begin(), names.end(), [&](const std::string& name) {
        return matches(pattern, name);
      });
      if (is_used) continue;
      const std::string close = nearest(pattern, names);
      throw_usage({.where = str("train.group ", g + 1, ": parameters"),
                   .failed = str('"', pattern, "\" names no parameter"),
                   .expected = close.empty() ? str("names such as \"", names.front(),
                                                   "\" or \"model.*.bias\"")
                                             : str('"', close, '"'),
                   .got = str('"', pattern, '"'),
                   .hint = "mneme train EXP --dry-run --json FILE lists the parameters"});
    }
  }
}

}  // namespace mneme::optim
