// Of a bundle's runs: does each agree with itself, and with the plan of its comparison?
#include <algorithm>
#include <array>
#include <exception>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "host/base/error.hpp"
#include "host/base/file/file.hpp"
#include "host/base/json_text.hpp"
#include "host/config/toml/toml.hpp"
#include "host/report/archive/tar.hpp"
#include "host/report/bundle_files.hpp"
#include "host/report/comparison/read_run.hpp"
#include "host/scores/certificate.hpp"
#include "host/scores/evaluation_files.hpp"
#include "host/scores/looks.hpp"
#include "host/scores/stored_evaluation.hpp"
#include "host/scores/trials.hpp"

namespace mneme::report {
namespace {

namespace fs = std::filesystem;
using config::Kind;
using config::Value;

constexpr const char* kPlan = "comparison.json";

Value stored_experiment(const fs::path& run) {
  return config::parse_toml(read_file(run / "experiment.toml", kMaxConfigBytes), run.string());
}

// --- Settings ---

bool has_number(const Value& value) {
  return value.kind() == Kind::kInteger || value.kind() == Kind::kReal;
}

// Null where a part of the key is missing.
const Value* value_at(const Value& root, const std::string& key) {
  const Value* found = &root;
  for (const std::string& part : config::split_key(key)) {
    found = found->is_table() ? found->find(part) : nullptr;
    if (found == nullptr) return nullptr;
  }
  return found;
}

std::optional<std::uint64_t> seed_of(const Value& experiment) {
  const Value* const seed = value_at(experiment, "train.seed");
  if (seed == nullptr || seed->kind() != Kind::kInteger) return std::nullopt;
  return static_cast<std::uint64_t>(seed->as_integer());
}

// Whether two values mean the same, however they are written: 16 is 16.0.
bool mean_the_same(const Value& a, const Value& b) {
  if (a.kind() != b.kind()) return has_number(a) && has_number(b) && a.as_real() == b.as_real();
  if (a.is_table()) {
    return a.members().size() == b.members().size() &&
           std::ranges::all_of(a.members(), [&](const config::Member& one) {
             const Value* const other = b.find(one.key);
             return other != nullptr && mean_the_same(one.value, *other);
           });
  }
  if (a.kind() == Kind::kArray) return std::ranges::equal(a.items(), b.items(), mean_the_same);
  return a == b;
}

// The first key below `path` that two tables do not agree in; "" = there is none. A key that one
// lacks is another version's.
std::string first_other_key(const Value& a, const Value& b, const std::string& path) {
  if (!a.is_table() || !b.is_table()) return mean_the_same(a, b) ? "" : path;
  for (const config::Member& one : a.members()) {
    const Value* const other = b.find(one.key);
    if (other == nullptr) continue;
    std::string key = first_other_key(one.value, *other, config::child_path(path, one.key));
    if (!key.empty()) return key;
  }
  return "";
}

// What the runs of an arm have in common: all but [memory], which the plan has, and the seed.
Value without_memory_and_seed(Value root) {
  root.erase("memory");
  if (Value* const train = root.find("train")) train->erase("seed");
  return root;
}

// Every run of a comparison has a seed of the plan, trains to its end and is evaluated there,
// whatever experiment and arm say.
constexpr std::array<std::string_view, 3> kOfComparison = {"seed", "eval_every", "early_stop"};

bool is_of_comparison(const std::string& key) {
  return std::ranges::any_of(kOfComparison,
                             [&](std::string_view one) { return key == str("train.", one); });
}

// What an experiment gives its runs.
Value common_of(const Value& experiment) {
  Value out = without_memory_and_seed(experiment);
  if (Value* const train = out.find("train")) {
    for (const std::string_view key : kOfComparison) train->erase(key);
  }
  return out;
}

// An experiment's [memory] without what does not change a loss: where plugins are sought, which files
// they must be, what a swap does, and a list of no tiers.
Value comparable_memory(const Value& root) {
  const Value* const found = root.find("memory");
  if (found == nullptr) return {};
  Value out = *found;
  out.erase("plugins");
  out.erase("carry");
  if (Value* const tiers = out.find("tier")) {
    for (Value& tier : tiers->items()) tier.erase("sha256");
    if (tiers->items().empty()) out.erase("tier");
  }
  return out;
}

// --- One run ---

// "train.lr": what an evaluation has another of than its run; "" = nothing. A run may have been made
// longer since.
std::string other_training(const scores::StoredEvaluation& stored, const Value& experiment) {
  if (seed_of(experiment) != stored.seed()) return "train.seed";
  const Value used = config::parse_toml(word_at(stored.info(), "experiment"), "experiment");
  const Value* const found = used.find("train");
  const Value* const own = experiment.find("train");
  if (found == nullptr || own == nullptr) return "";
  Value train = *own;
  train.erase("steps");
  train.erase("epochs");
  return first_other_key(train, *found, "train");
}

void check_certificate(const fs::path& run, const Value& experiment, const std::string& label,
                       Verification& out) {
  const auto certificate = scores::read_certificate(run);
  if (!certificate) return;
  const std::string place = label + "/certificate.json: ";
  for (const std::string& one : scores::contradictions(*certificate))
    out.findings.push_back(place + one);
  if (!certificate->seed) return;  // of an earlier version
  if (certificate->seed != seed_of(experiment))
    out.findings.push_back(place + "is of another train.seed than its run");
  const Value memory = config::parse_toml(certificate->memory, place);
  if (!mean_the_same(comparable_memory(memory), comparable_memory(experiment)))
    out.findings.push_back(place + "is of another [memory] than its run");
}

// Calls `work`; an error is a finding without the temporary folder's name.
template <typename Work>
void find_errors(const fs::path& root, Verification& out, const Work& work) {
  try {
    work();
  } catch (const std::exception& error) {
    std::string what = error.what();
    const std::string place = root.string() + '/';
    for (std::size_t i = what.find(place); i != what.npos; i = what.find(place))
      what.erase(i, place.size());
    out.findings.push_back(what);
  }
}

// Every stored evaluation: its checksums, and its sums by its losses; then what it is of.
void check_run(const fs::path& root, const fs::path& run, Verification& out) {
  ++out.runs;
  const std::string label = run.lexically_relative(root).string();
  Value experiment;
  find_errors(root, out, [&] { experiment = stored_experiment(run); });
  for (const fs::path& folder : scores::list_evaluations(run)) {
    find_errors(root, out, [&] {
      const auto stored = scores::StoredEvaluation::open(folder);
      const scores::Columns columns = stored.columns();
      out.losses += columns.target.size();
      ++out.evaluations;
      check_numbers(stored, columns, folder.lexically_relative(root).string(), out);
      const std::string other = other_training(stored, experiment);
      if (other.empty()) return;
      out.findings.push_back(str(folder.lexically_relative(root).string(), ": is of another ",
                                 other, " than its run"));
    });
  }
  find_errors(root, out, [&] { check_certificate(run, experiment, label, out); });
}

// --- A comparison ---

// An arm of comparison.json.
class ArmOfPlan {
 public:
  // `common`: the experiment of the comparison, of whose first arm it is.
  ArmOfPlan(const Json& json, bool is_first_alike, const Value& common)
      : name_(json.at("name").get<std::string>()),
        memory_(config::parse_toml(json.value("memory", ""), name_)),
        checksums_(checksums_of(json)) {
    for (const Json& one : json.value("overrides", Json::array())) {
      const config::Override setting = config::parse_override(one.get<std::string>());
      if (!setting.key.starts_with("memory") && !is_of_comparison(setting.key))
        settings_.push_back(setting);
    }
    // A setting may be the default of others, which differ with it.
    if (is_first_alike && settings_.empty()) {
      common_ = common_of(common);
      has_common_ = !common_.members().empty();
    }
  }

