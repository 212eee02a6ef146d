// What all runs of a comparison must have in common, and what is said of those that are missing.
#include <algorithm>
#include <set>
#include <string>

#include "host/base/error.hpp"
#include "host/config/toml/toml.hpp"
#include "host/report/comparison/comparison.hpp"
#include "host/report/comparison/read_run.hpp"

namespace mneme::report {
namespace {

// The first description of data found with a run: of run.json, else of an evaluation.
Json data_of(const Run& run) {
  if (run.info.is_object() && run.info.contains("data")) {
    return without_paths(run.info.at("data"));
  }
  for (const EvaluationSummary& one : run.evaluations) {
    if (one.record.contains("data")) return without_paths(one.record.at("data"));
  }
  return nullptr;
}

std::string text_at(const Json& json, const char* key) {
  const auto found = json.find(key);
  if (found == json.end()) return "none";
  return found->is_string() ? found->get<std::string>() : found->dump();
}

[[noreturn]] void refuse(const Run& first, const Run& other, const std::string& what,
                         const Json& expected, const Json& got, const char* key) {
  throw_usage({.where = str(first.folder.string(), " and ", other.folder.string()),
               .failed = str("have other ", what, ", so that their losses cannot be compared"),
               .expected = str(key, ' ', text_at(expected, key)),
               .got = str(key, ' ', text_at(got, key)),
               .hint = "give runs of one experiment that differ in their memories"});
}

// What of dialogues may differ between arms: what is read before and beside the turns. The turns
// themselves are compared by the checksums of the splits.
void leave_out_reading(Json& data) {
  if (!data.is_object() || data.value("task", "") != "dialogue") return;
  for (const char* key : {"with_document", "token_types"}) data.erase(key);
  for (const char* split : {"train", "valid", "test"}) {
    if (data.contains(split)) data[split].erase("tokens");
  }
}

void check_data(const Run& first, const Run& other) {
  Json expected = data_of(first);
  Json got = data_of(other);
  leave_out_reading(expected);
  leave_out_reading(got);
  if (!expected.is_object() || !got.is_object() || expected == got) return;
  const auto differ = [&](const char* key) {
    return expected.value(key, Json()) != got.value(key, Json());
  };
  if (differ("task")) refuse(first, other, "tasks", expected, got, "task");
  for (const char* key : {"vocabulary", "vocabulary_size", "vocabulary_sha256"}) {
    if (differ(key)) refuse(first, other, "vocabularies", expected, got, key);
  }
  for (const Json& side : {expected, got}) {
    for (const auto& [key, value] : side.items()) {
      if (differ(key.c_str())) refuse(first, other, "data", expected, got, key.c_str());
    }
  }
}

// [model] of an arm's experiment; an empty table when it has none.
config::Value model_of(const Arm& arm) {
  const config::Value root = config::parse_toml(arm.experiment, arm.name);
  const config::Value* const model = root.find("model");
  return model == nullptr ? config::Value() : *model;
}

// Backbones of other sizes (--equal parameters, --sweep model.ff=...) cannot start from the same
// weights, nor can those in which memories replace the attention of other layers. A run with an error
// has no numbers that are compared, and its error is a note.
void check_starts(const Comparison& comparison) {
  for (const Arm& arm : comparison.arms) {
    const config::Value model = model_of(arm);
    // Of those that start as this arm; itself where there is no other.
    const Arm& first = *std::ranges::find_if(comparison.arms, [&](const Arm& one) {
      return one.replaced_layers == arm.replaced_layers && model_of(one) == model;
    });
    for (const Run& run : arm.runs) {
      const Run* const baseline = first.find(run.seed);
      if (baseline == nullptr || baseline->error || run.error || baseline->initial_sha256.empty() ||
          run.initial_sha256.empty() || baseline->initial_sha256 == run.initial_sha256) {
        continue;
      }
      throw_usage({.where = str(baseline->folder.string(), " and ", run.folder.string()),
                   .failed = "their backbones did not start from the same weights",
                   .expected = baseline->initial_sha256,
                   .got = run.initial_sha256,
                   .hint = "train both again with `mneme compare`"});
    }
  }
}

// --- Notes about what is missing ---

std::string seeds_text(const std::vector<std::uint64_t>& seeds) {
  std::vector<std::string> texts;
  for (const std::uint64_t seed : seeds) texts.push_back(str(seed));
  return str(seeds.size() == 1 ? "seed " : "seeds ", join(texts, ", "));
}

void note_seeds(Comparison& comparison) {
  for (const Arm& arm : comparison.arms) {
    std::vector<std::uint64_t> missing;
    for (const std::uint64_t seed : comparison.seeds) {
      if (arm.find(seed) == nullptr) missing.push_back(seed);
    }
    if (missing.empty()) continue;
    // Seeds end where a difference is shown.
    if (comparison.looks && !arm.runs.empty() && missing.front() > arm.runs.back().seed) continue;
    comparison.notes.push_back(str(arm.name, " has no run of ", seeds_text(missing),
                                   ": differences are over the seeds that both arms have"));
  }
}

// Splits that only some runs were evaluated on. Runs without any split are named by note_runs.
void note_splits(Comparison& comparison) {
  for (const std::string& split : comparison.splits) {
    for (const auto& [arm, run] : runs_of(comparison)) {
      if (run.evaluations.empty() || run.error || run.find(split) != nullptr) continue;
      std::string note =
          str(run.folder.string(), ": no stored losses on ", split, ", so that seed ", run.seed,
              " of ", arm.name, " is not compared there");
      if (split == "valid" || split == "test") {
        note += str("; `mneme eval ", shell_word(run.path.string()), " --split ", split,
                    "` makes them");
      }
      comparison.notes.push_back(std::move(note));
    }
  }
}

void note_runs(Comparison& comparison) {
  for (const auto& [arm, run] : runs_of(comparison)) {
    if (run.error) {
      comparison.notes.push_back(str(arm.name, " (seed ", run.seed, ") failed: ", *run.error));
    } else if (!run.is_done && run.planned_steps > 0 && run.steps >= run.planned_steps) {
      comparison.notes.push_back(str(arm.name, " (seed ", run.seed,
                                     ") is trained to its last step but not evaluated; the same "
                                     "`mneme compare` evaluates it"));
    } else if (!run.is_done) {
      std::string note = str(arm.name, " (seed ", run.seed, ") is not trained to the end");
      if (run.steps > 0 && run.planned_steps > 0) {
        note += str(": step ", grouped_number(static_cast<double>(run.steps)), " of ",
                    grouped_number(static_cast<double>(run.planned_steps)));
      }
      if (!run.evaluations.empty()) note += "; its losses so far are compared";
      comparison.notes.push_back(std::move(note));
    } else if (run.evaluations.empty()) {
      comparison.notes.push_back(str(run.folder.string(),
                                     ": no stored losses of its own memory; `mneme eval ",
                                     shell_word(run.path.string()), "` makes them"));
    }
  }
}

// Runs that were evaluated after another number of steps than the first one of the split.
void note_steps(Comparison& comparison) {
  for (const std::string& split : comparison.splits) {
    const Run* first = nullptr;
    for (const auto& [arm, run] : runs_of(comparison)) {
      const EvaluationSummary* const found = run.find(split);
      if (found == nullptr) continue;
      if (first == nullptr) first = &run;
      const std::int64_t expected = first->find(split)->step;
      if (found->step == expected) continue;
      comparison.notes.push_back(str(split, ": ", run.folder.string(), " was evaluated after ",
                                     found->step, " steps, ", first->folder.string(), " after ",
                                     expected));
    }
  }
}

// Order of splits: valid, test, others by name.
void find_splits(Comparison& comparison) {
  std::set<std::string> names;
  for (const auto& [arm, run] : runs_of(comparison)) {
    for (const EvaluationSummary& one : run.evaluations) names.insert(one.split);
  }
  for (const char* name : {"valid", "test"}) {
    if (names.erase(name) > 0) comparison.splits.emplace_back(name);
  }
  comparison.splits.insert(comparison.splits.end(), names.begin(), names.end());
}

}  // namespace

void check_and_complete(Comparison& comparison) {
  std::set<std::uint64_t> seeds;
  const Run* first = nullptr;
  for (Arm& arm : comparison.arms) {
    std::ranges::sort(arm.runs, {}, &Run::seed);
    for (const Run& run : arm.runs) {
      seeds.insert(run.seed);
      if (first == nullptr) first = &run;
      check_data(*first, run);
    }
  }
  comparison.seeds.assign(seeds.begin(), seeds.end());
  check_starts(comparison);
  find_splits(comparison);
  note_seeds(comparison);
  note_runs(comparison);
  note_splits(comparison);
  note_steps(comparison);
}

}  // namespace mneme::report
