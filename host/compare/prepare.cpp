// Before anything runs: the data, every arm once, and the run folders that can be continued.
#include <algorithm>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "host/base/error.hpp"
#include "host/base/file/file.hpp"
#include "host/base/log.hpp"
#include "host/base/log_once.hpp"
#include "host/checks/memory_checks.hpp"
#include "host/compare/finished_parts.hpp"
#include "host/compare/planning/curve.hpp"
#include "host/compare/planning/disk.hpp"
#include "host/compare/planning/earlier_comparison.hpp"
#include "host/compare/runs.hpp"
#include "host/compare/tuning/halving.hpp"
#include "host/optim/parameter_groups.hpp"
#include "host/optim/schedule.hpp"
#include "host/run/cost/flops.hpp"
#include "host/run/cost/footprint.hpp"
#include "host/run/cost/ram_check.hpp"
#include "host/run/fingerprint.hpp"
#include "host/run/host_commit.hpp"
#include "host/run/run_folder.hpp"
#include "host/scores/generated.hpp"
#include "host/tensor/device.hpp"
#include "host/train/windows.hpp"
#include "host/weights/official_weights.hpp"
#include "mneme/abi.h"

namespace mneme::compare {
namespace {

namespace fs = std::filesystem;

// Values are chosen on one split and compared on another.
void check_tuned_splits(const data::Dataset& dataset) {
  for (const auto& [split, key, use] :
       {std::tuple(data::Split::kValid, "data.valid", "values are chosen on the valid split"),
        std::tuple(data::Split::kTest, "data.test",
                   "chosen values are compared on the test split, which no choice has seen")}) {
    if (dataset.has(split)) continue;
    throw_usage({.where = key, .failed = str("--tune: ", use), .expected = key, .got = "none"});
  }
}

// The splits to measure on: generated tasks have every split, of which valid is enough; a test
// split that somebody made, as a file, by data.split or in a prepared folder, is measured.
std::vector<data::Split> splits_of(const config::Experiment& experiment,
                                   const data::Dataset& dataset, Purpose purpose) {
  if (purpose != Purpose::kArms) check_tuned_splits(dataset);
  if (purpose == Purpose::kTrials) return {data::Split::kValid};
  std::vector<data::Split> splits;
  if (dataset.has(data::Split::kValid)) splits.push_back(data::Split::kValid);
  const auto& given = experiment.data;
  const bool has_test = !given.test.empty() || ((!given.prepared.empty() || !given.split.empty()) &&
                                                dataset.has(data::Split::kTest));
  if (purpose == Purpose::kTuned || has_test) splits.push_back(data::Split::kTest);
  if (splits.empty()) {
    throw_usage({.where = "data.valid",
                 .failed = "the experiment has no split to compare on",
                 .expected = "data.valid or data.test",
                 .got = "neither"});
  }
  return splits;
}

// A pilot leaves alone what is measured later.
std::vector<data::Split> splits_of(const config::Experiment& experiment,
                                   const data::Dataset& dataset, const Options& options) {
  std::vector<data::Split> splits = splits_of(experiment, dataset, options.purpose);
  if (!options.pilot_split) return splits;
  std::vector<std::string> words;
  for (const data::Split split : splits) {
    words.emplace_back(data::to_word(split));
    if (options.pilot_split->empty() || words.back() == *options.pilot_split) return {split};
  }
  throw_usage({.where = "--split",
               .failed = "the pilot is not evaluated on it",
               .expected = quoted_list(words),
               .got = str('"', *options.pilot_split, '"')});
}

// Steps of an arm's training.
std::int64_t steps_of(const config::Experiment& experiment, const data::Dataset& dataset) {
  if (experiment.train.epochs == 0) return experiment.train.steps;
  return optim::count_steps(
      experiment.train,
      *dataset.make_stream(data::Split::kTrain, run::training_options(experiment.train)));
}

// Every arm trains to its end and is evaluated there. All arms have their learning curves on the
// same part of the valid split, which the first one chooses.
void plan_trainings(std::vector<ArmRecord>& arms, const data::Dataset& dataset) {
  const config::TrainConfig first = arms.front().setup.experiment.train;
  const CurvePlan plan = plan_curve(arms.front().setup.experiment, dataset,
                                    steps_of(arms.front().setup.experiment, dataset));
  for (ArmRecord& arm : arms) {
    config::Experiment& experiment = arm.setup.experiment;
    experiment.train.eval_every = 0;
    experiment.train.early_stop = 0;
    arm.curve = {.every = plan.every(steps_of(experiment, dataset)), .segments = plan.segments};
  }
  if (first.early_stop > 0) {
    log_info("train.early_stop is ignored: every arm of a comparison trains to its end");
  }
}

// A count that fails is no error of the arm: its training needs none.
Json flops_of(const run::Runtime& runtime, const std::string& arm) {
  try {
    return run::to_json(run::count_flops(runtime));
  } catch (const std::exception& error) {
    log_info(str("arm ", arm, ": its FLOPs are not counted: ", error.what()));
    return nullptr;
  }
}

ArmRecord refused_arm(const ArmSetup& setup, const std::string& reason) {
  ArmRecord arm{.setup = setup, .plugins = {}, .checks = {}, .runs = {}};
  arm.setup.refused = reason;
  return arm;
}

// The first weights of an arm, and the layers whose attention its memory replaces.
struct Start {
  const ArmSetup* setup = nullptr;
  memory::ReplacedLayers replaced;
  run::Fingerprint weights;
};

// Layers of other sizes (--equal parameters) cannot start from the same weights. Where memories
// replace the attention of other layers, the parameters outside attention are the same.
void check_starts(const Start& first, const Start& other) {
  if (!(first.setup->experiment.model == other.setup->experiment.model)) return;
  const auto check = [&](const run::Fingerprint& one, const run::Fingerprint& two) {
    run::check_equal(one, first.setup->name, two, other.setup->name);
  };
  if (first.replaced == other.replaced) return check(first.weights, other.weights);
  check(run::outside_attention(first.weights), run::outside_attention(other.weights));
}

// Makes every arm once, so that an error in the last one is found before the first is trained. An
// arm that `may_be_refused` keeps its error.
std::vector<ArmRecord> make_arms(const std::vector<ArmSetup>& setups,
                                 const run::RuntimeOptions& options,
                                 const std::vector<data::Split>& splits,
                                 const fs::path& initial_weights, bool may_be_refused) {
  std::vector<ArmRecord> arms;
  std::vector<Start> starts;  // of arms without an error
  for (const ArmSetup& setup : setups) {
    if (!setup.refused.empty()) {
      arms.push_back(refused_arm(setup, setup.refused));
      continue;
    }
    try {
      run::check_training_fits(setup.experiment, options);
      run::Runtime runtime(setup.experiment, options);
      optim::check_groups(setup.experiment.train, runtime.parameters());
      optim::check_frozen(runtime.parameters());
      if (!initial_weights.empty()) {
        static_cast<void>(weights::load_initial_weights(runtime, initial_weights));
      }
      const Start start{&setup, runtime.stack().replaced_layers(),
                        run::fingerprint(runtime.model())};
      for (const Start& other : starts) check_starts(other, start);
      starts.push_back(start);
      ArmRecord arm{.setup = setup,
                    .plugins = runtime.stack().identities(),
                    .backbone_parameters = runtime.backbone_parameter_count(),
                    .memory_parameters = runtime.memory_parameter_count(),
                    .replaced = start.replaced,
                    .flops = flops_of(runtime, setup.name),
                    .checks = checks::check_untrained(setup.experiment),
                    .disk_bytes = run_disk_bytes(
                        runtime, splits, steps_of(setup.experiment, *options.dataset),
                        run::fresh_state_bytes(runtime.stack(), memory::Phase::kTraining,
                                               setup.experiment.train.lanes)),
                    .runs = {}};
      arms.push_back(std::move(arm));
      for (const std::string& line : train::window_warnings(runtime)) {
        log_warning(setup.name, ": ", line);
      }
    } catch (const Error& error) {
      if (!may_be_refused) throw error.with_context(setup.name);
      arms.push_back(refused_arm(setup, error.what()));
    }
  }
  return arms;
}

// Its threads are those that the last model was given (tensor::fit_threads).
Json machine(const Options& options) {
  return {{"device", tensor::describe(options.device)},
          {"processor", tensor::processor_name()},
          {"threads", tensor::threads()},
          {"libtorch", tensor::torch_version()}};
}

// Whether a run began with the weights that the comparison begins with.
bool has_equal_start(const Json& info, const std::string& sha256) {
  const Json source = info.value("initial_weights", Json());
  return source.is_object() ? source.value("sha256", "") == sha256 : sha256.empty();
}

// Why the run in a folder is not one of this experiment, by the same program on the same data; "" =
// it is.
std::string why_another(const fs::path& folder, const config::Experiment& experiment,
                        const ArmRecord& arm, const Record& record,
                        const std::string& initial_sha256) {
  try {
    const run::RunFolder files = run::RunFolder::open(folder);
    if (read_file(files.experiment_file()) != config::to_toml(experiment)) {
      return "in another experiment";
    }
    const Json info = files.info();
    if (info.at("mneme") != MNEME_SDK_VERSION || info.at("commit") != run::host_commit()) {
      return "by another program";
    }
    for (const char* key : {"threads", "device"}) {
      if (info.at(key) != record.machine.at(key)) {
        return str("with ", key, " = ", info.at(key).dump(), " instead of ",
                   record.machine.at(key).dump());
      }
    }
    if (!std::ranges::equal(run::read_plugins(info), arm.plugins, {}, &memory::TierIdentity::sha256,
                            &memory::TierIdentity::sha256)) {
      return "with other plugin files";
    }
    if (!has_equal_start(info, initial_sha256)) return "from other initial weights";
    run::check_data(info, record.data);
    return "";
  } catch (const Error& error) {
    return error.kind() == ErrorKind::kUsage ? "on other data" : "in a form that cannot be read";
  } catch (const std::exception&) {
    return "in a form that cannot be read";  // damaged, or of another version
  }
}

// What a process that was killed while it made the folder leaves: no run.
bool is_unfinished_start(const fs::path& folder) {
  const run::RunFolder files = run::RunFolder::at(folder);
  const std::vector<std::int64_t> steps = files.checkpoints().steps();
  return fs::is_directory(folder) && !fs::exists(files.experiment_file()) &&
         (steps.empty() || steps == std::vector<std::int64_t>{0});
}

// Folders with an arm's name that hold other runs, by what is other about them.
using OtherRuns = std::map<std::string, std::vector<std::string>>;

// The folder of a run: that of an equal one, or the first name that is free.
std::string choose_folder(const Options& options, const config::Experiment& experiment,
                          const ArmRecord& arm, const Record& record,
                          const std::set<std::string>& taken, OtherRuns& others) {
  const fs::path& root = options.folder;
  const std::string base = str(folder_name(arm.setup.name), "-seed", experiment.train.seed);
  for (int i = 1;; ++i) {
    std::string name = i == 1 ? base : str(base, '-', i);
    if (taken.contains(name)) continue;
    const fs::path folder = root / name;
    if (root.empty() || !fs::exists(folder) || is_unfinished_start(folder)) return name;
    std::string reason =
        why_another(folder, experiment, arm, record, options.initial_weights_sha256);
    if (reason.empty()) {
      const std::int64_t missed = missed_rung(folder, record.rungs, arm.plugins);
      if (missed == 0) return name;
      reason =
          str("past step ", missed, ", without the evaluation there that --tune-halving needs");
    }
    others[reason].push_back(name);
  }
}

// Who repeats a command with one more option would wonder why everything is trained again.
void say_what_is_left_alone(const fs::path& root, const OtherRuns& others) {
  for (const auto& [reason, names] : others) {
    const std::string more = names.size() > 1 ? str(" and ", names.size() - 1, " more") : "";
    log_info(str(root.string(), ": ", names.front(), more,
                 names.size() > 1 ? " are left alone: they were" : " is left alone: it was",
                 " trained ", reason,
                 names.size() > 1 ? "; new runs take their places in the report"
                                  : "; a new run takes its place in the report"));
  }
}

// The report says it too, when everything is trained; here it can still be changed.
void say_few_documents(const data::Dataset& dataset, const std::vector<data::Split>& splits) {
  for (const data::Split split : splits) {
    const auto corpus = dataset.corpus(split);
    if (corpus == nullptr || corpus->documents.size() >= scores::kFewestDocuments) continue;
    const std::size_t n = corpus->documents.size();
    log_info(str("the ", data::to_word(split), " split has ", n,
                 n == 1 ? " document" : " documents", ", fewer than ", scores::kFewestDocuments,
                 ": units of its differences will be blocks of its tokens, and the result is about "
                 "this text alone; data.documents or more files make more documents"));
  }
}

}  // namespace

Record prepare(std::vector<ArmSetup> arms, const Options& options, plugin::PluginLoader& loader) {
  const LogOnce log;
  if (arms.empty()) throw_usage("compare: expected at least one memory, got none");
  if (options.seeds < 1) throw_usage("compare: seeds: expected at least 1, got ", options.seeds);
  check_grows(arms, options);
  for (ArmSetup& arm : arms) {
    arm.experiment = run::with_chosen_precision(std::move(arm.experiment), options.device);
  }
  const config::Experiment& experiment = arms.front().experiment;
  const auto dataset = std::make_shared<const data::Dataset>(experiment.data);
  Record record{.command = options.command,
                .file = options.experiment,
                .experiment = config::to_toml(experiment),
                .machine = {},
                .data = dataset->describe(),
                .splits = splits_of(experiment, *dataset, options),
                .seeds = {},
                .arms = {}};
  record.arms =
      make_arms(arms,
                {.device = options.device,
                 .precision = std::nullopt,
                 .dataset = dataset,
                 .loader = {std::shared_ptr<void>(), &loader},
                 .weights_follow = !options.initial_weights.empty(),
                 .free_memory = options.free_memory},
                record.splits, options.initial_weights, options.purpose == Purpose::kTrials);
  say_few_documents(*dataset, record.splits);
  record.machine = machine(options);
  plan_trainings(record.arms, *dataset);
  if (options.halving_steps > 0) {
    std::vector<std::int64_t> lengths;
    for (const ArmRecord& arm : record.arms)
      lengths.push_back(steps_of(arm.setup.experiment, *dataset));
    record.rungs = plan_rungs(record.arms, lengths, options.halving_steps);
    record.early_end = early_end(record.rungs, lengths.front());
    if (!record.early_end.empty()) log_warning(record.early_end);
  }
  if (!options.initial_weights.empty()) {
    record.initial_weights = {{"given", options.given_weights.string()},
                              {"file", options.initial_weights.string()},
                              {"sha256", options.initial_weights_sha256}};
  }
  for (std::int64_t i = 0; i < options.seeds; ++i)
    record.seeds.push_back(experiment.train.seed + static_cast<std::uint64_t>(i));
  if (dataset->corpus(record.splits.front()) != nullptr) record.samples = options.samples;
  record.diagnostics = options.diagnostics;
  if (options.is_until_decided) {
    record.looks = {.max_seeds = record.seeds.size(),
                    .split = std::string(data::to_word(record.splits.back()))};
  }
  std::set<std::string> taken;
  OtherRuns others;
  for (ArmRecord& arm : record.arms) {
    record.prompt_tokens = std::max(
        record.prompt_tokens, scores::default_prompt_tokens(arm.setup.experiment.eval.segment));
    config::Experiment one = arm.setup.experiment;
    for (std::int64_t i = 0; i < options.seeds; ++i) {
      one.train.seed = arm.setup.experiment.train.seed + static_cast<std::uint64_t>(i);
      RunRecord run{.arm = arm.setup.name, .seed = one.train.seed};
      if (!arm.setup.refused.empty()) {
        run.state = RunRecord::State::kFailed;
        run.error = arm.setup.refused;
        run.exit_code = static_cast<int>(ErrorKind::kUsage);
        arm.runs.push_back(std::move(run));
        continue;
      }
      run.folder = choose_folder(options, one, arm, record, taken, others);
      taken.insert(run.folder);
      run.is_complete =
          is_complete(options.folder / run.folder, record, arm.plugins, steps_of(one, *dataset));
      arm.runs.push_back(std::move(run));
    }
  }
  say_what_is_left_alone(options.folder, others);
  for (const ArmRecord& arm : record.arms) {
    for (const std::string& line : scores::warnings(arm.checks)) {
      log_warning(arm.setup.name, ": ", line);
    }
  }
  record.logged = log.said();
  return record;
}

}  // namespace mneme::compare
