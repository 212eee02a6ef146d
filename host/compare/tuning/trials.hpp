// The trials of tuned arms, and what becomes of them.
//
//   DIR/tuning/   a comparison of its own: every arm with every combination of values, from seeds
//                 that the comparison does not use, evaluated on the valid split alone
//   DIR/          the comparison: the arms as they are, then the same with the values chosen
//
// The rule of the choice is scores::choose_trials.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "host/compare/arms.hpp"
#include "host/compare/runs.hpp"
#include "host/compare/tuning/tunes.hpp"
#include "host/scores/trials.hpp"

namespace mneme::compare {

// Trials are trained from train.seed + this: no comparison has so many seeds.
inline constexpr std::uint64_t kTuningSeedOffset = 1000;

// What reads an arm: as read_arms.
struct ArmSource {
  std::filesystem::path experiment;
  std::vector<config::Override> overrides;  // of all arms
  bool is_locked = false;
};

// The trials of every arm, one after another: each with the combinations of the keys that it has,
// which are named in its settings. A trial whose values are refused says so (ArmSetup::refused).
// Errors: Error (kUsage) for a value of another type than its key's, for a key that no arm has, where
// arms would get different numbers of trials, where an arm lacks a key that all arms are to share,
// where an arm's own settings give a key; Error (kPlugin) of a plugin that cannot be loaded.
[[nodiscard]] std::vector<ArmSetup> read_trials(const std::vector<ArmSetup>& arms,
                                                const std::vector<Tune>& tunes,
                                                const std::vector<std::vector<std::string>>& points,
                                                const ArmSource& source,
                                                plugin::PluginLoader& loader);
// Error (kUsage) with the first refusal when every trial of a prepared record was refused.
void check_not_all_refused(const Record& trials);

// What the trials gave, by arm: `arms` in their order. Only runs that are done have losses.
[[nodiscard]] std::vector<scores::TriedArm> tried_arms(const Record& trials,
                                                       const std::vector<ArmSetup>& arms);

// The arm with values that were chosen, "cache,tuned"; without `trial` with its own values, as its
// stand-in before the choice.
[[nodiscard]] ArmSetup tuned_arm(const ArmSetup& arm, const scores::Trial* trial,
                                 const ArmSource& source);
// Of a prepared record: lets tuned arms that took their arms' own values have these arms' runs,
// which another training would repeat (ArmRecord::runs_of).
void share_equal_runs(Record& record);
// Names of arms that are equal get "#2" and so on.
void tell_names_apart(std::vector<ArmSetup>& arms);

}  // namespace mneme::compare
