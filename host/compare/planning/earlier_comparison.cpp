#include "host/compare/planning/earlier_comparison.hpp"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <system_error>
#include <utility>

#include "host/base/error.hpp"
#include "host/base/file/file.hpp"
#include "host/base/log.hpp"
#include "host/config/toml/toml.hpp"

namespace mneme::compare {
namespace {

namespace fs = std::filesystem;

// An arm of comparison.json with runs that are done and still there.
struct DoneArm {
  std::string name = {};
  std::string variant_of = {};  // as ArmSetup
  std::vector<std::uint64_t> seeds = {};
  fs::path run = {};  // the folder of the first
};

std::vector<DoneArm> done_arms(const Json& record, const fs::path& folder) {
  std::vector<DoneArm> out;
  std::error_code ignored;
  for (const Json& arm : record.at("arms")) {
    DoneArm done{.name = arm.at("name").get<std::string>(),
                 .variant_of = arm.value("variant_of", std::string())};
    for (const Json& run : arm.at("runs")) {
      const fs::path path = folder / run.at("folder").get<std::string>();
      if (run.at("state") != "done" || !fs::exists(path, ignored)) continue;
      if (done.seeds.empty()) done.run = path;
      done.seeds.push_back(run.at("seed").get<std::uint64_t>());
    }
    if (!done.seeds.empty()) out.push_back(std::move(done));
  }
  return out;
}

// One way in which comparison.json differs from what is asked for.
struct Contrast {
  std::string there = {};
  std::string here = {};

