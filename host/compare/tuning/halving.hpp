// Successive halving of trials: after each rung the better half of an arm's trials goes on.
//
// A trial's training has its whole length and the schedule of it; it is stopped after the steps of
// a rung (`mneme train --stop-at`) and resumed for the next one. So the trials of the last rung
// have the numbers of trials that were never stopped. The rule is in scores/trials.hpp.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "host/compare/runs.hpp"

namespace mneme::compare {

// The rungs of trials whose trainings have these lengths, in the order of `trials`; a refused
// trial counts as one that failed. Error (kUsage) for lengths that differ, and for first steps that
// are a whole training.
[[nodiscard]] std::vector<scores::Rung> plan_rungs(const std::vector<ArmRecord>& trials,
                                                   const std::vector<std::int64_t>& lengths,
                                                   std::int64_t first_steps);

// What is to be said of rungs that end before trainings of `length` steps do, because their losses
// are not those of whole trainings; "" = they do not.
[[nodiscard]] std::string early_end(const std::vector<scores::Rung>& rungs, std::int64_t length);

// The steps of the first rung that a run was trained past without an evaluation on the valid split;
// 0 = there is none. Such a run cannot be compared there any more.
[[nodiscard]] std::int64_t missed_rung(const std::filesystem::path& run_folder,
                                       const std::vector<scores::Rung>& rungs,
                                       const std::vector<memory::TierIdentity>& plugins);

// Lets the trials of a rung wait for run_all, up to its steps; those that have its evaluation are
// done, and all others rest. The rungs before have ended.
void begin_rung(Record& trials, std::size_t rung, const std::filesystem::path& folder);
// Keeps the losses of the rung.
void end_rung(Record& trials, std::size_t rung);

// Before any trial was trained: gives the first trials of each arm the steps that those of the
// lowest losses will have, for the plan of a dry run.
void plan_stops(Record& trials);

}  // namespace mneme::compare
