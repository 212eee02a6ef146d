#include "host/checks/memory_checks.hpp"

#include <algorithm>
#include <exception>
#include <functional>
#include <optional>
#include <set>
#include <utility>

#include "host/backbone/model.hpp"
#include "host/base/error.hpp"
#include "host/base/log.hpp"
#include "host/base/process/process.hpp"
#include "host/memory/abi/groups.hpp"
#include "host/tensor/torch.hpp"
#include "host/validate/laws.hpp"

namespace mneme::checks {
namespace {

using memory::Phase;
using scores::CheckResult;
using scores::MemoryCheck;
using scores::MemoryChecks;
using validate::Session;
using validate::Trial;

constexpr std::int64_t kLanes = 3;  // each gets another text in turn
constexpr std::int64_t kSmallVocabulary = 61;
constexpr std::int64_t kFeedForward = 8;
// Losses in f64 that differ by more are different, whatever the order of sums.
constexpr double kTolerance = 1e-8;  // nats

// Extents of the texts. A memory longer than them is seen while it fills.
constexpr std::int64_t kFewestSegments = 3;
constexpr std::int64_t kMostSegments = 8;
constexpr std::int64_t kShortTokens = 64;  // segments are cut to these before there are fewer
constexpr std::int64_t kFewestTokens = 16;
// Multiply-adds, about one a parameter and token: seconds, and what is refused.
constexpr double kEnough = 2e10;
constexpr double kTooMany = 2e12;

struct Extents {
  std::int64_t length = 0;  // tokens of a segment
  std::int64_t segments = 0;
};

// Tokens that all laws of a phase read.
double tokens_of(const Extents& extents, std::size_t places) {
  const auto passes = (12 + kLanes) * extents.segments + 2 * static_cast<std::int64_t>(places);
  return static_cast<double>(kLanes * extents.length * passes);
}

// Before which tokens causality is tried.
std::vector<std::int64_t> places_of(std::int64_t length) {
  std::set<std::int64_t> places;
  for (const std::int64_t place :
       {std::int64_t{1}, length / 4 + 1, length / 2, 3 * length / 4, length - 1}) {
    if (place >= 1 && place < length) places.insert(place);
  }
  return {places.begin(), places.end()};
}

Extents extents_of(const Session& session, Phase phase, std::int64_t segment, double parameters) {
  const std::int64_t longest = session.stack.longest_segment(phase);
  Extents out{.length = longest == 0 ? segment : std::min(segment, longest)};
  const std::int64_t rows = session.stack.context_rows(phase);
  out.segments = std::clamp(rows / out.length + 2, kFewestSegments, kMostSegments);
  const auto is_too_much = [&] {
    return parameters * tokens_of(out, places_of(out.length).size()) > kEnough;
  };
  const auto shorten = [&](std::int64_t least) {
    while (is_too_much() && out.length > least) out.length = std::max(out.length / 2, least);
  };
  shorten(kShortTokens);
  while (is_too_much() && out.segments > kFewestSegments) --out.segments;
  shorten(kFewestTokens);
  return out;
}

std::int64_t parameters_of(const Session& session) {
  std::int64_t count = 0;
  for (const backbone::Parameter& one : session.model->parameters()) count += one.tensor.numel();
  for (const memory::TierParameter& one : session.stack.parameters()) count += one.tensor.numel();
  return count;
}

// Gives so many ids.
using ReadIds = std::function<at::Tensor(std::int64_t count)>;

Trial trial_of(Session& session, const Extents& extents, const ReadIds& read,
               std::int64_t vocabulary) {
  const std::int64_t row = extents.segments * extents.length + 1;
  const at::Tensor ids = read(2 * kLanes * row).view({2, kLanes, row});
  return {.session = session,
          .ids = ids[0],
          .other = ids[1],
          .vocabulary = vocabulary,
          .length = extents.length,
          .tolerance = kTolerance,
          .segments = {0, extents.segments - 1},
          .places = places_of(extents.length)};
}

// --- The three checks of a session ---

using Law = std::string (*)(const Trial& trial, Phase phase);

std::string broken_resets(const Trial& trial, Phase phase) {
  std::string problem = broken_reset(trial, phase);
  return problem.empty() ? broken_lane_reset(trial, phase) : problem;
}

std::string broken_causality_of(const Trial& trial, Phase phase) {
  return trial.places.empty() ? std::string() : broken_causality(trial, phase);  // one token
}

MemoryCheck try_law(const std::string& name, Law law, const std::vector<Trial>& trials) {
  MemoryCheck out{.name = name};
  try {
    constexpr Phase kPhases[] = {Phase::kTraining, Phase::kEvaluation};
    for (std::size_t i = 0; i < trials.size() && out.text.empty(); ++i) {
      const Phase phase = kPhases[i];
      // As the phase runs: with gradients memories may do more.
      const at::AutoGradMode grad(phase == Phase::kTraining);
      trials[i].session.model->set_context_rows(trials[i].session.stack.context_rows(phase));
      out.text = law(trials[i], phase);
    }
    if (!out.text.empty()) out.result = CheckResult::kFails;
  } catch (const std::exception& error) {
    out.result = CheckResult::kNotChecked;
    out.text = error.what();
  }
  return out;
}

void expect_finite(const std::vector<Trial>& trials) {
  const Trial& trial = trials.back();
  const at::NoGradGuard no_grad;
  memory::StackState state = trial.session.fresh(kLanes, Phase::kEvaluation);
  trial.session.model->set_context_rows(trial.session.stack.context_rows(Phase::kEvaluation));
  const at::Tensor losses = losses_of(trial.session, state, trial.ids, trial.length);
  if (!losses.isfinite().all().item<bool>()) throw_run("its losses are not finite");
}

MemoryChecks check(Session& session, const config::Experiment& experiment, const ReadIds& read,
                   std::int64_t vocabulary) {
  MemoryChecks out{.parameters = parameters_of(session)};
  const auto parameters = static_cast<double>(out.parameters);
  std::vector<Trial> trials;
  double work = 0.0;
  for (const auto& [phase, segment] : {std::pair(Phase::kTraining, experiment.train.segment),
                                       std::pair(Phase::kEvaluation, experiment.eval.segment)}) {
    const Extents extents = extents_of(session, phase, segment, parameters);
    trials.push_back(trial_of(session, extents, read, vocabulary));
    work += parameters * tokens_of(extents, trials.back().places.size());
  }
  if (work > kTooMany) {
    throw_run("a model of ", out.parameters, " parameters would take minutes");
  }
  expect_finite(trials);
  out.checks = {try_law("causality", &broken_causality_of, trials),
                try_law("reset", &broken_resets, trials),
                try_law("lanes", &validate::broken_lanes, trials)};
  return out;
}

// Calls `work`; where it fails nothing was checked, and the reason says why.
template <typename Work>
MemoryChecks or_reason(const Work& work) {
  // What plugins log was said when the run's own model was made.
  const LogListener silence([](LogLevel, std::string_view) { return false; });
  try {
    return work();
  } catch (const std::exception& error) {
    MemoryChecks out;
    for (const char* const name : {"causality", "reset", "lanes"}) {
      out.checks.push_back(
          {.name = name, .result = CheckResult::kNotChecked, .text = error.what()});
    }
    return out;
  }
}

Session session_of(const config::Experiment& experiment, std::int64_t vocabulary,
                   bool draws_parameters) {
  backbone::ModelSetup setup =
      run::model_setup(experiment, vocabulary, config::Precision::kF64, c10::kCPU);
  setup.draws_parameters = draws_parameters;
  return {experiment.model, setup, experiment.memory, memory::find_group};
}

// The model in f64 beside the run's own.
void check_memory(std::int64_t parameters) {
  const std::optional<FreeMemory> free = free_memory();
  const std::int64_t bytes = 2 * static_cast<std::int64_t>(sizeof(double)) * parameters;
  if (!free || bytes <= free->bytes) return;
  throw_run("a model of ", parameters, " parameters in f64 needs more than the ", free->bytes,
            " bytes that are free here");
}

void copy_weights(const run::Runtime& from, Session& to) {
  const at::NoGradGuard no_grad;
  const auto copy = [](const auto& sources, auto targets) {
    for (std::size_t i = 0; i < targets.size(); ++i) {
      targets[i].tensor.copy_(sources.at(i).tensor);
    }
  };
  copy(from.model().parameters(), to.model->parameters());
  copy(from.stack().parameters(), to.stack.parameters());
  to.stack.weights_changed();
  to.model->weights_changed();
}

at::Tensor repeated(const std::vector<std::int64_t>& text, std::int64_t count) {
  std::vector<std::int64_t> ids(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = text[i % text.size()];
  return at::tensor(ids, at::kLong);
}

// The ids of a split in their order; a text that is too short is read again.
at::Tensor read_split(const data::Dataset& dataset, data::Split split, std::int64_t segment,
                      std::int64_t count) {
  const auto stream = dataset.make_stream(split, {.lanes = 1, .segment = segment});
  std::vector<std::int64_t> ids;
  data::TokenSegment one;
  while (static_cast<std::int64_t>(ids.size()) < count && stream->next(one)) {
    ids.insert(ids.end(), one.inputs.begin(), one.inputs.begin() + one.valid.front());
  }
  if (static_cast<std::int64_t>(ids.size()) < count) throw_run("its data ended");
  ids.resize(static_cast<std::size_t>(count));
  return at::tensor(ids, at::kLong);
}

data::Split split_of(const data::Dataset& dataset) {
  for (const data::Split split : {data::Split::kValid, data::Split::kTest}) {
    if (dataset.has(split)) return split;
  }
  return data::Split::kTrain;
}

}  // namespace

MemoryChecks check_untrained(const config::Experiment& experiment) {
  return or_reason([&] {
    config::Experiment small = experiment;
    small.model.adaptive.reset();  // its clusters belong to the vocabulary
    small.model.ff = std::min(small.model.ff, kFeedForward);
    Session session = session_of(small, kSmallVocabulary, true);
    std::uint64_t seed = experiment.train.seed;
    return check(
        session, small,
        [&](std::int64_t count) {
          return validate::random_ids(seed++, 1, count, kSmallVocabulary);
        },
        kSmallVocabulary);
  });
}

MemoryChecks check_trained(const run::Runtime& runtime, std::int64_t step,
                           const std::vector<std::int64_t>& text) {
  MemoryChecks out = or_reason([&] {
    const config::Experiment& experiment = runtime.experiment();
    const data::Dataset& dataset = *runtime.dataset();
    check_memory(runtime.backbone_parameter_count() + runtime.memory_parameter_count());
    Session session = session_of(experiment, dataset.vocabulary_size(), false);
    copy_weights(runtime, session);
    const data::Split split = split_of(dataset);
    return check(
        session, experiment,
        [&](std::int64_t count) {
          return text.empty() ? read_split(dataset, split, experiment.eval.segment, count)
                              : repeated(text, count);
        },
        dataset.vocabulary_size());
  });
  out.step = step;
  return out;
}

}  // namespace mneme::checks
