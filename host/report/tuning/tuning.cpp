#include "host/report/tuning/tuning.hpp"

#include <algorithm>
#include <string>
#include <utility>

namespace mneme::report {
namespace {

using scores::kChoiceSplit;

std::vector<std::string> numbers_text(const std::vector<std::uint64_t>& numbers) {
  std::vector<std::string> out;
  for (const std::uint64_t number : numbers) out.push_back(str(number));
  return out;
}

// "train.lr = 0.003, memory.tier.0.rows = 64"
std::string values_text(const scores::Trial& trial, const std::vector<scores::TunedKey>& keys) {
  std::vector<std::string> out;
  for (const scores::TunedKey& key : keys) {
    const std::string value = trial.value_of(key.key);
    if (!value.empty()) out.push_back(str(key.key, " = ", value));
  }
  return join(out, ", ");
}

// " by successive halving (8 for 100 steps, 4 for 200, 2 for 400)"; "" = without it.
std::string rungs_text(const std::vector<scores::Rung>& rungs) {
  std::vector<std::string> parts;
  for (const scores::Rung& rung : rungs)
    parts.push_back(str(rung.trials, " for ", rung.steps, parts.empty() ? " steps" : ""));
  return parts.empty() ? "" : str(" by successive halving (", join(parts, ", "), ")");
}

std::string key_text(const scores::TunedKey& key) {
  return str(key.key, " (", key.values, key.is_together ? "; one value for all arms)" : ")");
}

std::size_t failed_trials(const scores::TriedArm& arm) {
  return static_cast<std::size_t>(std::ranges::count_if(arm.trials, &scores::Trial::has_failed));
}

// `early` is that of the tuned form: see early_choice.
std::string choice_sentence(const scores::TriedArm& arm, std::size_t chosen,
                            const std::vector<scores::TunedKey>& keys, const std::string& early) {
  const scores::Trial& trial = arm.trials[chosen];
  const std::string steps = early.empty() ? str(trial.steps, " steps") : early;
  const std::size_t failed = failed_trials(arm);
  return str(
      arm.arm, " took ", values_text(trial, keys), ", with a loss of ",
      format_number(trial.loss, 4), " on ", kChoiceSplit, trial.steps > 0 ? " after " + steps : "",
      failed == 0 ? "." : str("; ", failed, " of its ", arm.trials.size(), " trials failed."));
}

// The tuned form of an arm that took the arm's own values, and has its runs; nullptr = it has runs
// of its own, or there is none.
const Arm* form_with_shared_runs(const Comparison& comparison, const std::string& name) {
  const auto own = std::ranges::find(comparison.arms, name, &Arm::name);
  const auto tuned = std::ranges::find(comparison.arms, name, &Arm::variant_of);
  if (own == comparison.arms.end() || tuned == comparison.arms.end()) return nullptr;
  const bool are_shared = !own->runs.empty() && std::ranges::equal(own->runs, tuned->runs, {},
                                                                   &Run::folder, &Run::folder);
  return are_shared ? &*tuned : nullptr;
}

std::string border_sentence(const scores::TriedArm& arm, const scores::Border& border) {
  return str("Border: ", arm.arm, " took the ", border.is_highest ? "highest" : "lowest",
             " value of ", border.key, " that was tried, ", border.value,
             ". A better one may lie beyond: its tuning is not done until ",
             border.is_highest ? "higher" : "lower", " values were tried.");
}

// Why an arm has no choice.
std::string missing_sentence(const scores::TriedArm& arm) {
  if (arm.trials.empty()) return str(arm.arm, " is not tuned: it has no trials.");
  if (failed_trials(arm) < arm.trials.size()) {
    return str(arm.arm,
               " is not tuned: no value that arms share has a trial of each of them that ended "
               "well.");
  }
  const std::string& error = arm.trials.front().error;
  return str(arm.arm, " is not tuned: all ", arm.trials.size(),
             " trials failed. The first: ", error.empty() ? "no reason is known" : error, '.');
}

}  // namespace

std::vector<Statement> tuning_statements(const Comparison& comparison) {
  if (!comparison.tuning) return {};
  const Tuning& tuning = *comparison.tuning;
  std::size_t trials = 0;
  std::vector<std::string> keys;
  for (const scores::TriedArm& arm : tuning.arms) trials = std::max(trials, arm.trials.size());
  for (const scores::TunedKey& key : tuning.keys) keys.push_back(key_text(key));
  std::vector<Statement> out;
  Statement choices{.summary =
                        str("Tuned: every arm had ", trials, " trials of ", join(keys, ", "),
                            rungs_text(tuning.rungs), ", with seed ",
                            join(numbers_text(tuning.seeds), ", "),
                            ", and took the values of the lowest loss on ", kChoiceSplit, '.')};
  bool is_chosen = false;
  std::string early;
  for (std::size_t i = 0; i < tuning.arms.size(); ++i) {
    const scores::TriedArm& arm = tuning.arms[i];
    if (!tuning.chosen[i]) {
      out.push_back({missing_sentence(arm)});
      continue;
    }
    is_chosen = true;
    const auto tuned = std::ranges::find(comparison.arms, arm.arm, &Arm::variant_of);
    const std::string steps =
        tuned == comparison.arms.end()
            ? ""
            : early_choice(comparison, static_cast<std::size_t>(tuned - comparison.arms.begin()));
    if (early.empty()) early = steps;
    choices.sentences.push_back(choice_sentence(arm, *tuning.chosen[i], tuning.keys, steps));
    if (const Arm* const form = form_with_shared_runs(comparison, arm.arm)) {
      choices.sentences.back() += str(" These are its own values: the runs of ", form->name,
                                      " are those of ", arm.arm, '.');
    }
    for (const scores::Border& border : scores::borders(arm, *tuning.chosen[i], tuning.keys))
      out.push_back({border_sentence(arm, border)});
  }
  out.insert(out.begin(), std::move(choices));
  for (std::size_t arm = 0; arm < comparison.arms.size(); ++arm) {
    const Arm& one = comparison.arms[arm];
    const Arm& first = comparison.arms.front();
    const std::string& base = first.variant_of.empty() ? first.name : first.variant_of;
    if (one.variant_of.empty() || one.variant_of == base || baseline_of(comparison, arm)) continue;
    out.push_back({str(one.name, " is not compared: the baseline ", base, " has no tuned form.")});
  }
  if (!early.empty()) {
    out.push_back({str("Values were chosen after ", early,
                       ", where trials were compared: other values may be the best of whole "
                       "trainings.")});
  }
  if (is_chosen) {
    out.push_back({str("Values were chosen on ", kChoiceSplit,
                       ": between tuned arms the difference on test counts, which no choice has "
                       "seen.")});
  }
  return out;
}

Sheet trials_sheet(const Comparison& comparison) {
  Sheet out{.key = "trials", .title = "Trials of tuned arms", .headings = {"arm"}};
  if (!comparison.tuning) return out;
  const Tuning& tuning = *comparison.tuning;
  out.records.columns = {"arm", "trial"};
  for (const scores::TunedKey& key : tuning.keys) {
    out.headings.push_back(key.key);
    out.records.columns.push_back(key.key);
  }
  const bool has_rungs = !tuning.rungs.empty();
  if (has_rungs) {
    out.headings.emplace_back("steps");
    out.records.columns.emplace_back("steps");
    out.notes.emplace_back(
        "Successive halving: losses after so many steps by the schedule of a whole training; "
        "those after different numbers of steps cannot be compared.");
  }
  out.headings.insert(out.headings.end(), {str(kChoiceSplit, " loss"), ""});
  out.records.columns.insert(out.records.columns.end(), {"loss", "is_chosen", "error"});
  for (std::size_t i = 0; i < tuning.arms.size(); ++i) {
    const scores::TriedArm& arm = tuning.arms[i];
    for (std::size_t j = 0; j < arm.trials.size(); ++j) {
      const scores::Trial& trial = arm.trials[j];
      const bool is_chosen = tuning.chosen[i] == j;
      std::vector<Cell> row{Cell(arm.arm)};
      std::vector<Json> record{arm.arm, trial.name};
      for (const scores::TunedKey& key : tuning.keys) {
        const std::string value = trial.value_of(key.key);
        row.push_back(value.empty() ? Cell("-", nullptr) : Cell(value));
        record.push_back(value.empty() ? Json() : Json(value));
      }
      if (has_rungs) {
        row.emplace_back(str(trial.steps), trial.steps);
        record.emplace_back(trial.steps);
      }
      row.push_back(trial.has_failed() ? Cell("-", nullptr)
                                       : Cell(format_number(trial.loss, 4), trial.loss));
      row.emplace_back(trial.has_failed() ? "failed" : is_chosen ? "taken" : "");
      record.push_back(number_or_null(trial.loss));
      record.push_back(is_chosen ? "yes" : "no");
      record.push_back(trial.error.empty() ? Json() : Json(trial.error));
      out.rows.push_back(std::move(row));
      out.records.rows.push_back(std::move(record));
      if (!trial.error.empty()) out.notes.push_back(str(trial.name, ": ", trial.error));
    }
  }
  return out;
}

Json json_of_tuning(const Comparison& comparison) {
  if (!comparison.tuning) return nullptr;
  const Tuning& tuning = *comparison.tuning;
  Json keys = Json::array(), arms = Json::array();
  for (const scores::TunedKey& key : tuning.keys) {
    keys.push_back({{"key", key.key}, {"values", key.values}, {"together", key.is_together}});
  }
  for (std::size_t i = 0; i < tuning.arms.size(); ++i) {
    const scores::TriedArm& arm = tuning.arms[i];
    Json trials = Json::array(), at_border = Json::array();
    for (const scores::Trial& trial : arm.trials) {
      trials.push_back({{"name", trial.name},
                        {"settings", trial.settings},
                        {"steps", trial.steps > 0 ? Json(trial.steps) : Json()},
                        {"loss", number_or_null(trial.loss)},
                        {"error", trial.error.empty() ? Json() : Json(trial.error)}});
    }
    if (tuning.chosen[i]) {
      for (const scores::Border& border : scores::borders(arm, *tuning.chosen[i], tuning.keys)) {
        at_border.push_back({{"key", border.key},
                             {"value", border.value},
                             {"side", border.is_highest ? "highest" : "lowest"}});
      }
    }
    arms.push_back(
        {{"arm", arm.arm},
         {"chosen", tuning.chosen[i] ? Json(arm.trials[*tuning.chosen[i]].name) : Json()},
         {"borders", std::move(at_border)},
         {"shares_runs", form_with_shared_runs(comparison, arm.arm) != nullptr},
         {"trials", std::move(trials)}});
  }
  Json rungs = Json::array();
  for (const scores::Rung& rung : tuning.rungs)
    rungs.push_back({{"trials", rung.trials}, {"steps", rung.steps}});
  return {{"keys", std::move(keys)},
          {"seeds", tuning.seeds},
          {"rungs", std::move(rungs)},
          {"arms", std::move(arms)}};
}

}  // namespace mneme::report
