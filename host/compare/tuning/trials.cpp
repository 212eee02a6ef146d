#include "host/compare/tuning/trials.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include "host/base/error.hpp"
#include "host/config/toml/schema.hpp"
#include "host/plugin/plugin_lock.hpp"
#include "host/train/dry_run.hpp"

namespace mneme::compare {
namespace {

std::string option_of(const Tune& tune) {
  return tune.key.is_together ? "--tune-together" : "--tune";
}

bool has_type(const config::Value& value, std::string_view type) {
  using config::Kind;
  const Kind kind = value.kind();
  if (type.starts_with("an integer")) return kind == Kind::kInteger;
  if (type.starts_with("a real number")) return kind == Kind::kInteger || kind == Kind::kReal;
  if (type == "true or false") return kind == Kind::kBoolean;
  if (type.starts_with("a list") || type == "tables") return kind == Kind::kArray;
  if (type == "a table") return kind == Kind::kTable;
  return type.empty() || kind == Kind::kString;
}

// A value of another type than the key's is a slip of the pen. One that is out of range, or that a
// memory refuses, fails a trial alone.
void check_types(const Tune& tune, const ArmSetup& arm, plugin::PluginLoader& loader) {
  const std::string type = type_of_key(arm.experiment, tune.key.key, loader);
  for (const std::string& text : tune.values) {
    config::Value table;
    apply_override(table, {.key = "value", .value = text, .option = option_of(tune) + ' '});
    const config::Value& value = *table.find("value");
    if (has_type(value, type)) continue;
    throw_usage({.where = str(option_of(tune), ' ', tune.key.key, '=', tune.key.values),
                 .expected = type,
                 .got = config::describe(value)});
  }
}

void check_tune(const Tune& tune, const std::vector<ArmSetup>& arms, plugin::PluginLoader& loader) {
  bool is_known = false;
  for (const ArmSetup& arm : arms) {
    if (!has_key(arm.experiment, tune.key.key, loader)) continue;
    is_known = true;
    check_types(tune, arm, loader);
  }
  if (is_known) return;
  throw_usage({.where = str(option_of(tune), ' ', tune.key.key),
               .failed = "no arm has this key",
               .expected = "an option of a tier of one of the memories, such as tier.0.rows, or a "
                           "key of the experiment",
               .hint = "mneme plugins describe prints a plugin's options"});
}

// The places of the keys that an arm has.
std::vector<std::size_t> keys_of(const ArmSetup& arm, const std::vector<Tune>& tunes,
                                 plugin::PluginLoader& loader) {
  std::vector<std::size_t> out;
  for (std::size_t i = 0; i < tunes.size(); ++i) {
    const std::string& key = tunes[i].key.key;
    const auto given = std::ranges::find_if(
        arm.settings, [&](const std::string& one) { return one.starts_with(key + '='); });
    if (given != arm.settings.end()) {
      throw_usage({.where = arm.name,
                   .failed = str(option_of(tunes[i]), " chooses ", key,
                                 ", which a --sweep, --equal or a setting of the arm gives, too"),
                   .expected = "one of the two",
                   .got = *given});
    }
    if (has_key(arm.experiment, key, loader)) {
      out.push_back(i);
    } else if (tunes[i].key.is_together) {
      throw_usage({.where = str("--tune-together ", key),
                   .failed = str("the arm ", arm.name, " has no such key"),
                   .expected = "a key that all arms have, such as train.lr",
                   .hint = str("--tune ", key, " gives each arm a value of its own")});
    }
  }
  return out;
}

config::Experiment read_variant(const ArmSetup& arm, const std::vector<std::string>& settings,
                                const ArmSource& source) {
  std::vector<config::Override> overrides = source.overrides;
  for (const std::string& setting : settings) {
    config::Override override = config::parse_override(setting);
    override.option = "--tune ";
    overrides.push_back(std::move(override));
  }
  return plugin::read_experiment(source.experiment, overrides, arm.file, source.is_locked);
}

ArmSetup read_trial(const ArmSetup& arm, const std::vector<Tune>& tunes,
                    const std::vector<std::size_t>& keys, const std::vector<std::string>& values,
                    const ArmSource& source, plugin::PluginLoader& loader) {
  ArmSetup trial = arm;
  trial.variant_of = arm.name;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const std::string& key = tunes[keys[i]].key.key;
    trial.name += name_part(key, values[i]);
    trial.settings.push_back(str(key, '=', values[i]));
  }
  try {
    trial.experiment = read_variant(arm, trial.settings, source);
    train::check_inputs(trial.experiment, loader);
  } catch (const Error& error) {
    trial.refused = error.what();
    trial.experiment = arm.experiment;
  }
  trial.experiment.train.seed += kTuningSeedOffset;
  return trial;
}

// The first and another arm's numbers of trials.
void check_equal_numbers(const std::vector<std::pair<std::string, std::size_t>>& numbers) {
  const auto other = std::ranges::find_if(
      numbers, [&](const auto& one) { return one.second != numbers.front().second; });
  if (other == numbers.end()) return;
  throw_usage({.where = "--tune",
               .failed = "arms would get different numbers of trials, and the one with more would "
                         "have the better chance",
               .expected = "keys that all arms have, such as train.lr, or as many values for each "
                           "arm",
               .got = str(numbers.front().first, ": ", numbers.front().second, ", ", other->first,
                          ": ", other->second)});
}

}  // namespace

