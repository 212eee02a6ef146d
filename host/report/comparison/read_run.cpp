#include "host/report/comparison/read_run.hpp"

#include <algorithm>
#include <cmath>
#include <exception>
#include <map>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

#include "host/base/error.hpp"
#include "host/base/file/file.hpp"
#include "host/base/json_text.hpp"
#include "host/report/choice/own_evaluation.hpp"
#include "host/report/comparison/summarize.hpp"
#include "host/scores/diagnostics.hpp"
#include "host/scores/evaluation_files.hpp"
#include "host/scores/generated.hpp"
#include "host/scores/overlap/overlap.hpp"

namespace mneme::report {

namespace fs = std::filesystem;

namespace {

constexpr const char* kRunHint = "put the file back from a copy, or train the run again";
constexpr std::size_t kMaxAnswersShown = 5;  // to turns of dialogues

std::map<std::string, double> numbers_of(const Json& line, const char* key) {
  std::map<std::string, double> out;
  const auto found = line.find(key);
  if (found == line.end() || !found->is_object()) return out;
  for (const auto& [name, value] : found->items()) {
    if (value.is_number()) out[name] = value.get<double>();
  }
  return out;
}

// False when the line is no metric.
bool read_line(const Json& line, Run& run) {
  if (!line.is_object() || !line.contains("step") || !line["step"].is_number_integer())
    return false;
  const auto step = line["step"].get<std::int64_t>();
  const std::string kind = line.value("kind", "");
  if (kind == "step") {
    const double tokens = number_at(line, "tokens");
    const double seconds = number_at(line, "seconds");
    if (std::isnan(tokens) || std::isnan(seconds)) return false;
    run.training.push_back({.step = step,
                            .loss = number_at(line, "loss"),
                            .tokens = static_cast<std::int64_t>(tokens),
                            .tokens_read = number_at(line, "tokens_read"),
                            .seconds = seconds,
                            .mfu = number_at(line, "mfu"),
                            .product_flops = number_at(line, "product_flops_per_second"),
                            .peak_device_bytes = number_at(line, "peak_device_bytes"),
                            .metrics = numbers_of(line, "metrics"),
                            .losses = numbers_of(line, "losses")});
    return true;
  }
  if (kind == "curve") {
    const double loss = number_at(line, "loss"), targets = number_at(line, "targets");
    if (std::isnan(targets)) return false;
    run.curve.push_back(
        {.step = step, .targets = static_cast<std::int64_t>(targets), .loss = loss});
    return true;
  }
  if (kind != "eval" || !line.contains("result") || !line["result"].is_object()) return false;
  run.while_training.push_back(
      {.step = step, .split = line.value("split", ""), .loss = number_at(line["result"], "loss")});
  return true;
}

// Reads metrics.jsonl into a run. Lines that are no metrics are counted and left out: the number of
// them. A missing file has no lines.
std::int64_t read_metrics(const fs::path& file, Run& run) {
  if (!fs::exists(file)) return 0;
  const std::string text = read_file(file);
  std::int64_t damaged = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line(text.data() + begin, end - begin);
    begin = end + 1;
    if (line.empty()) continue;
    const Json json = parse_json(line);
    try {
      if (!read_line(json, run)) ++damaged;
    } catch (const Json::exception&) {  // a key of another type
      ++damaged;
    }
  }
  return damaged;
}

struct Candidate {
  scores::StoredEvaluation stored;
  bool has_own_plugins = false;            // the files that the run was trained with
  bool has_own_settings = false;           // [eval]
  std::vector<std::string> settings = {};  // of [eval], others than the run's, but for lanes
};

// The texts that a run generated with the weights of an evaluation.
std::vector<Shown> continuations_of(const scores::Generated& stored) {
  std::vector<Shown> out;
  const bool are_answers = stored.info.value("task", "") == "dialogue";
  for (const scores::GeneratedSample& sample : stored.samples) {
    if (are_answers && out.size() == kMaxAnswersShown) break;
    out.push_back({.id = sample.id,
                   .prompt = sample.prompt,
                   .expected = sample.expected,
                   .made = sample.generated,
                   .prompt_text = sample.prompt_text,
                   .expected_text = sample.expected_text,
                   .made_text = sample.generated_text});
  }
  return out;
}

// The scores of the answers that a run generated to turns of dialogues, by dialogue.
std::vector<DialogueScores> scores_of(const scores::Generated& stored) {
  std::vector<DialogueScores> out;
  if (stored.info.value("task", "") != "dialogue") return out;
  for (const scores::GeneratedSample& sample : stored.samples) {
    const std::string id = sample.id.substr(0, sample.id.rfind('@'));
    if (out.empty() || out.back().id != id) out.push_back({.id = id});
    ++out.back().answers;
    for (const scores::NamedScore& one : scores::overlap_scores(
             sample.generated_text.value_or(""), sample.expected_text.value_or(""))) {
      const auto found = std::ranges::find(kAnswerScores, one.name);
      if (found == kAnswerScores.end()) continue;
      out.back().sums[static_cast<std::size_t>(found - kAnswerScores.begin())] += one.value;
    }
  }
  return out;
}

// The samples and diagnostics that stand beside a run's evaluation.
void add_samples_and_diagnostics(const fs::path& folder, EvaluationSummary& evaluation,
                                 std::vector<std::string>& notes) {
  const fs::path file = scores::generated_file(folder, evaluation.name);
  try {
    if (fs::exists(file)) {
      const scores::Generated stored = scores::read_generated(file);
      evaluation.shown = continuations_of(stored);
      evaluation.answers = scores_of(stored);
    }
  } catch (const std::exception& error) {
    notes.push_back(str("generated samples were left out: ", error.what()));
  }
  const fs::path measured = scores::diagnostics_file(folder, evaluation.name);
  try {
    if (fs::exists(measured)) evaluation.diagnostics = scores::read_diagnostics(measured);
  } catch (const std::exception& error) {
    notes.push_back(str("diagnostics were left out: ", error.what()));
  }
}

// Reads the stored evaluations of a run's own memory, model and data, one a split: of the latest
// step, and of several of one step the first by name, those with the run's own plugins, then its
// own [eval], first but for lanes, before others; a note says what the chosen one has another of.
// Of needles also those on haystacks of other lengths, if they are of the same step. An evaluation
// gets the samples that were generated with its weights. What cannot be read is left out; a
// sentence of each goes to `notes`.
void read_evaluations(const fs::path& folder, const config::Value& own, Run& run,
                      std::vector<std::string>& notes) {
  const Json own_data =
      run.info.is_object() ? without_paths(run.info.value("data", Json())) : Json();
  std::map<std::pair<std::int64_t, std::string>, Candidate> best;  // by other length (0) and split
  for (const fs::path& path : scores::list_evaluations(folder)) {
    try {
      scores::StoredEvaluation stored = scores::StoredEvaluation::open(path);
      const config::Value used = config::parse_toml(
          stored.info().at("experiment").get<std::string>(), path.filename().string());
      const Json data = without_paths(stored.info().value("data", Json()));
      if (!has_own_model(own, used)) continue;  // `mneme eval --memory`: another arm
      const bool is_own = own_data.is_null() || agree(data, own_data);
      const std::int64_t length = is_own ? 0 : other_length(data, own_data);
      if (!is_own && length == 0) continue;
      const auto rank = [](const Candidate& one) {
        return std::tuple(one.stored.step(), one.has_own_plugins, one.settings.empty(),
                          one.has_own_settings);
      };
      const bool has_plugins = checksums_of(stored.info()) == checksums_of(run.info);
      Candidate candidate{.stored = std::move(stored),
                          .has_own_plugins = has_plugins,
                          .has_own_settings = has_equal_settings(own, used),
                          .settings = other_settings(own, used)};
      const std::pair key(length, candidate.stored.split());
      const auto found = best.find(key);
      if (found == best.end()) {
        best.emplace(key, std::move(candidate));
      } else if (rank(candidate) > rank(found->second)) {
        found->second = std::move(candidate);
      }
    } catch (const std::exception& error) {
      notes.push_back(str("a stored evaluation was left out: ", error.what()));
    }
  }
  for (const auto& [key, candidate] : best) {
    try {
      EvaluationSummary one = summarize(candidate.stored);
      if (key.first == 0) {
        std::vector<std::string> others = candidate.settings;
        // Runs of older versions have no checksums.
        const bool has_checksums = std::ranges::count(checksums_of(run.info), "") == 0;
        if (!candidate.has_own_plugins && has_checksums) others.emplace_back("plugin files");
        if (!others.empty()) {
          notes.push_back(str("no evaluation on ", one.split, " with the run's own settings; one ",
                              "with others counts: ", join(others, ", ")));
        }
        add_samples_and_diagnostics(folder, one, notes);
        run.evaluations.push_back(std::move(one));
        continue;
      }
      const EvaluationSummary* const trained = run.find(one.split);
      if (trained != nullptr && trained->step == one.step)
        run.other_lengths.push_back(std::move(one));
    } catch (const Error& error) {
      notes.push_back(str("a stored evaluation was left out: ", error.what()));
    }
  }
}

std::int64_t integer_at(const config::Value& root, const char* table, const char* key) {
  const config::Value* const section = root.find(table);
  const config::Value* const value = section == nullptr ? nullptr : section->find(key);
  return value != nullptr && value->kind() == config::Kind::kInteger ? value->as_integer() : 0;
}

// How many steps a run has taken and was to take. One that may stop early has no known end.
void find_steps(const config::Value& experiment, Run& run) {
  if (!run.training.empty()) run.steps = run.training.back().step;
  for (const EvaluationPoint& point : run.while_training) {
    run.steps = std::max(run.steps, point.step);
  }
  for (const EvaluationSummary& one : run.evaluations) run.steps = std::max(run.steps, one.step);
  if (integer_at(experiment, "train", "early_stop") == 0) {
    run.planned_steps = integer_at(experiment, "train", "steps");
  }
}

}  // namespace