  // Whether no setting but the memory tells it from the experiment.
  [[nodiscard]] bool is_alike() const { return settings_.empty(); }
  // What a run has another of than planned: "[memory]", "train.lr"; "" = nothing.
  [[nodiscard]] std::string other_of(const Value& experiment, const Json& planned);
  [[nodiscard]] bool has_other_plugins(const Json& info) const {
    return checksums_of(info) != checksums_;
  }
  [[nodiscard]] const std::string& name() const { return name_; }

 private:
  std::string name_;
  Value memory_;
  std::vector<std::string> checksums_;
  // Outside of [memory], and not is_of_comparison().
  std::vector<config::Override> settings_ = {};
  Value common_ = {};
  bool has_common_ = false;
};

std::string ArmOfPlan::other_of(const Value& experiment, const Json& planned) {
  const Value* const own = experiment.find("memory");
  const Value* const expected = memory_.find("memory");
  if (own != nullptr && expected != nullptr && !mean_the_same(*own, *expected)) return "[memory]";
  if (seed_of(experiment) != planned.at("seed").get<std::uint64_t>()) return "train.seed";
  Value given;
  for (const config::Override& setting : settings_) config::apply_override(given, setting);
  for (const config::Override& setting : settings_) {
    const Value* const wanted = value_at(given, setting.key);
    const Value* const found = value_at(experiment, setting.key);
    // A word may stand for another, as "auto" does, and a file for its whole path.
    if (wanted == nullptr || !has_number(*wanted)) continue;
    if (found == nullptr || !has_number(*found) || found->as_real() != wanted->as_real())
      return setting.key;
  }
  // The seeds of an arm differ in nothing else.
  const Value rest = without_memory_and_seed(experiment);
  if (has_common_) return first_other_key(common_, rest, "");
  common_ = rest;
  has_common_ = true;
  return "";
}

void check_planned(const fs::path& folder, const std::string& label, const Json& planned,
                   ArmOfPlan& arm, Verification& out) {
  const auto name = planned.at("folder").get<std::string>();
  const fs::path run = folder / name;
  if (!is_inside(name) || !fs::exists(run / "experiment.toml")) return;
  const auto find = [&](const std::string& what) {
    out.findings.push_back(
        str(label, '/', name, ": has ", what, " than the arm ", arm.name(), " of comparison.json"));
  };
  const std::string other = arm.other_of(stored_experiment(run), planned);
  if (!other.empty()) find("another " + other);
  // A run fails where a plugin is replaced meanwhile.
  if (planned.value("state", "") != "failed" &&
      arm.has_other_plugins(read_json(run / "run.json", "")))
    find("other plugin files");
}

// The folders of the runs that it plans go to `named`.
void check_comparison(const fs::path& root, const std::string& label, std::set<std::string>& named,
                      Verification& out) {
  const fs::path folder = root / label;
  if (!fs::exists(folder / kPlan)) return;
  const Json json = parse_json(read_file(folder / kPlan));
  const Value common = config::parse_toml(json.value("experiment", ""), label);
  bool is_first_alike = true;
  for (const Json& one : json.at("arms")) {
    ArmOfPlan arm(one, is_first_alike, common);
    if (&one == &json.at("arms").front()) is_first_alike = arm.is_alike();
    for (const Json& planned : one.at("runs")) {
      named.insert(label + '/' + planned.at("folder").get<std::string>());
      check_planned(folder, label, planned, arm, out);
    }
  }
  if (word_at(json, "command").find(" --until-decided") != std::string::npos &&
      !json.contains(scores::kLooksKey)) {
    out.findings.push_back(str(label,
                               "/comparison.json: its command adds seeds until a difference "
                               "is shown, but it does not say by which plan"));
  }
}

}  // namespace

void check_runs(const fs::path& root, const std::vector<std::string>& folders, Verification& out) {
  std::set<std::string> named(folders.begin(), folders.end());
  try {
    check_comparison(root, "runs", named, out);
    check_comparison(root, str("runs/", scores::kTuningFolder), named, out);
  } catch (const std::exception& error) {
    out.findings.push_back(str("runs: comparison.json and the runs do not agree: ", error.what()));
  }
  for (const std::string& name : files_below(root, root / "runs")) {
    const fs::path file = name;
    if (file.filename() != "experiment.toml") continue;
    check_run(root, root / file.parent_path(), out);
    if (!named.contains(file.parent_path().string()))
      out.findings.push_back(str(file.parent_path().string(), ": is a run that no report reads"));
  }
}

}  // namespace mneme::report