std::vector<ArmSetup> read_trials(const std::vector<ArmSetup>& arms, const std::vector<Tune>& tunes,
                                  const std::vector<std::vector<std::string>>& points,
                                  const ArmSource& source, plugin::PluginLoader& loader) {
  std::vector<ArmSetup> out;
  std::vector<std::pair<std::string, std::size_t>> numbers;
  for (const Tune& tune : tunes) check_tune(tune, arms, loader);
  for (const ArmSetup& arm : arms) {
    const std::vector<std::size_t> keys = keys_of(arm, tunes, loader);
    std::set<std::vector<std::string>> seen;
    for (const std::vector<std::string>& point : points) {
      std::vector<std::string> values;
      for (const std::size_t key : keys) values.push_back(point[key]);
      if (seen.insert(values).second)
        out.push_back(read_trial(arm, tunes, keys, values, source, loader));
    }
    numbers.emplace_back(arm.name, seen.size());
  }
  check_equal_numbers(numbers);
  tell_names_apart(out);
  return out;
}

void check_not_all_refused(const Record& trials) {
  const auto is_refused = [](const ArmRecord& arm) { return !arm.setup.refused.empty(); };
  if (!std::ranges::all_of(trials.arms, is_refused)) return;
  const ArmSetup& first = trials.arms.front().setup;
  const bool is_one_reason = std::ranges::all_of(
      trials.arms, [&](const ArmRecord& arm) { return arm.setup.refused == first.refused; });
  if (is_one_reason) throw_usage("every trial is refused: ", first.refused);
  throw_usage("every trial is refused; the first is ", first.name, ": ", first.refused);
}

std::vector<scores::TriedArm> tried_arms(const Record& trials, const std::vector<ArmSetup>& arms) {
  std::vector<scores::TriedArm> out;
  for (const ArmSetup& arm : arms) {
    scores::TriedArm& tried = out.emplace_back(scores::TriedArm{.arm = arm.name});
    for (const ArmRecord& one : trials.arms) {
      if (one.setup.variant_of != arm.name) continue;
      scores::Trial& trial = tried.trials.emplace_back(scores::Trial{
          .name = one.setup.name, .settings = one.setup.settings, .rung_losses = one.rung_losses});
      double sum = 0.0;
      for (const RunRecord& run : one.runs) {
        const bool has_loss = run.state == RunRecord::State::kDone && run.loss;
        sum += has_loss ? *run.loss : scores::Trial::kFailed;
        if (!has_loss && trial.error.empty()) trial.error = run.error;
      }
      trial.loss = sum / static_cast<double>(one.runs.size());
    }
    scores::take_last_rungs(tried, trials.rungs);
  }
  return out;
}

void tell_names_apart(std::vector<ArmSetup>& arms) {
  std::vector<std::string> names;
  for (const ArmSetup& arm : arms) names.push_back(arm.name);
  names = distinct_names(names);
  for (std::size_t i = 0; i < arms.size(); ++i) arms[i].name = names[i];
}

ArmSetup tuned_arm(const ArmSetup& arm, const scores::Trial* trial, const ArmSource& source) {
  ArmSetup out = arm;
  out.name = arm.name + ",tuned";
  out.variant_of = arm.name;
  if (trial == nullptr) return out;
  out.settings = trial->settings;
  out.experiment = read_variant(arm, out.settings, source);
  return out;
}

void share_equal_runs(Record& record) {
  for (ArmRecord& arm : record.arms) {
    const auto own = std::ranges::find(record.arms, arm.setup.variant_of,
                                       [](const ArmRecord& one) { return one.setup.name; });
    const bool are_equal = own != record.arms.end() && config::to_toml(own->setup.experiment) ==
                                                           config::to_toml(arm.setup.experiment);
    if (are_equal) arm.runs_of = own->setup.name;
  }
  copy_shared_runs(record);
}

}  // namespace mneme::compare