Json read_json(const fs::path& file, const char* hint) {
  Json json = parse_json(read_file(file));
  if (json.is_discarded()) {
    throw_run({.where = file.string(),
               .failed = "is damaged",
               .expected = "JSON",
               .got = "something else",
               .hint = hint});
  }
  return json;
}

ReadRun read_run(const fs::path& folder, const std::string& shown,
                 std::vector<std::string>& notes) {
  ReadRun out;
  out.experiment = read_file(folder / "experiment.toml", kMaxConfigBytes);
  out.run.folder = shown;
  out.run.path = folder;
  out.run.info = read_json(folder / "run.json", kRunHint);
  out.root = config::parse_toml(out.experiment, shown);
  const config::Value* const train = out.root.find("train");
  const config::Value* const seed = train == nullptr ? nullptr : train->find("seed");
  if (seed == nullptr || seed->kind() != config::Kind::kInteger) {
    throw_run({.where = (folder / "experiment.toml").string(),
               .failed = "is no resolved experiment",
               .expected = "the key train.seed",
               .got = "none",
               .hint = "give folders that `mneme train` or `mneme compare` wrote"});
  }
  out.run.seed = static_cast<std::uint64_t>(seed->as_integer());
  if (const std::int64_t damaged = read_metrics(folder / "metrics.jsonl", out.run); damaged > 0) {
    notes.push_back(str(shown, ": ", damaged, " damaged lines of metrics.jsonl were left out"));
  }
  std::vector<std::string> problems;
  read_evaluations(folder, out.root, out.run, problems);
  try {
    out.run.certificate = scores::read_certificate(folder);
  } catch (const std::exception& error) {
    problems.push_back(str("the certificate was left out: ", error.what()));
  }
  for (const std::string& problem : problems) notes.push_back(str(shown, ": ", problem));
  find_steps(out.root, out.run);
  scores::RunChecks checks = scores::read_run_checks(folder);
  out.checks = std::move(checks.before);
  // Of weights that were trained on they say nothing.
  if (checks.after && checks.after->step == out.run.steps) out.run.checks = std::move(checks.after);
  return out;
}

std::vector<std::string> checksums_of(const Json& info) {
  std::vector<std::string> out;
  for (const Json& plugin : info.value("plugins", Json::array())) {
    out.push_back(plugin.value("sha256", ""));
  }
  return out;
}

Json without_paths(const Json& data) {
  static const std::set<std::string> kPaths = {"files", "file", "path", "prepared",
                                               "vocabulary_file"};
  if (!data.is_object()) return data;
  Json out = Json::object();
  for (const auto& [key, value] : data.items()) {
    if (!kPaths.contains(key)) out[key] = without_paths(value);
  }
  return out;
}

}  // namespace mneme::report
