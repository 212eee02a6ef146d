#include "host/run/try_memory.hpp"

#include <algorithm>
#include <utility>

#include "host/memory/abi/groups.hpp"
#include "host/run/cost/ram_check.hpp"
#include "host/run/runtime.hpp"

namespace mneme::run {
namespace {

constexpr std::int64_t kSegments = 2;  // the second one finds what the first one left
constexpr std::int64_t kLanes = 2;
constexpr std::int64_t kFeedForward = 8;

config::Experiment small_experiment(config::Experiment experiment) {
  experiment.data = {};
  experiment.data.task = config::Task::kMotif;
  experiment.model.adaptive.reset();  // its clusters belong to the vocabulary
  experiment.model.ff = std::min(experiment.model.ff, kFeedForward);
  experiment.eval.lanes = std::min(experiment.eval.lanes, kLanes);
  experiment.eval.steps = kSegments;
  return experiment;
}

}  // namespace

TriedMemory try_memory(const config::Experiment& experiment, c10::Device device,
                       std::shared_ptr<plugin::PluginLoader> loader, FreeMemorySource free_memory) {
  const config::Experiment small = small_experiment(experiment);
  RuntimeOptions options;
  options.device = device;
  options.precision = experiment.eval.precision;
  options.dataset = std::make_shared<const data::Dataset>(small.data);
  options.loader =
      loader ? std::move(loader) : std::make_shared<plugin::PluginLoader>(memory::make_loader());
  options.free_memory = std::move(free_memory);
  check_evaluation_fits(small, options, {.is_trial = true});
  Runtime runtime(small, options);
  TriedMemory tried{.plugins = runtime.stack().identities()};
  tried.segments = runtime.evaluation_segments(data::Split::kValid);
  static_cast<void>(runtime.evaluate_split(data::Split::kValid));
  return tried;
}

}  // namespace mneme::run
