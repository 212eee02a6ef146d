#include "host/compare/compare.hpp"

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <utility>

#include "host/base/error.hpp"
#include "host/base/file/checksum.hpp"
#include "host/base/text.hpp"
#include "host/memory/abi/groups.hpp"
#include "host/run/footprint.hpp"
#include "host/run/run_folder.hpp"
#include "host/tensor/device.hpp"
#include "host/tensor/torch.hpp"
#include "host/train/trainer.hpp"

namespace mneme::compare {
namespace {

namespace fs = std::filesystem;

// Data that all arms share.
struct Shared {
  const Options& options;
  Observer& observer;
  std::shared_ptr<const data::Dataset> dataset;
  std::shared_ptr<plugin::PluginLoader> loader;
  std::vector<data::Split> splits;
};

run::RuntimeOptions runtime_options(const Shared& shared) {
  return {.device = shared.options.device,
          .precision = std::nullopt,
          .dataset = shared.dataset,
          .loader = shared.loader,
          .free_memory = shared.options.free_memory};
}

// The splits to measure on: generated tasks have every split, of which valid is enough.
std::vector<data::Split> splits_of(const config::Experiment& experiment,
                                   const data::Dataset& dataset) {
  std::vector<data::Split> splits;
  if (dataset.has(data::Split::kValid)) splits.push_back(data::Split::kValid);
  if (!experiment.data.test.empty()) splits.push_back(data::Split::kTest);
  if (splits.empty()) {
    throw_usage({.where = "data.valid",
                 .failed = "the experiment has no split to compare on",
                 .expected = "data.valid or data.test",
                 .got = "neither"});
  }
  return splits;
}

void add(NllSums& sums, std::size_t index, double nll, std::int64_t targets) {
  if (sums.nll.size() <= index) {
    sums.nll.resize(index + 1);
    sums.targets.resize(index + 1);
  }
  sums.nll[index] += nll;
  sums.targets[index] += targets;
}

// Adds a segment's losses [B, T] to the sums by lane and by segment.
void add_segment(SplitResult& out, const data::TokenSegment& segment,
                 const std::vector<double>& nll) {
  const std::size_t index = out.segments.nll.size();
  add(out.segments, index, 0.0, 0);
  for (std::int64_t lane = 0; lane < segment.lanes; ++lane) {
    double sum = 0.0;
    std::int64_t targets = 0;
    for (std::int64_t i = lane * segment.length; i < (lane + 1) * segment.length; ++i) {
      if (segment.targets[static_cast<std::size_t>(i)] == data::kNoTarget) continue;
      sum += nll[static_cast<std::size_t>(i)];
      ++targets;
    }
    add(out.lanes, static_cast<std::size_t>(lane), sum, targets);
    add(out.segments, index, sum, targets);
  }
}

SplitResult evaluate(train::Trainer& trainer, const std::string& arm, data::Split split,
                     Observer& observer) {
  SplitResult out{.split = split};
  observer.on_evaluation(arm, split, trainer.runtime().evaluation_segments(split));
  eval::Options options;
  options.on_progress = [&](std::int64_t segments, std::int64_t tokens) {
    observer.on_evaluated(segments, tokens);
  };
  options.on_segment = [&](const data::TokenSegment& segment, const eval::SegmentScores& scores) {
    add_segment(out, segment, scores.nll);
  };
  out.result = trainer.evaluate(split, std::move(options));
  observer.on_done();
  return out;
}

// Trains to the end; points of the curve, the last step among them, go to `out`.
void train_arm(train::Trainer& trainer, const std::string& arm, SeedResult& out,
               Observer& observer) {
  observer.on_training(arm, out.seed, trainer.total_steps());
  trainer.run_steps([&](const run::StepReport& report, bool is_logged) {
    out.steps = report.step;
    out.tokens = report.tokens;
    out.seconds = report.seconds;
    if (is_logged || trainer.is_finished()) out.curve.push_back(report);
    observer.on_step(report);
  });
  observer.on_done();
}

// Trains and evaluates one arm from one seed; what was finished is in `out` when it throws. `first`
// is the first arm's start from this seed, made here when empty.
void measure(train::Trainer& trainer, const std::string& name, const Shared& shared,
             std::pair<std::string, Fingerprint>& first, SeedResult& out) {
  const Fingerprint start = fingerprint(trainer.runtime().model());
  if (first.second.empty()) first = {name, start};
  check_equal(first.second, first.first, start, name);
  out.initial_sha256 = digest(start);
  train_arm(trainer, name, out, shared.observer);
  for (const data::Split split : shared.splits) {
    out.splits.push_back(evaluate(trainer, name, split, shared.observer));
    if (trainer.writer() == nullptr) continue;
    trainer.writer()->append(
        run::EvalReport{.step = out.steps, .split = split, .result = out.splits.back().result});
  }
  if (trainer.writer() != nullptr) trainer.save();
}

// A run folder that does not exist yet; "" without a folder to make it in.
fs::path free_folder(const fs::path& folder, const std::string& name) {
  if (folder.empty()) return {};
  fs::path path = folder / name;
  for (int i = 2; fs::exists(path); ++i) path = folder / str(name, '-', i);
  return path;
}

// One arm from one seed. A failure is stored in the result; an exception by which an observer ends
// the comparison is passed on, and the run folder is removed, because a run without a checkpoint is
// useless.
SeedResult run(const ArmSetup& setup, std::int64_t index, const Shared& shared,
               std::pair<std::string, Fingerprint>& first) {
  config::Experiment experiment = setup.experiment;
  experiment.train.seed += static_cast<std::uint64_t>(index);
  SeedResult out{.seed = experiment.train.seed};
  const bool is_new_root = !fs::exists(shared.options.folder);
  const fs::path folder =
      free_folder(shared.options.folder, str(setup.name, "-seed", experiment.train.seed));
  try {
    train::TrainerOptions options{
        .runtime = runtime_options(shared), .folder = folder, .stream = {}};
    train::Trainer trainer(experiment, std::move(options));
    out.folder = folder;
    measure(trainer, setup.name, shared, first, out);
  } catch (const std::exception& error) {
    out.error = run::failure_of(error, str("after step ", out.steps),
                                "lower train.lanes, train.segment or the size of the memory");
  } catch (...) {
    std::error_code ignored;
    if (!out.folder.empty()) fs::remove_all(folder, ignored);
    if (!out.folder.empty() && is_new_root) fs::remove(shared.options.folder, ignored);
    throw;
  }
  shared.observer.on_result(setup.name, out);
  return out;
}

// Builds every arm once, so that an error in the last one is found before the first is trained. The
// arms, without results.
std::vector<Arm> make_arms(const std::vector<ArmSetup>& setups, const Shared& shared) {
  std::vector<Arm> arms;
  Fingerprint first;
  for (const ArmSetup& setup : setups) {
    try {
      const run::RuntimeOptions options = runtime_options(shared);
      run::check_training_fits(setup.experiment, options);
      const run::Runtime runtime(setup.experiment, options);
      const Fingerprint start = fingerprint(runtime.model());
      if (first.empty()) first = start;
      check_equal(first, setups.front().name, start, setup.name);
      arms.push_back({.name = setup.name,
                      .file = setup.file,
                      .memory = config::to_toml(setup.experiment.memory),
                      .plugins = runtime.stack().identities(),
                      .backbone_parameters = runtime.backbone_parameter_count(),
                      .memory_parameters = runtime.memory_parameter_count()});
    } catch (const Error& error) {
      throw error.with_context(setup.name);
    }
  }
  return arms;
}

Json machine(c10::Device device) {
  return {{"device", tensor::describe(device)},
          {"processor", tensor::processor_name()},
          {"threads", tensor::threads()},
          {"libtorch", tensor::torch_version()}};
}

}  // namespace

std::vector<ArmSetup> read_arms(const std::filesystem::path& experiment,
                                const std::vector<std::filesystem::path>& memories,
                                const std::vector<config::Override>& overrides) {
  if (memories.empty()) throw_usage("compare: expected at least one --memory FILE, got none");
  std::vector<std::string> names;
  for (const std::filesystem::path& memory : memories) names.push_back(memory.stem().string());
  names = distinct_names(names);
  std::vector<ArmSetup> arms;
  for (std::size_t i = 0; i < memories.size(); ++i) {
    arms.push_back({.name = names[i],
                    .file = memories[i],
                    .experiment = config::parse_experiment(experiment, overrides, memories[i])});
  }
  return arms;
}

void compare(const std::vector<ArmSetup>& arms, const Options& options, Observer& observer,
             Comparison& out) {
  if (arms.empty()) throw_usage("compare: expected at least one memory, got none");
  if (options.seeds < 1) throw_usage("compare: seeds: expected at least 1, got ", options.seeds);
  const config::Experiment& experiment = arms.front().experiment;
  Shared shared{.options = options,
                .observer = observer,
                .dataset = std::make_shared<const data::Dataset>(experiment.data),
                .loader = std::make_shared<plugin::PluginLoader>(memory::find_group),
                .splits = {}};
  shared.splits = splits_of(experiment, *shared.dataset);
  const std::vector<Arm> made = make_arms(arms, shared);

  out.file = options.experiment;
  out.experiment = config::to_toml(experiment);
  out.machine = machine(options.device);
  out.data = shared.dataset->describe();
  if (experiment.data.task == config::Task::kMotif) out.alphabet = experiment.data.motif.alphabet;
  std::vector<std::pair<std::string, Fingerprint>> starts(static_cast<std::size_t>(options.seeds));
  out.is_interrupted = true;
  for (std::size_t i = 0; i < arms.size(); ++i) {
    Arm& arm = out.arms.emplace_back(made[i]);
    try {
      for (std::int64_t seed = 0; seed < options.seeds; ++seed) {
        arm.seeds.push_back(run(arms[i], seed, shared, starts[static_cast<std::size_t>(seed)]));
      }
    } catch (...) {
      if (arm.seeds.empty()) out.arms.pop_back();  // nothing was finished of it
      throw;
    }
  }
  out.is_interrupted = false;
}

Comparison compare(const std::vector<ArmSetup>& arms, const Options& options, Observer& observer) {
  Comparison out;
  compare(arms, options, observer, out);
  return out;
}

Fingerprint fingerprint(const backbone::Model& model) {
  Fingerprint out;
  for (const backbone::Parameter& parameter : model.parameters()) {
    const at::Tensor tensor = parameter.tensor.detach().cpu().contiguous();
    Sha256 sha;
    sha.update(str(c10::toString(tensor.scalar_type()), ' ', list_text(tensor.sizes().vec()), ' '));
    sha.update(std::span(static_cast<const std::byte*>(tensor.const_data_ptr()), tensor.nbytes()));
    out.emplace_back(parameter.name, sha.hex());
  }
  return out;
}

std::string digest(const Fingerprint& fingerprint) {
  Sha256 sha;
  for (const auto& [name, hex] : fingerprint) sha.update(str(name, ' ', hex, '\n'));
  return sha.hex();
}

void check_equal(const Fingerprint& first, const std::string& first_arm, const Fingerprint& other,
                 const std::string& other_arm) {
  if (first == other) return;
  const auto [a, b] = std::ranges::mismatch(first, other);
  const std::string a_text = a == first.end() ? "no parameter" : str(a->first, ' ', a->second);
  const std::string b_text = b == other.end() ? "no parameter" : str(b->first, ' ', b->second);
  throw_run({.where = str(first_arm, " and ", other_arm),
             .failed = "their backbones do not start from the same weights, so that the memories "
                       "cannot be compared",
             .expected = a_text,
             .got = b_text,
             .hint = "give the arms the same [model] and train.seed"});
}

}  // namespace mneme::compare
