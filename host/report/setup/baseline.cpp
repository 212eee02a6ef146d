#include "host/report/setup/baseline.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <string_view>

#include "host/base/error.hpp"
#include "host/base/text.hpp"
#include "host/config/toml/toml.hpp"

namespace mneme::report {
namespace {

constexpr std::string_view kWithoutMemory = "none";
constexpr std::string_view kWindow = "window";

struct Expected {
  std::string_view name;  // of the file in configs/memory
  std::string_view words;
};
constexpr std::array<Expected, 4> kExpected = {{{kWithoutMemory, "no memory"},
                                                {kWindow, "a window of equal bytes"},
                                                {"sinks", "a window with sinks"},
                                                {"attention", "attention to everything"}}};

bool has_tiers(const Arm& arm) {
  const config::Value root = config::parse_toml(arm.experiment, arm.name);
  const config::Value* const memory = root.find("memory");
  return memory != nullptr && memory->find("tier") != nullptr;
}

// Which of the expected ones an arm is; "" = none.
std::string expected_name(const Arm& arm) {
  if (!has_tiers(arm)) return std::string(kWithoutMemory);
  std::string name = arm.file.empty() ? arm.name : std::filesystem::path(arm.file).stem().string();
  const bool is_expected = name != kWithoutMemory &&
                           std::ranges::find(kExpected, name, &Expected::name) != kExpected.end();
  return is_expected ? name : "";
}

// Arms that are none of the expected ones, and have no window of their bytes of state beside them.
// Arms whose bytes are not known, because their runs failed or wait, do not count.
std::vector<std::string> arms_without_window(const Comparison& comparison,
                                             const std::vector<std::string>& names) {
  constexpr double kTolerance = 1.05;
  const std::vector<Metric> all = metrics(comparison);
  const Metric* const state = find_metric(all, "state_bytes");
  if (state == nullptr) return {};
  const auto bytes_of = [&](std::size_t arm) { return spread(state->values[arm]).mean; };
  std::vector<std::string> out;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const double bytes = bytes_of(i);
    if (!names[i].empty() || !(bytes > 0.0)) continue;
    bool has_window = false;
    for (std::size_t j = 0; j < names.size(); ++j) {
      const double window = names[j] == kWindow ? bytes_of(j) : 0.0;
      has_window = has_window || (window > 0.0 &&
                                  std::max(bytes, window) <= kTolerance * std::min(bytes, window));
    }
    if (!has_window) out.push_back(comparison.arms[i].name);
  }
  return out;
}

}  // namespace

void check_baseline(const std::vector<std::string>& arms, const std::string& baseline) {
  if (std::ranges::find(arms, baseline) != arms.end()) return;
  throw_usage({.where = "--baseline",
               .failed = "the comparison has no such arm",
               .expected = quoted_list(arms),
               .got = str('"', baseline, '"')});
}

void set_baseline(Comparison& comparison, const std::string& baseline) {
  std::vector<std::string> names;
  for (const Arm& arm : comparison.arms) names.push_back(arm.name);
  check_baseline(names, baseline);
  const auto found = std::ranges::find(comparison.arms, baseline, &Arm::name);
  std::rotate(comparison.arms.begin(), found, found + 1);
}

std::vector<MissingBaseline> missing_baselines(const Comparison& comparison) {
  if (comparison.arms.size() < 2) return {};
  std::vector<std::string> names;
  for (const Arm& arm : comparison.arms) names.push_back(expected_name(arm));
  std::vector<MissingBaseline> out;
  for (const Expected& one : kExpected) {
    MissingBaseline missing{.name = std::string(one.name), .words = std::string(one.words)};
    if (std::ranges::find(names, one.name) == names.end()) {
      out.push_back(std::move(missing));
      continue;
    }
    if (one.name != kWindow) continue;
    const std::vector<std::string> arms = arms_without_window(comparison, names);
    if (arms.empty()) continue;
    missing.words = "a window with the bytes of " + join(arms, ", ");
    out.push_back(std::move(missing));
  }
  return out;
}

std::string missing_baselines_note(const Comparison& comparison) {
  std::vector<std::string> parts;
  for (const MissingBaseline& one : missing_baselines(comparison))
    parts.push_back(str(one.words, " (", one.name, ".toml)"));
  if (parts.empty()) return "";
  return str("Baselines that a reader expects and that are not among the arms: ", join(parts, "; "),
             ". configs/memory has their files, by whose names arms are taken for them.");
}

}  // namespace mneme::report
