#include "host/compare/planning/scale.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "host/base/error.hpp"
#include "host/base/text.hpp"

namespace mneme::compare {
namespace {

std::int64_t nearest_whole(double value) {
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(std::llround(value)));
}

// `value` for a width that grew from `before` to `after`.
std::int64_t in_proportion(std::int64_t value, std::int64_t after, std::int64_t before) {
  return nearest_whole(static_cast<double>(value) * static_cast<double>(after) /
                       static_cast<double>(before));
}

// Even where it was: relative positions need it.
std::int64_t width_of(const config::ModelConfig& model, std::int64_t heads) {
  const std::int64_t width = in_proportion(model.width, heads, model.heads);
  return model.width % 2 == 0 ? width + width % 2 : width;
}

double layer_parameters(std::int64_t layers, std::int64_t width) {
  return static_cast<double>(layers) * static_cast<double>(width) * static_cast<double>(width);
}

// The layers that a tier names, repeated over more layers, as windows are: a hybrid keeps its shares.
void repeat_layers(const ScaleShape& shape, ArmSetup& arm) {
  const std::int64_t before = arm.experiment.model.layers;
  for (config::TierConfig& tier : arm.experiment.memory.tiers) {
    if (!tier.layers) continue;
    std::vector<std::int64_t> layers;
    for (std::int64_t layer = 0; layer < shape.layers; ++layer) {
      if (std::ranges::count(*tier.layers, layer % before) > 0) layers.push_back(layer);
    }
    tier.layers = std::move(layers);
  }
}

void apply(const ScaleShape& shape, ArmSetup& arm) {
  repeat_layers(shape, arm);
  config::Experiment& experiment = arm.experiment;
  config::ModelConfig& model = experiment.model;
  if (model.embedding == model.width) {
    model.embedding = shape.width;
    if (model.adaptive) model.adaptive->embedding = shape.width;
  }
  if (model.kv_heads > 0) model.kv_heads = model.kv_heads * shape.heads / model.heads;
  model.layers = shape.layers;
  model.heads = shape.heads;
  model.width = shape.width;
  model.ff = shape.ff;
  experiment.train.steps = shape.steps;
}

void check_arms_alike(const std::vector<ArmSetup>& arms) {
  const config::Experiment& first = arms.front().experiment;
  if (first.train.steps == 0) {
    throw_usage({.where = "--scale",
                 .failed = "the experiment gives its length in epochs, which do not grow with the "
                           "model",
                 .expected = "train.steps",
                 .got = str("train.epochs = ", first.train.epochs)});
  }
  for (const ArmSetup& arm : arms) {
    if (arm.experiment.model == first.model && arm.experiment.train.steps == first.train.steps)
      continue;
    throw_usage({.where = arm.name,
                 .failed = "--scale chooses sizes of [model] and train.steps, in which this arm "
                           "differs from the first",
                 .expected = "arms that differ in their memories",
                 .hint = "leave out the --sweep or setting"});
  }
}

}  // namespace

std::string ScaleShape::text() const {
  return str(layers, layers == 1 ? " layer" : " layers", " of width ", width, ", ", steps,
             " steps");
}

ScaleShape scaled_shape(const config::Experiment& experiment, double multiple) {
  const config::ModelConfig& model = experiment.model;
  const std::int64_t group = model.heads / model.key_heads();
  const double goal = multiple * layer_parameters(model.layers, model.width);
  const double layers = static_cast<double>(model.layers) * std::cbrt(multiple);
  const auto below = static_cast<std::int64_t>(std::floor(layers + 1e-9));
  ScaleShape out{.multiple = multiple};
  double least = std::numeric_limits<double>::infinity();
  for (const std::int64_t number : {below, below + 1}) {
    const double width = std::sqrt(goal / static_cast<double>(number));
    const double groups =
        static_cast<double>(model.key_heads()) * width / static_cast<double>(model.width);
    const std::int64_t heads = group * nearest_whole(groups);
    const double parameters = layer_parameters(number, width_of(model, heads));
    const double miss = std::abs(std::log(parameters / goal));
    if (miss >= least) continue;
    least = miss;
    out.layers = number;
    out.heads = heads;
    out.width = width_of(model, heads);
    out.reached = multiple * parameters / goal;
  }
  out.ff = in_proportion(model.ff, out.width, model.width);
  out.steps = nearest_whole(static_cast<double>(experiment.train.steps) * out.reached);
  return out;
}

std::vector<ScalePoint> scale_points(const std::vector<ArmSetup>& arms,
                                     const std::vector<double>& multiples) {
  check_arms_alike(arms);
  std::vector<ScalePoint> out;
  for (const double multiple : multiples) {
    const ScaleShape shape = scaled_shape(arms.front().experiment, multiple);
    if (!out.empty() && out.back().shape.layers == shape.layers &&
        out.back().shape.width == shape.width) {
      throw_usage(
          {.where = "--scale",
           .failed = str("the sizes ", out.back().shape.multiple, " and ", multiple,
                         " have one shape, ", shape.layers, " layers of width ", shape.width),
           .expected = "sizes that are farther apart"});
    }
    ScalePoint& point = out.emplace_back(ScalePoint{.shape = shape, .arms = arms});
    for (ArmSetup& arm : point.arms) apply(shape, arm);
  }
  return out;
}

}  // namespace mneme::compare