  bool operator==(const Contrast&) const = default;
};

// "a, b, c and 4 more".
std::string listed(const std::vector<std::string>& words) {
  constexpr std::ptrdiff_t kShown = 3;
  if (std::ssize(words) <= kShown + 1) return join(words, ", ");
  return str(join({words.begin(), words.begin() + kShown}, ", "), " and ",
             std::ssize(words) - kShown, " more");
}

std::string seeds_text(const std::set<std::uint64_t>& seeds) {
  std::vector<std::string> words;
  for (const std::uint64_t seed : seeds) words.push_back(str(seed));
  return str(words.size() == 1 ? "seed " : "seeds ", listed(words));
}

std::set<std::uint64_t> planned_seeds(const ArmSetup& arm, const Options& options) {
  std::set<std::uint64_t> out;
  for (std::int64_t i = 0; i < options.seeds; ++i)
    out.insert(arm.experiment.train.seed + static_cast<std::uint64_t>(i));
  return out;
}

// --- The contrasts ---

void add_tuning(const Json& record, const Options& options, std::vector<Contrast>& out) {
  const Json tuning = record.value("tuning", Json());
  if (tuning.is_null() || options.purpose != Purpose::kArms) return;
  std::vector<std::string> words;
  for (const Json& key : tuning.at("keys")) {
    words.push_back(str(key.at("together").get<bool>() ? "--tune-together " : "--tune ",
                        key.at("key").get<std::string>(), '=',
                        key.at("values").get<std::string>()));
  }
  out.push_back({join(words, " "), "no --tune"});
}

void add_weights(const Json& record, const Options& options, std::vector<Contrast>& out) {
  const Json weights = record.value("initial_weights", Json());
  const bool are_drawn = weights.is_null();
  const std::string sha256 = are_drawn ? "" : weights.at("sha256").get<std::string>();
  if (sha256 == options.initial_weights_sha256) return;
  const auto text = [](const std::string& given, const std::string& sum) {
    return sum.empty() ? "no --init" : str("--init ", given, " of sha256 ", sum);
  };
  out.push_back({text(are_drawn ? "" : weights.at("given").get<std::string>(), sha256),
                 text(options.given_weights.string(), options.initial_weights_sha256)});
}

// An experiment as every run of an arm has it, whatever its seed is.
std::vector<config::FlatKey> settings_of(config::Experiment experiment) {
  experiment.train.seed = 0;
  experiment.train.eval_every = 0;
  experiment.train.early_stop = 0;
  return config::flat_keys(config::parse_toml(config::to_toml(experiment), "experiment"));
}

// A device chooses what "auto" stands for, and another device is no other setting.
void forget_chosen(const config::Experiment& wanted, config::Experiment& run) {
  if (wanted.train.precision == config::Precision::kAuto)
    run.train.precision = config::Precision::kAuto;
  if (wanted.eval.precision == config::Precision::kAuto)
    run.eval.precision = config::Precision::kAuto;
}

// nullopt where the settings are equal, or where those of the run cannot be read.
std::optional<Contrast> other_settings(const DoneArm& done, const ArmSetup& arm) {
  const fs::path file = done.run / "experiment.toml";
  std::vector<config::FlatKey> there, here;
  try {
    const std::string text = read_file(file);
    config::Experiment run = config::parse_experiment_text(text, file.string(), done.run);
    forget_chosen(arm.experiment, run);
    there = settings_of(std::move(run));
    here = settings_of(arm.experiment);
  } catch (const Error&) {
    return std::nullopt;  // of another version: its runs may be made anew
  }
  std::vector<std::string> keys;
  for (const auto* const side : {&there, &here}) {
    for (const config::FlatKey& one : *side) {
      if (std::ranges::find(keys, one.key) == keys.end()) keys.push_back(one.key);
    }
  }
  std::vector<std::string> words_there, words_here;
  for (const std::string& key : keys) {
    const auto before = std::ranges::find(there, key, &config::FlatKey::key);
    const auto now = std::ranges::find(here, key, &config::FlatKey::key);
    if (before != there.end() && now != here.end() && before->value == now->value) continue;
    words_there.push_back(before == there.end() ? "no " + key
                                                : str(key, " = ", before->value.toml()));
    words_here.push_back(now == here.end() ? "no " + key : str(key, " = ", now->value.toml()));
  }
  if (words_there.empty()) return std::nullopt;
  return Contrast{listed(words_there), listed(words_here)};
}

// Arms that were tried or tuned with a value stand for their arm where values are chosen anew: only
// their seeds are compared.
void add_arms(const std::vector<DoneArm>& done, const std::vector<ArmSetup>& arms,
              const Options& options, std::vector<Contrast>& out) {
  std::vector<std::string> missing, names;
  std::set<std::uint64_t> missing_seeds;
  std::vector<std::pair<Contrast, std::vector<std::string>>> others;  // with their arms
  for (const DoneArm& one : done) {
    const bool is_tuned = !one.variant_of.empty() && options.purpose != Purpose::kTrials;
    if (is_tuned && options.purpose == Purpose::kArms) continue;  // see add_tuning
    const auto arm = std::ranges::find(arms, is_tuned ? one.variant_of : one.name, &ArmSetup::name);
    if (arm == arms.end()) {
      missing.push_back(one.name);
      continue;
    }
    const std::set<std::uint64_t> seeds = planned_seeds(*arm, options);
    for (const std::uint64_t seed : one.seeds) {
      if (!seeds.contains(seed)) missing_seeds.insert(seed);
    }
    const auto other = is_tuned || !arm->refused.empty() ? std::nullopt : other_settings(one, *arm);
    if (!other) continue;
    const auto same =
        std::ranges::find_if(others, [&](const auto& known) { return known.first == *other; });
    if (same == others.end()) {
      others.emplace_back(*other, std::vector<std::string>{one.name});
    } else {
      same->second.push_back(one.name);
    }
  }
  for (const auto& [contrast, of] : others)
    out.push_back({str(listed(of), " with ", contrast.there), contrast.here});
  for (const ArmSetup& arm : arms) names.push_back(arm.name);
  if (!missing.empty()) {
    out.push_back({str(missing.size() == 1 ? "the arm " : "the arms ", listed(missing)),
                   str(names.size() == 1 ? "the arm " : "the arms ", listed(names))});
  }
  if (!missing_seeds.empty()) {
    out.push_back({seeds_text(missing_seeds), seeds_text(planned_seeds(arms.front(), options))});
  }
}

// --- The plan of looks ---

std::string looks_text(std::size_t max_seeds) {
  return max_seeds == 0 ? "a fixed number of seeds"
                        : str("--until-decided --max-seeds ", max_seeds);
}

void check_looks(const Json& record, const Options& options, const fs::path& file) {
  const auto kept = scores::read_look_record(record.value(scores::kLooksKey, Json()));
  const std::size_t before = kept ? kept->max_seeds : 0;
  const std::size_t now = options.is_until_decided ? static_cast<std::size_t>(options.seeds) : 0;
  if (before == now) return;
  throw_usage({.where = file.string(),
               .failed = kept
                             ? "a comparison that is looked at after every seed keeps its plan, or "
                               "its error rates do not hold"
                             : "a comparison of a fixed number of seeds cannot be looked at early "
                               "afterwards, or its error rates do not hold",
               .expected = looks_text(before),
               .got = looks_text(now),
               .hint = "give the same options again, or another folder with --run DIR"});
}

void expect_growth(const std::vector<ArmSetup>& arms, const Options& options) {
  const fs::path file = options.folder / "comparison.json";
  std::error_code ignored;
  if (options.folder.empty() || !fs::exists(file, ignored)) return;
  const Json record = Json::parse(read_file(file), nullptr, /*allow_exceptions=*/false);
  std::vector<Contrast> contrasts;
  std::string command;
  try {
    command = record.value("command", std::string());
    const std::vector<DoneArm> done = done_arms(record, options.folder);
    if (done.empty()) return;
    check_looks(record, options, file);
    add_tuning(record, options, contrasts);
    add_weights(record, options, contrasts);
    add_arms(done, arms, options, contrasts);
  } catch (const Json::exception&) {
    return;
  }
  if (contrasts.empty()) return;
  std::vector<std::string> there, here;
  for (const Contrast& one : contrasts) {
    there.push_back(one.there);
    here.push_back(one.here);
  }
  throw_usage(
      {.where = file.string(),
       .failed = "runs that are done there would be left out",
       .expected = join(there, "; "),
       .got = join(here, "; "),
       .hint = command.empty() || command == options.command
                   ? "name another folder with --run DIR, or give the files as they were"
                   : str("name another folder with --run DIR; what is there is continued by: ",
                         command)});
}

}  // namespace

void check_grows(const std::vector<ArmSetup>& arms, const Options& options) {
  try {
    expect_growth(arms, options);
  } catch (const Error& error) {
    if (!options.is_dry_run) throw;
    log_warning("without --dry-run this is refused: ", error.what());
  }
}

}  // namespace mneme::compare
