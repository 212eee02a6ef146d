#include "host/compare/tuning/halving.hpp"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "host/base/error.hpp"
#include "host/base/text.hpp"
#include "host/compare/finished_parts.hpp"
#include "host/run/run_folder.hpp"

namespace mneme::compare {
namespace {

namespace fs = std::filesystem;
using State = RunRecord::State;

// The trials of each arm, in their order.
using TrialsOfArms = std::map<std::string, std::vector<ArmRecord*>>;

TrialsOfArms trials_of_arms(Record& record) {
  TrialsOfArms out;
  for (ArmRecord& trial : record.arms) out[trial.setup.variant_of].push_back(&trial);
  return out;
}

std::vector<ArmRecord*> in_rung(Record& record, std::size_t rung) {
  std::vector<ArmRecord*> out;
  for (const auto& [name, trials] : trials_of_arms(record)) {
    scores::TriedArm arm{.arm = name};
    for (const ArmRecord* const trial : trials)
      arm.trials.push_back({.rung_losses = trial->rung_losses});
    for (const std::size_t place : scores::trials_in_rung(arm, record.rungs, rung))
      out.push_back(trials[place]);
  }
  return out;
}

}  // namespace

std::vector<scores::Rung> plan_rungs(const std::vector<ArmRecord>& trials,
                                     const std::vector<std::int64_t>& lengths,
                                     std::int64_t first_steps) {
  const std::string& first_arm = trials.front().setup.variant_of;
  std::size_t count = 0;
  for (std::size_t i = 0; i < trials.size(); ++i) {
    count += trials[i].setup.variant_of == first_arm ? 1 : 0;
    if (lengths[i] == lengths.front()) continue;
    throw_usage({.where = "--tune-halving",
                 .failed = "trials of trainings of different lengths cannot be compared after "
                           "equal numbers of steps",
                 .expected = "keys that leave the length as it is",
                 .got = str(trials.front().setup.name, ": ", lengths.front(), " steps, ",
                            trials[i].setup.name, ": ", lengths[i])});
  }
  if (first_steps >= lengths.front()) {
    throw_usage({.where = str("--tune-halving ", first_steps),
                 .failed = "every trial would be trained whole",
                 .expected = str("fewer steps than a training has, ", lengths.front()),
                 .hint = "leave it out to train all trials whole"});
  }
  return scores::halving_rungs(count, first_steps, lengths.front());
}

std::string early_end(const std::vector<scores::Rung>& rungs, std::int64_t length) {
  const std::int64_t end = rungs.back().steps;
  if (end >= length) return "";
  std::int64_t first_steps = length;
  for (std::size_t i = 1; i < rungs.size(); ++i) first_steps = (first_steps + 1) / 2;
  return str("--tune-halving ", rungs.front().steps, ": values are chosen after ", end, " of ",
             length, " steps; ",
             rungs.size() == 1
                 ? str("to choose after whole trainings, leave it out")
                 : str("with --tune-halving ", first_steps, " the last trials are trained whole"));
}

std::int64_t missed_rung(const fs::path& run_folder, const std::vector<scores::Rung>& rungs,
                         const std::vector<memory::TierIdentity>& plugins) {
  const std::vector<std::int64_t> steps = run::RunFolder::at(run_folder).checkpoints().steps();
  std::vector<std::string> others;
  for (const scores::Rung& rung : rungs) {
    if (steps.empty() || steps.back() <= rung.steps) break;
    if (!find_evaluation(run_folder, data::Split::kValid, rung.steps, plugins, others))
      return rung.steps;
  }
  return 0;
}

void begin_rung(Record& trials, std::size_t rung, const fs::path& folder) {
  for (ArmRecord& trial : trials.arms) trial.is_at_rest = true;
  for (ArmRecord* const trial : in_rung(trials, rung)) {
    if (!trial->setup.refused.empty()) continue;
    trial->stop_at = trials.rungs[rung].steps;
    RunRecord& run = trial->runs.front();
    std::vector<std::string> others;
    const fs::path path = folder / run.folder;
    const auto found =
        fs::exists(path / "experiment.toml")
            ? find_evaluation(path, data::Split::kValid, trial->stop_at, trial->plugins, others)
            : std::nullopt;
    run.state = found ? State::kDone : State::kWaiting;
    run.is_complete = false;
    trial->is_at_rest = found.has_value();
    if (!found) continue;
    run.loss = found->loss;
    run.initial_sha256 =
        run::RunFolder::open(path).info().value("initial_backbone_sha256", std::string());
  }
}

void end_rung(Record& trials, std::size_t rung) {
  for (ArmRecord* const trial : in_rung(trials, rung)) {
    const RunRecord& run = trial->runs.front();
    const bool has_loss = run.state == State::kDone && run.loss;
    trial->rung_losses.push_back(has_loss ? *run.loss : scores::Trial::kFailed);
  }
}

void plan_stops(Record& trials) {
  for (const auto& [name, of_arm] : trials_of_arms(trials)) {
    for (const scores::Rung& rung : trials.rungs) {
      for (std::size_t i = 0; i < std::min(rung.trials, of_arm.size()); ++i)
        of_arm[i]->stop_at = rung.steps;
    }
  }
}

}  // namespace mneme::compare
