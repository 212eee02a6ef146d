#include "host/report/comparison/read_tuning.hpp"

#include <algorithm>
#include <exception>
#include <string>
#include <utility>

#include "host/report/comparison/hide_folders.hpp"
#include "host/report/comparison/load.hpp"
#include "host/scores/evaluation_files.hpp"
#include "host/scores/stored_evaluation.hpp"

namespace mneme::report {
namespace {

namespace fs = std::filesystem;

// The loss that a choice goes by, a mean over the seeds, and why there is none.
scores::Trial trial_of(const Arm& arm) {
  scores::Trial out{.name = arm.name, .settings = arm.overrides};
  double sum = 0.0;
  for (const Run& run : arm.runs) {
    const EvaluationSummary* const found = run.find(scores::kChoiceSplit);
    const bool has_loss = run.is_done && !run.error && found != nullptr;
    sum += has_loss ? found->loss() : scores::Trial::kFailed;
    if (has_loss || !out.error.empty()) continue;
    out.error = run.error      ? without_folders(*run.error)
                : !run.is_done ? "it is not trained to the end"
                               : str("it has no stored losses on ", scores::kChoiceSplit);
  }
  out.loss = arm.runs.empty() ? scores::Trial::kFailed : sum / static_cast<double>(arm.runs.size());
  return out;
}

// The losses on the split of the choice that a trial's run has stored after the steps of the rungs.
std::vector<double> rung_losses_of(const Arm& arm, const std::vector<scores::Rung>& rungs) {
  std::vector<double> out(rungs.size(), scores::Trial::kFailed);
  const Run& run = arm.runs.front();
  for (const fs::path& path :
       run.folder.empty() ? std::vector<fs::path>() : scores::list_evaluations(run.path)) {
    const auto name = scores::parse_evaluation_name(path.filename().string());
    const auto rung = std::ranges::find(rungs, name ? name->step : -1, &scores::Rung::steps);
    if (!name || name->split != scores::kChoiceSplit || rung == rungs.end()) continue;
    try {
      const auto stored = scores::StoredEvaluation::open(path);
      if (stored.info().at("experiment") == arm.experiment)
        out[static_cast<std::size_t>(rung - rungs.begin())] = stored.columns().total().loss();
    } catch (const std::exception&) {  // as one that is missing
    }
  }
  return out;
}

const Arm* tuned_form(const Comparison& comparison, const std::string& arm) {
  const auto found = std::ranges::find(comparison.arms, arm, &Arm::variant_of);
  return found == comparison.arms.end() ? nullptr : &*found;
}

// What keeps a tuned arm from being the one that the trials choose; "" = it is.
std::string why_not_chosen(const scores::TriedArm& tried, std::optional<std::size_t> chosen,
                           const Arm* tuned) {
  if (tuned == nullptr) {
    return chosen ? str(tried.arm, " has no tuned form, though its trials choose one") : "";
  }
  if (!chosen)
    return str(tuned->name, " has values, though no trial of ", tried.arm, " can be taken");
  const scores::Trial& trial = tried.trials[*chosen];
  return trial.settings == tuned->overrides
             ? ""
             : str(tuned->name, " has other values than ", trial.name, ", which the trials choose");
}

}  // namespace

void read_tuning(const fs::path& folder, const Json& json, Comparison& comparison) {
  if (!json.is_object()) return;
  Tuning tuning;
  for (const Json& key : json.at("keys")) {
    tuning.keys.push_back({.key = key.at("key").get<std::string>(),
                           .values = key.at("values").get<std::string>(),
                           .is_together = key.at("together").get<bool>()});
  }
  for (const Json& rung : json.value("rungs", Json::array())) {
    tuning.rungs.push_back({.trials = rung.at("trials").get<std::size_t>(),
                            .steps = rung.at("steps").get<std::int64_t>()});
  }
  Comparison trials;
  try {
    trials = load({folder / scores::kTuningFolder});
  } catch (const std::exception& error) {
    comparison.notes.push_back(str("the trials of tuned arms were left out: ",
                                   without_folders(std::string(error.what()))));
    return;
  }
  tuning.seeds = trials.seeds;
  tuning.training_seconds = seconds_of(trials).training;
  for (const Arm& arm : comparison.arms) {
    if (!arm.variant_of.empty()) continue;
    scores::TriedArm& tried = tuning.arms.emplace_back(scores::TriedArm{.arm = arm.name});
    for (const Arm& trial : trials.arms) {
      if (trial.variant_of != arm.name) continue;
      tried.trials.push_back(trial_of(trial));
      if (!tuning.rungs.empty())
        tried.trials.back().rung_losses = rung_losses_of(trial, tuning.rungs);
    }
    scores::take_last_rungs(tried, tuning.rungs);
    for (scores::Trial& trial : tried.trials) {
      if (!tuning.rungs.empty() && trial.has_failed() && trial.error.empty()) {
        trial.error = str("it has no stored losses on ", scores::kChoiceSplit, " after ",
                          trial.steps, " steps");
      }
    }
  }
  tuning.chosen = scores::choose_trials(tuning.arms, tuning.keys);
  for (std::size_t i = 0; i < tuning.arms.size(); ++i) {
    const std::string& name = tuning.arms[i].arm;
    std::string note =
        why_not_chosen(tuning.arms[i], tuning.chosen[i], tuned_form(comparison, name));
    if (!note.empty()) comparison.notes.push_back(std::move(note));
  }
  comparison.tuning = std::move(tuning);
}

}  // namespace mneme::report
