#include "host/optim/parameter_groups.hpp"

#include <algorithm>
#include <map>
#include <optional>

#include "host/base/error.hpp"
#include "host/base/text.hpp"
#include "host/optim/muon.hpp"
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
  if (group.optimizer != config::GroupOptimizer::kAuto)
    parameter.by_muon = group.optimizer == config::GroupOptimizer::kMuon;
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
  const bool is_muon = train.optimizer == config::Optimizer::kMuon;
  std::vector<TrainableParameter> out;
  for (const backbone::Parameter& parameter : backbone) {
    const double decay = parameter.decays ? train.weight_decay : 0.0;
    out.push_back({"model." + parameter.name, parameter.tensor, train.lr, decay});
    out.back().by_muon = is_muon && parameter.decays && parameter.name.starts_with("layers.") &&
                         is_matrix(parameter.tensor);
    apply_group(train, 1.0, out.back());
    const bool is_update = backbone::is_low_rank_update(parameter.name);
    if (train.freeze == config::Freeze::kBackbone && !is_update) {
      out.back().lr = out.back().weight_decay = 0.0;
      out.back().rate = "frozen";
      out.back().is_frozen = true;
    }
  }
  for (const memory::TierParameter& parameter : tiers) {
    const double lr = parameter.lr.value_or(train.lr) * parameter.lr_factor;
    out.push_back({parameter.name, parameter.tensor, lr, default_decay(train, parameter)});
    out.back().by_muon = is_muon && parameter.group != "none" && is_matrix(parameter.tensor);
    if (lr != train.lr) out.back().rate = rate_name(tier_of(parameter.name), parameter.lr_factor);
    apply_group(train, parameter.lr_factor, out.back());
  }
  return out;
}

std::string rule_of(const config::TrainConfig& train, const TrainableParameter& parameter) {
  if (parameter.is_frozen) return "none";
  if (train.optimizer != config::Optimizer::kMuon) return std::string(to_word(train.optimizer));
  return parameter.by_muon ? "muon" : "adamw";
}

void check_matrices(const config::TrainConfig& train,
                    const std::vector<TrainableParameter>& parameters) {
  for (const TrainableParameter& parameter : parameters) {
    if (!parameter.by_muon || is_matrix(parameter.tensor)) continue;
    throw_usage({.where = str("train.group ", group_of(train, parameter.name).value_or(0) + 1,
                              ": optimizer"),
                 .failed = str("Muon cannot update ", parameter.name),
                 .expected = "matrices of at least two rows and two columns",
                 .got = str("shape ", list_text(parameter.tensor.sizes().vec())),
                 .hint = "leave the parameter out of the group, or name it in one before it with "
                         "optimizer = \"adamw\""});
  }
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
  check_matrices(train, parameters);
}

void check_frozen(const std::vector<TrainableParameter>& parameters) {
  const auto is_frozen = [](const TrainableParameter& one) { return one.is_frozen; };
  if (!std::all_of(parameters.begin(), parameters.end(), is_frozen)) return;
  throw_usage({.where = "train.freeze = \"backbone\"",
               .failed = "nothing is trained: the memory has no parameters",
               .expected = "a memory with parameters, or model.lora_rank",
               .got = str(parameters.size(), " parameters of the backbone"),
               .hint = "remove the key (--unset train.freeze), or take another memory"});
}

std::vector<std::string> untrained_lines(const std::vector<std::string>& untrained,
                                         const memory::Stack& stack, std::int64_t steps) {
  constexpr std::size_t kNamed = 4;
  std::map<std::string, std::string> tier_of;  // by parameter; the backbone's have none
  for (const memory::TierParameter& parameter : stack.parameters()) {
    tier_of[parameter.name] = parameter.tier;
  }
  std::map<std::string, std::vector<std::string>> by_owner;
  for (const std::string& name : untrained) {
    const auto tier = tier_of.find(name);
    by_owner[tier == tier_of.end() ? "the backbone" : "tier " + tier->second].push_back(name);
  }
  std::vector<std::string> lines;
  for (const auto& [owner, names] : by_owner) {
    lines.push_back(str(owner, ": no gradient has reached ", names.size(), " of its parameters in ",
                        steps, steps == 1 ? " step" : " steps",
                        ", they keep their first values: ", first_names(names, kNamed)));
  }
  return lines;
}

}  // namespace mneme::optim
