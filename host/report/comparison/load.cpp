#include "host/report/comparison/load.hpp"

#include <algorithm>
#include <exception>
#include <optional>
#include <string>
#include <utility>

#include "host/base/error.hpp"
#include "host/base/file/file.hpp"
#include "host/base/json_text.hpp"
#include "host/base/utf8.hpp"
#include "host/config/toml/toml.hpp"
#include "host/report/comparison/hide_folders.hpp"
#include "host/report/comparison/read_run.hpp"
#include "host/report/comparison/read_tuning.hpp"
#include "host/scores/looks.hpp"

namespace mneme::report {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kComparisonFile = "comparison.json";

constexpr const char* kComparisonHint =
    "run the same `mneme compare` again, which keeps finished runs, or give the run folders";

// A run's folder without "/" at its end; "." has the name of the folder that it is.
std::string name_of(const fs::path& folder) {
  std::error_code code;
  const fs::path absolute = fs::absolute(folder, code);
  const fs::path path = (code ? folder : absolute).lexically_normal();
  return (path.filename().empty() ? path.parent_path() : path).filename().string();
}

// The experiment without its seed, and the plugins' checksums: equal for the runs of an arm.
std::string arm_key(const ReadRun& one) {
  config::Value root = one.root;
  if (config::Value* const train = root.find("train")) train->erase("seed");
  std::string key = root.toml();
  for (const std::string& sha256 : checksums_of(one.run.info)) {
    key += '\n' + sha256;
  }
  return key;
}

// "cache" of "cache-seed2".
std::string arm_name(const fs::path& folder, std::uint64_t seed) {
  const std::string name = printable(as_utf8(name_of(folder))), end = str("-seed", seed);
  const bool has_end = name.size() > end.size() && name.ends_with(end);
  return has_end ? name.substr(0, name.size() - end.size()) : name;
}

void take_from_info(Arm& arm, const Json& info) {
  arm.plugins = info.value("plugins", Json::array());
  arm.backbone_parameters = info.value("backbone_parameters", std::int64_t{0});
  arm.memory_parameters = info.value("memory_parameters", std::int64_t{0});
}

Json machine_of(const Json& info) {
  Json machine = Json::object();
  for (const char* key : {"device", "processor", "threads", "precision", "torch"}) {
    if (info.contains(key)) machine[key] = info.at(key);
  }
  return machine;
}

// --- A folder of `mneme compare` ---

std::optional<double> number_of(const Json& json, const char* key) {
  if (!json.is_object() || !json.contains(key) || !json.at(key).is_number()) return std::nullopt;
  return json.at(key).get<double>();
}

// Whether a run's files say that it was evaluated with the weights of its planned last step.
// comparison.json may say less, as when its program was killed while it began again.
bool is_evaluated_at_the_end(const Run& run) {
  return run.planned_steps > 0 &&
         std::ranges::any_of(run.evaluations, [&](const EvaluationSummary& one) {
           return one.step >= run.planned_steps;
         });
}

Run planned_run(const fs::path& folder, const Json& json, Comparison& comparison,
                std::string& experiment) {
  const std::string name = word_at(json, "folder");
  Run run;
  const std::string state = json.value("state", "waiting");
  if (!name.empty() && fs::exists(folder / name / "experiment.toml")) {
    try {
      ReadRun read = read_run(folder / name, name, comparison.notes);
      run = std::move(read.run);
      if (experiment.empty()) experiment = std::move(read.experiment);
    } catch (const std::exception& error) {
      run = {};
      if (state == "done") run.error = str("its folder cannot be read: ", error.what());
    }
  } else if (state == "done") {
    run.error = "its folder is missing";
  }
  run.folder = name;
  run.path = folder / name;
  run.seed = json.at("seed").get<std::uint64_t>();
  run.initial_sha256 = word_at(json, "initial_sha256");
  if (state == "failed") {
    const Json error = json.value("error", Json::object());
    run.error = error.is_object() ? word_at(error, "message") : std::string();
    if (run.error->empty()) run.error = "no reason is known";
  }
  run.is_done = state == "done" || state == "failed" || is_evaluated_at_the_end(run);
  if (!run.is_done || state == "failed") {  // of weights that are not the last
    run.evaluations.clear();
    run.other_lengths.clear();
  }
  comparison.is_interrupted = comparison.is_interrupted || !run.is_done;
  return run;
}

Arm planned_arm(const fs::path& folder, const Json& json, Comparison& comparison) {
  Arm arm{.name = json.at("name").get<std::string>(),
          .file = word_at(json, "file"),
          .memory = word_at(json, "memory"),
          .plugins = json.value("plugins", Json::array()),
          .backbone_parameters = json.value("backbone_parameters", std::int64_t{0}),
          .memory_parameters = json.value("memory_parameters", std::int64_t{0}),
          .replaced_layers = json.value("replaced_layers", Json())};
  for (const Json& one : json.value("overrides", Json::array())) {
    arm.overrides.push_back(one.is_string() ? one.get<std::string>() : one.dump());
  }
  arm.variant_of = word_at(json, "variant_of");
  const Json flops = json.value("flops", Json::object());
  arm.checks = scores::read_memory_checks(json.value("checks", Json()));
  arm.training_flops = number_of(flops, "training");
  arm.evaluation_flops = number_of(flops, "evaluation");
  for (const Json& run : json.at("runs")) {
    arm.runs.push_back(planned_run(folder, run, comparison, arm.experiment));
  }
  return arm;
}

// The experiment of an arm without a run folder: that of the comparison with the arm's [memory] and
// its settings outside of it, such as train.steps of a sweep.
std::string experiment_of(const std::string& experiment, const Arm& arm) {
  config::Value root = config::parse_toml(experiment, "experiment");
  for (const std::string& setting : arm.overrides) {
    try {
      if (!setting.starts_with("memory"))
        config::apply_override(root, config::parse_override(setting));
    } catch (const Error&) {  // damaged, or of another version: the arm has the common value
    }
  }
  const config::Value own = config::parse_toml(arm.memory, "memory");
  const config::Value* const table = own.find("memory");
  if (table != nullptr) root.set("memory", {}, *table);
  std::string text;
  for (const config::Member& member : root.members()) {
    text += str(config::toml_key(member.key), " = ", member.value.toml(), '\n');
  }
  return text;
}

// The plan of looks that comparison.json says; `file` is named in errors.
std::optional<Looks> read_looks(const fs::path& file, const Json& json) {
  try {
    const auto record = scores::read_look_record(json.value(scores::kLooksKey, Json()));
    if (!record) return std::nullopt;
    return Looks{.plan = stats::LookPlan(record->max_seeds), .split = record->split};
  } catch (const Error& error) {
    throw_run(file.string(), ": ", error.what());
  }
}

[[noreturn]] void fail_damaged(const fs::path& file, const Json::exception& error) {
  throw_run({.where = file.string(),
             .failed = "is damaged",
             .expected = "what `mneme compare` writes",
             .got = error.what(),
             .hint = kComparisonHint});
}

Comparison load_comparison(const fs::path& folder) {
  const fs::path file = folder / kComparisonFile;
  const Json json = read_json(file, kComparisonHint);
  if (!json.is_object() || word_at(json, "format") != "mneme-comparison" ||
      json.value("version", Json()) != 1) {
    throw_run({.where = file.string(),
               .failed = "is no comparison that this program can read",
               .expected = "format mneme-comparison, version 1",
               .got = json.is_object() ? str("format ", word_at(json, "format"), ", version ",
                                             json.value("version", Json()).dump())
                                       : std::string("no JSON object"),
               .hint = "read it with the program that wrote it, or run `mneme compare` again"});
  }
  Comparison out;
  try {
    const Json command = json.value("command", Json());
    if (command.is_string()) out.command = command.get<std::string>();
    if (command.is_array()) {
      std::vector<std::string> words;
      for (const Json& word : command) words.push_back(shell_word(word.get<std::string>()));
      out.command = join(words, " ");
    }
    out.experiment_file = word_at(json, "experiment_file");
    out.mneme = word_at(json, "mneme");
    out.commit = word_at(json, "commit");
    out.machine = json.value("machine", Json::object());
    out.data = json.value("data", Json::object());
    out.initial_weights = json.value("initial_weights", Json());
    out.looks = read_looks(file, json);
    for (const Json& arm : json.at("arms")) out.arms.push_back(planned_arm(folder, arm, out));
  } catch (const Json::exception& error) {
    fail_damaged(file, error);
  }
  if (out.arms.empty()) {
    throw_usage({.where = file.string(),
                 .failed = "the comparison has no arms",
                 .expected = "at least one",
                 .got = "none",
                 .hint = "run `mneme compare` again, with --memory for each arm"});
  }
  for (Arm& arm : out.arms) {
    if (arm.experiment.empty()) {
      arm.experiment = experiment_of(word_at(json, "experiment"), arm);
    }
  }
  check_and_complete(out);
  hide_folders(out);
  try {
    read_tuning(folder, json.value("tuning", Json()), out);
  } catch (const Json::exception& error) {
    fail_damaged(file, error);
  }
  return out;
}

// --- Run folders ---

// Adds what only the comparison in whose folder a run lies knows of its arm: the checks before the
// training, FLOPs, and the plan by which its seeds were added. Nothing where there is none, or one
// that cannot be read, or of other plugins. Error (kRun) for a plan that cannot be read, or is
// another one than `looks`.
void add_from_comparison(const fs::path& run_folder, const Json& info, Arm& arm,
                         std::optional<Looks>& looks) {
  std::error_code code;
  const fs::path absolute = fs::absolute(run_folder, code).lexically_normal();
  const fs::path run = absolute.filename().empty() ? absolute.parent_path() : absolute;
  const fs::path file = run.parent_path() / kComparisonFile;
  if (code || !fs::exists(file, code)) return;
  Json plan;
  try {
    const Json json = parse_json(read_file(file));
    if (json.is_discarded() || word_at(json, "format") != "mneme-comparison") return;
    for (const Json& one : json.at("arms")) {
      const bool has_run = std::ranges::any_of(one.at("runs"), [&](const Json& planned) {
        return word_at(planned, "folder") == run.filename();
      });
      if (!has_run || checksums_of(one) != checksums_of(info)) continue;
      if (!arm.checks) arm.checks = scores::read_memory_checks(one.value("checks", Json()));
      const Json flops = one.value("flops", Json::object());
      arm.training_flops = number_of(flops, "training");
      arm.evaluation_flops = number_of(flops, "evaluation");
      plan[scores::kLooksKey] = json.value(scores::kLooksKey, Json());
    }
  } catch (const std::exception&) {  // the run folder is what was asked for
  }
  // A plan that cannot be read is none that may be passed over: its level is spent.
  if (!plan.is_object()) return;
  if (!looks) {
    looks = read_looks(file, plan);
    return;
  }
  const auto own = scores::read_look_record(plan.at(scores::kLooksKey));
  if (!own || (own->max_seeds == looks->plan.max_seeds() && own->split == looks->split)) return;
  throw_run(
      {.where = file.string(),
       .failed = "its seeds were added by another plan than those of the runs before",
       .expected = str("at most ", looks->plan.max_seeds(), " seeds, looks at ", looks->split),
       .got = str("at most ", own->max_seeds, ", looks at ", own->split),
       .hint = "give the runs of each comparison by themselves"});
}

constexpr const char* kExpectedFolders = "the folder of a comparison, or run folders";
constexpr const char* kFoldersHint =
    "`mneme train --run DIR` makes a run, `mneme compare --run DIR` a comparison";

// The folders themselves, or, of a folder that is no run, the runs directly in it, by name; hidden
// ones and copies ("x~") are left out with a note. Error (kUsage) for a path that holds neither,
// such as one that is mistyped.
std::vector<fs::path> run_folders(const std::vector<fs::path>& paths,
                                  std::vector<std::string>& notes) {
  std::vector<fs::path> out;
  for (const fs::path& path : paths) {
    std::vector<fs::path> inside;
    std::error_code ignored;
    if (fs::exists(path / "experiment.toml", ignored)) {
      out.push_back(path);
      continue;
    }
    for (const auto& entry : fs::directory_iterator(path, ignored)) {
      if (!fs::exists(entry.path() / "experiment.toml", ignored)) continue;
      const std::string name = entry.path().filename().string();
      if (name.starts_with('.') || name.ends_with('~')) {
        notes.push_back(str(entry.path().string(),
                            " was left out: it is hidden, or a copy; name it itself to read it"));
      } else {
        inside.push_back(entry.path());
      }
    }
    if (inside.empty()) {
      throw_usage({.where = path.string(),
                   .failed = "there is no run",
                   .expected = kExpectedFolders,
                   .got = fs::is_directory(path, ignored) ? "a folder without runs"
                          : fs::exists(path, ignored)     ? "a file"
                                                      : "no such folder" + did_you_mean_path(path),
                   .hint = kFoldersHint});
    }
    std::ranges::sort(inside);
    out.insert(out.end(), inside.begin(), inside.end());
  }
  return out;
}

Comparison load_runs(const std::vector<fs::path>& paths) {
  Comparison out;
  std::vector<std::string> keys;
  std::vector<std::string> names;
  std::vector<std::string> problems;
  for (const fs::path& folder : run_folders(paths, out.notes)) {
    ReadRun one;
    std::string key;
    Arm of_run;
    try {
      one = read_run(folder, folder.string(), out.notes);
      key = arm_key(one);
      of_run.experiment = one.experiment;
      if (const config::Value* const memory = one.root.find("memory"))
        of_run.memory = memory->toml();
      take_from_info(of_run, one.run.info);
      of_run.checks = one.checks;
      add_from_comparison(folder, one.run.info, of_run, out.looks);
    } catch (const std::exception& error) {
      problems.push_back(
          str(folder.string(), " was left out, it cannot be read as a run: ", error.what()));
      continue;
    }
    const auto found = std::ranges::find(keys, key);
    const auto index = static_cast<std::size_t>(found - keys.begin());
    if (found == keys.end()) {
      keys.push_back(key);
      names.push_back(arm_name(folder, one.run.seed));
      out.arms.push_back(std::move(of_run));
    }
    Arm& arm = out.arms[index];
    if (const Run* const same = arm.find(one.run.seed)) {
      out.notes.push_back(str(folder.string(), " was left out: ", same->folder.string(),
                              " is a run of the same experiment and seed"));
      continue;
    }
    one.run.is_done = one.run.steps == 0 || one.run.steps >= one.run.planned_steps;
    arm.runs.push_back(std::move(one.run));
  }
  if (out.arms.empty()) {
    throw_usage({.where = "report",
                 .failed = str("no run can be read (", join(problems, "; "), ')'),
                 .expected = kExpectedFolders,
                 .hint = kFoldersHint});
  }
  out.notes.insert(out.notes.begin(), problems.begin(), problems.end());
  names = distinct_names(names);
  for (std::size_t i = 0; i < names.size(); ++i) out.arms[i].name = names[i];
  const Json& info = out.arms.front().runs.front().info;
  out.machine = machine_of(info);
  out.data = info.value("data", Json::object());
  out.mneme = word_at(info, "mneme");
  out.commit = word_at(info, "commit");
  check_and_complete(out);
  hide_folders(out);
  return out;
}

}  // namespace

Comparison load(const std::vector<fs::path>& paths) {
  if (paths.empty()) {
    throw_usage("report: expected the folder of a comparison, or run folders, got none");
  }
  for (const fs::path& path : paths) {
    std::error_code ignored;
    if (!fs::exists(path / kComparisonFile, ignored)) continue;
    if (paths.size() == 1) return load_comparison(path);
    throw_usage({.where = path.string(),
                 .failed = "is the folder of a comparison and must be given alone",
                 .expected = "one such folder, or run folders",
                 .got = str(paths.size(), " folders"),
                 .hint = "give the run folders in it"});
  }
  return load_runs(paths);
}

}  // namespace mneme::report
