// mneme compare --tune: the trials of every arm, and the comparison with the values chosen.
#include <nlohmann/json.hpp>
#include <utility>

#include "host/base/log.hpp"
#include "host/cli/compare/compare.hpp"
#include "host/compare/tuning/halving.hpp"
#include "host/memory/abi/groups.hpp"

namespace mneme::cli {
namespace {

std::vector<scores::TunedKey> keys_of(const std::vector<compare::Tune>& tunes) {
  std::vector<scores::TunedKey> out;
  for (const compare::Tune& tune : tunes) out.push_back(tune.key);
  return out;
}

// "cache: train.lr = 0.003 (valid loss 1.2345 in one of 4 trials)"
std::string chosen_text(const scores::TriedArm& arm, std::optional<std::size_t> chosen,
                        const std::vector<scores::TunedKey>& keys) {
  if (!chosen) return str(arm.arm, ": no trial can be taken");
  const scores::Trial& trial = arm.trials[*chosen];
  std::vector<std::string> values;
  for (const scores::TunedKey& key : keys) {
    const std::string value = trial.value_of(key.key);
    if (!value.empty()) values.push_back(str(key.key, " = ", value));
  }
  return str(arm.arm, ": ", join(values, ", "), " (valid loss ", format_number(trial.loss, 4),
             trial.steps > 0 ? str(" after ", trial.steps, " steps") : "", " in one of ",
             arm.trials.size(), " trials)");
}

void append_tunes(const std::vector<std::string>& words, bool is_together,
                  std::vector<compare::Tune>& out) {
  for (const std::string& word : words) out.push_back(compare::parse_tune(word, is_together));
}

}  // namespace

bool is_tuned(const CompareArguments& arguments) {
  return !arguments.tunes.empty() || !arguments.tunes_together.empty();
}

std::vector<compare::ArmSetup> with_stand_ins(const std::vector<compare::ArmSetup>& arms) {
  std::vector<compare::ArmSetup> out = arms;
  for (const compare::ArmSetup& arm : arms) out.push_back(compare::tuned_arm(arm, nullptr, {}));
  compare::tell_names_apart(out);
  return out;
}

Tuning read_tuning(const CompareArguments& arguments, const std::vector<compare::ArmSetup>& arms,
                   plugin::PluginLoader& loader) {
  Tuning out{.source = {.experiment = arguments.paths.front(),
                        .overrides = arguments.set.overrides(),
                        .is_locked = arguments.is_locked}};
  out.halving_steps = arguments.tune_halving;
  append_tunes(arguments.tunes_together, true, out.tunes);
  append_tunes(arguments.tunes, false, out.tunes);
  const auto points = compare::combinations(
      out.tunes, arguments.tune_trials > 0 ? std::optional(arguments.tune_trials) : std::nullopt,
      arms.front().experiment.train.seed);
  out.trials = compare::read_trials(arms, out.tunes, points, out.source, loader);
  return out;
}

void prepare_trials(Tuning& tuning, const compare::Options& options, plugin::PluginLoader& loader) {
  tuning.options = options;
  tuning.options.folder = options.folder / scores::kTuningFolder;
  tuning.options.purpose = compare::Purpose::kTrials;
  tuning.options.halving_steps = tuning.halving_steps;
  tuning.options.seeds = 1;
  tuning.options.samples = 0;
  tuning.options.diagnostics = 0;
  tuning.record = compare::prepare(tuning.trials, tuning.options, loader);
  compare::check_not_all_refused(tuning.record);
  for (const compare::ArmRecord& trial : tuning.record.arms) {
    if (!trial.setup.refused.empty())
      log_warning(trial.setup.name, " is refused: ", trial.setup.refused);
  }
}

CompareEnd run_trials(Tuning& tuning, const CompareArguments& arguments, const Streams& streams) {
  const std::vector<scores::Rung>& rungs = tuning.record.rungs;
  if (rungs.empty()) return run_comparison(tuning.record, tuning.options, arguments, streams);
  CompareEnd end;
  for (std::size_t i = 0; i < rungs.size() && end.signal == 0; ++i) {
    compare::begin_rung(tuning.record, i, tuning.options.folder);
    if (!arguments.is_quiet) {
      streams.err << str("rung ", i + 1, " of ", rungs.size(), ": ", rungs[i].trials,
                         rungs[i].trials == 1 ? " trial" : " trials", " an arm, ", rungs[i].steps,
                         " steps\n")
                  << std::flush;
    }
    end = run_comparison(tuning.record, tuning.options, arguments, streams);
    compare::end_rung(tuning.record, i);
  }
  return end;
}

TunedArms choose_arms(const Tuning& tuning, const std::vector<compare::ArmSetup>& arms,
                      const compare::Options& options, const CompareArguments& arguments,
                      const Streams& streams) {
  const std::vector<scores::TunedKey> keys = keys_of(tuning.tunes);
  const std::vector<scores::TriedArm> tried = compare::tried_arms(tuning.record, arms);
  const auto chosen = scores::choose_trials(tried, keys);
  TunedArms out;
  std::vector<compare::ArmSetup> all = arms;
  for (std::size_t i = 0; i < arms.size(); ++i) {
    if (!arguments.is_quiet)
      streams.err << "tuned " << chosen_text(tried[i], chosen[i], keys) << '\n' << std::flush;
    out.are_missing = out.are_missing || !chosen[i];
    if (chosen[i])
      all.push_back(compare::tuned_arm(arms[i], &tried[i].trials[*chosen[i]], tuning.source));
  }
  compare::tell_names_apart(all);
  plugin::PluginLoader loader = memory::make_loader();
  out.record = compare::prepare(std::move(all), options, loader);
  compare::share_equal_runs(out.record);
  for (const compare::ArmRecord& arm : out.record.arms) {
    if (!arguments.is_quiet && !arm.runs_of.empty()) {
      streams.err << str(arm.setup.name, " has the values of ", arm.runs_of, ", and its runs\n")
                  << std::flush;
    }
  }
  out.record.tuning = compare::tuning_json(tuning.tunes, tuning.record.rungs);
  return out;
}

Json show_tuning_plan(const Tuning& tuning, const compare::Record& record,
                      const compare::Options& options, const std::string& name,
                      const CompareArguments& arguments, const RankSession& session) {
  compare::Record trials = tuning.record;
  std::erase_if(trials.arms,
                [](const compare::ArmRecord& arm) { return !arm.setup.refused.empty(); });
  compare::plan_stops(trials);
  const Json first = show_plan(trials, tuning.options, "the trials of " + name, arguments, session);
  Json out = show_plan(record, options, name, arguments, session);
  const bool is_timed = first.at("seconds").is_number() && out.at("seconds").is_number();
  const double seconds =
      is_timed ? first.at("seconds").get<double>() + out.at("seconds").get<double>() : 0.0;
  const auto bytes =
      first.at("disk_bytes").get<std::uint64_t>() + out.at("disk_bytes").get<std::uint64_t>();
  std::string text =
      str("with the trials: ", is_timed ? format_duration(seconds) : "time not known", ", disk ",
          human_bytes(bytes), "; a tuned arm is timed with the values of its arm",
          trials.rungs.empty() ? "" : ", and an arm's first trials as if they went on", '\n');
  if (!trials.early_end.empty()) text += trials.early_end + '\n';
  arguments.json.text(session.streams())
      << fit_lines(text, session.streams().out_width) << std::flush;
  out["trials"] = first;
  out["seconds_with_trials"] = is_timed ? Json(seconds) : Json(nullptr);
  return out;
}

}  // namespace mneme::cli
