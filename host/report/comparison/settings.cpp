// Settings that differ between arms, and what they cost.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "host/base/text.hpp"
#include "host/config/toml/toml.hpp"
#include "host/report/comparison/comparison.hpp"

namespace mneme::report {
namespace {

using config::FlatKey;

std::vector<FlatKey> settings_of(const Arm& arm) {
  std::vector<FlatKey> keys = config::flat_keys(config::parse_toml(arm.experiment, arm.name));
  std::erase_if(keys, [](const FlatKey& one) { return one.key == "train.seed"; });
  return keys;
}

const config::Value* find(const std::vector<FlatKey>& keys, const std::string& key) {
  const auto found = std::ranges::find(keys, key, &FlatKey::key);
  return found == keys.end() ? nullptr : &found->value;
}

bool are_equal(const config::Value* a, const config::Value* b) {
  return a == nullptr || b == nullptr ? a == b : *a == *b;
}

// The default of an option that the arm leaves to its plugin, as TOML; "" = it has none, or the run
// is of a version that did not write it down. `key`: "memory.tier.0.rows".
std::string default_of(const Arm& arm, const std::string& key) {
  for (std::size_t tier = 0; tier < arm.plugins.size(); ++tier) {
    const std::string table = str("memory.tier.", tier, '.');
    if (!key.starts_with(table) || !arm.plugins[tier].is_object()) continue;
    const auto defaults = arm.plugins[tier].find("defaults");
    if (defaults == arm.plugins[tier].end() || !defaults->is_object()) continue;
    return word_at(*defaults, key.substr(table.size()).c_str());
  }
  return "";
}

// Where a key of an arm belongs among those of the arms before: behind its predecessor.
void insert_keys(std::vector<std::string>& names, const std::vector<FlatKey>& keys) {
  auto place = names.begin();
  for (const FlatKey& one : keys) {
    const auto found = std::ranges::find(names, one.key);
    place = std::next(found == names.end() ? names.insert(place, one.key) : found);
  }
}

}  // namespace

std::vector<Setting> differing_settings(const Comparison& comparison) {
  std::vector<std::vector<FlatKey>> arms;
  std::vector<std::string> names;
  for (const Arm& arm : comparison.arms) {
    arms.push_back(settings_of(arm));
    insert_keys(names, arms.back());
  }
  std::vector<Setting> out;
  for (const std::string& key : names) {
    Setting setting{.key = key};
    bool is_equal = true;
    for (std::size_t arm = 0; arm < arms.size(); ++arm) {
      const config::Value* const value = find(arms[arm], key);
      const std::string text =
          value == nullptr ? default_of(comparison.arms[arm], key) : value->toml();
      setting.values.push_back(text);
      setting.is_default.push_back(value == nullptr && !text.empty());
      is_equal =
          is_equal && (are_equal(value, find(arms.front(), key)) || text == setting.values.front());
    }
    if (!is_equal) out.push_back(std::move(setting));
  }
  return out;
}

std::string budget_warning(const Comparison& comparison) {
  constexpr double kTolerance = 1.05;
  constexpr const char* kTokens = "tokens of training";  // which no choice of sizes changes
  const std::vector<Metric> all = metrics(comparison);
  const Metric* const state = find_metric(all, "state_bytes");
  std::vector<double> parameters, bytes, tokens;
  for (const Run* const run : longest_runs(comparison)) {
    if (run != nullptr) tokens.push_back(static_cast<double>(run->training.back().tokens));
  }
  for (std::size_t i = 0; i < comparison.arms.size(); ++i) {
    const Arm& arm = comparison.arms[i];
    if (arm.backbone_parameters > 0)  // known
      parameters.push_back(static_cast<double>(arm.backbone_parameters + arm.memory_parameters));
    const double mean = state == nullptr ? std::nan("") : spread(state->values[i]).mean;
    if (std::isfinite(mean)) bytes.push_back(mean);
  }
  std::vector<std::string> parts;
  for (const auto& [name, values] :
       {std::pair("parameters", parameters), std::pair("bytes of state a lane", bytes),
        std::pair(kTokens, tokens)}) {
    if (values.size() < 2) continue;
    const auto [least, most] = std::ranges::minmax(values);
    if (most <= kTolerance * least) continue;
    parts.push_back(str(name, ' ', grouped_number(least), " to ", grouped_number(most)));
  }
  if (parts.empty()) return "";
  std::vector<std::string> keys;
  for (const Setting& setting : differing_settings(comparison)) keys.push_back(setting.key);
  const bool are_sizes = parts.size() > 1 || !parts.front().starts_with(kTokens);
  return str("The arms do not cost the same: ", join(parts, "; "),
             ". Settings that differ: ", keys.empty() ? "none" : join(keys, ", "), '.',
             are_sizes ? " mneme compare --equal chooses sizes of equal cost." : "");
}

std::vector<const Run*> longest_runs(const Comparison& comparison) {
  const auto longest = [](const Arm& arm, bool are_done) {
    const Run* out = nullptr;
    for (const Run& run : arm.runs) {
      if (run.training.empty() || (are_done && (run.error || !run.is_done))) continue;
      if (out == nullptr || run.training.back().step > out->training.back().step) out = &run;
    }
    return out;
  };
  std::vector<const Run*> done, any;
  for (const Arm& arm : comparison.arms) {
    done.push_back(longest(arm, true));
    any.push_back(longest(arm, false));
  }
  const bool has_done = std::ranges::any_of(done, [](const Run* run) { return run != nullptr; });
  return has_done ? done : any;
}

std::optional<Sweep> find_sweep(const Comparison& comparison) {
  std::vector<std::vector<FlatKey>> arms;
  for (const Arm& arm : comparison.arms) arms.push_back(settings_of(arm));
  // The members of a sweep have the keys of the last arm, and differ in one of them. The first arm
  // may stand outside, as the one without a memory does.
  for (const std::size_t begin : {std::size_t{0}, std::size_t{1}}) {
    if (arms.size() < begin + 3) continue;
    std::vector<std::string> differing;
    for (const FlatKey& one : arms.back()) {
      const bool is_equal =
          std::all_of(arms.begin() + static_cast<std::ptrdiff_t>(begin), arms.end(),
                      [&](const auto& keys) { return are_equal(find(keys, one.key), &one.value); });
      if (!is_equal) differing.push_back(one.key);
    }
    if (differing.size() != 1) continue;
    Sweep sweep{.key = differing.front(),
                .values = std::vector<std::optional<double>>(arms.size())};
    bool is_numeric = true;
    for (std::size_t i = begin; i < arms.size(); ++i) {
      const config::Value* const value = find(arms[i], sweep.key);
      is_numeric =
          is_numeric && arms[i].size() == arms.back().size() && value != nullptr &&
          (value->kind() == config::Kind::kInteger || value->kind() == config::Kind::kReal);
      if (is_numeric) sweep.values[i] = value->as_real();
    }
    if (is_numeric) return sweep;
  }
  return std::nullopt;
}

}  // namespace mneme::report
