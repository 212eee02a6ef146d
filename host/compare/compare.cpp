#include "host/compare/compare.hpp"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "host/base/error.hpp"
#include "host/compare/fingerprint.hpp"
#include "host/train/device.hpp"
#include "host/train/session.hpp"

namespace mneme::compare {
namespace {

// What all arms share.
struct Shared {
  const Options& options;
  Observer& observer;
  std::shared_ptr<const data::Dataset> dataset;
  std::shared_ptr<memory::PluginLoader> loader;
  std::vector<data::Split> splits;
};

train::RuntimeOptions runtime_options(const Shared& shared) {
  return {.device = shared.options.device,
          .precision = std::nullopt,
          .dataset = shared.dataset,
          .loader = shared.loader};
}

// The splits to measure on: generated tasks have every split, of which valid is enough.
std::vector<data::Split> splits_of(const config::Experiment& experiment,
                                   const data::Dataset& dataset) {
  std::vector<data::Split> splits;
  if (dataset.has(data::Split::kValid)) splits.push_back(data::Split::kValid);
  if (!experiment.data.test.empty()) splits.push_back(data::Split::kTest);
  if (splits.empty()) {
    throw_usage({.where = "data.valid",
                 .failed = "there is nothing to compare on",
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
void add_segment(SplitResult& out, const data::Segment& segment, const std::vector<double>& nll) {
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

SplitResult evaluate(train::Session& session, const std::string& arm, data::Split split,
                     Observer& observer) {
  SplitResult out{.split = split};
  observer.on_evaluation(arm, split, session.runtime().evaluation_segments(split));
  eval::Options options;
  options.on_progress = [&](std::int64_t segments, std::int64_t tokens) {
    observer.on_evaluated(segments, tokens);
  };
  options.on_segment = [&](const data::Segment& segment, const std::vector<double>& nll) {
    add_segment(out, segment, nll);
  };
  out.result = session.evaluate(split, std::move(options));
  observer.on_done();
  return out;
}

// Trains to the end; points of the curve go to `out` and, with a folder, to its metrics.
void train_arm(train::Session& session, const std::string& arm, SeedResult& out, Observer& observer) {
  const std::int64_t every = session.experiment().train.log_every;
  observer.on_training(arm, out.seed, session.total_steps());
  train::StepReport report;
  while (session.step() < session.total_steps()) {
    report = session.train_step();
    const bool is_last = report.step == session.total_steps();
    if (is_last || (every > 0 && report.step % every == 0)) {
      out.curve.push_back(report);
      if (session.writer() != nullptr) session.writer()->append(report);
    }
    observer.on_step(report);
  }
  observer.on_done();
  out.steps = report.step;
  out.tokens = report.tokens;
  out.seconds = report.seconds;
}

// One arm from one seed. `first` is the first arm's start from this seed, made here when empty.
SeedResult run(const ArmSetup& setup, std::int64_t index, const Shared& shared, Arm& arm,
               std::pair<std::string, Fingerprint>& first) {
  config::Experiment experiment = setup.experiment;
  experiment.train.seed += static_cast<std::uint64_t>(index);
  train::SessionOptions options{.runtime = runtime_options(shared), .folder = {}, .stream = {}};
  if (!shared.options.folder.empty()) {
    options.folder = shared.options.folder / str(setup.name, "-seed", experiment.train.seed);
  }
  train::Session session(experiment, std::move(options));
  const Fingerprint start = fingerprint(session.runtime().model());
  if (first.second.empty()) first = {setup.name, start};
  check_equal(first.second, first.first, start, setup.name);

  arm.plugins = session.runtime().stack().identities();
  arm.backbone_parameters = session.runtime().backbone_parameter_count();
  arm.memory_parameters = session.runtime().memory_parameter_count();
  SeedResult out{.seed = experiment.train.seed, .initial_sha256 = digest(start)};
  train::RunWriter* const writer = session.writer();
  train_arm(session, setup.name, out, shared.observer);
  for (const data::Split split : shared.splits) {
    out.splits.push_back(evaluate(session, setup.name, split, shared.observer));
    if (writer != nullptr) {
      writer->append(
          train::EvalReport{.step = out.steps, .split = split, .result = out.splits.back().result});
    }
  }
  if (writer != nullptr) session.save();
  return out;
}

// Builds every arm once, so that a flaw of the last one shows before the first has trained.
void check_arms(const std::vector<ArmSetup>& setups, const Shared& shared) {
  for (const ArmSetup& setup : setups) {
    try {
      const train::Runtime runtime(setup.experiment, runtime_options(shared));
    } catch (const Error& error) {
      throw error.with_context(setup.name);
    }
  }
}

Json machine(c10::Device device) {
  return {{"device", train::describe(device)},
          {"processor", train::processor_name()},
          {"threads", train::threads()},
          {"libtorch", train::torch_version()}};
}

}  // namespace

std::vector<ArmSetup> read_arms(const std::filesystem::path& experiment,
                                const std::vector<std::filesystem::path>& memories,
                                const std::vector<config::Override>& overrides) {
  if (memories.empty()) throw_usage("compare: expected at least one --memory FILE, got none");
  std::vector<ArmSetup> arms;
  for (const std::filesystem::path& memory : memories) {
    const std::string stem = memory.stem().string();
    std::string name = stem;
    for (int i = 2; std::ranges::find(arms, name, &ArmSetup::name) != arms.end(); ++i) {
      name = str(stem, '#', i);
    }
    arms.push_back({.name = name,
                    .file = memory,
                    .experiment = config::parse_experiment(experiment, overrides, memory)});
  }
  return arms;
}

Comparison compare(const std::vector<ArmSetup>& arms, const Options& options, Observer& observer) {
  if (arms.empty()) throw_usage("compare: expected at least one memory, got none");
  if (options.seeds < 1) throw_usage("compare: seeds: expected at least 1, got ", options.seeds);
  const config::Experiment& experiment = arms.front().experiment;
  Shared shared{.options = options,
                .observer = observer,
                .dataset = std::make_shared<const data::Dataset>(experiment.data),
                .loader = std::make_shared<memory::PluginLoader>(),
                .splits = {}};
  shared.splits = splits_of(experiment, *shared.dataset);
  check_arms(arms, shared);

  Comparison out;
  out.file = options.experiment;
  out.experiment = config::to_toml(experiment);
  out.machine = machine(options.device);
  out.data = shared.dataset->describe();
  if (experiment.data.task == config::Task::kMotif) out.alphabet = experiment.data.motif.alphabet;
  std::vector<std::pair<std::string, Fingerprint>> starts(static_cast<std::size_t>(options.seeds));
  for (const ArmSetup& setup : arms) {
    Arm arm{.name = setup.name, .file = setup.file};
    arm.memory = config::to_toml(setup.experiment.memory);
    for (std::int64_t seed = 0; seed < options.seeds; ++seed) {
      try {
        arm.seeds.push_back(run(setup, seed, shared, arm, starts[static_cast<std::size_t>(seed)]));
      } catch (const Error& error) {
        throw error.with_context(setup.name);
      }
    }
    out.arms.push_back(std::move(arm));
  }
  return out;
}

}  // namespace mneme::compare
