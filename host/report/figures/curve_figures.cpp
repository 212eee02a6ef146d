// Numbers over the steps of training: losses, evaluations, and what tiers report of themselves.
#include <algorithm>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>

#include "host/report/figures/figure.hpp"

namespace mneme::report {
namespace {

constexpr std::size_t kMaxPoints = 200;  // of a curve; more are averaged

// [step] -> the numbers of the seeds.
using Steps = std::map<std::int64_t, std::vector<double>>;
using Collect = std::function<void(const Run&, Steps&)>;

// Neighbouring steps averaged until few enough are left: x is the last step of each group.
Json points_of(const std::string& arm, const Steps& steps) {
  const std::size_t group = (steps.size() + kMaxPoints - 1) / kMaxPoints;
  Json values = Json::array();
  Band sum;
  std::size_t count = 0;
  std::size_t left = steps.size();
  for (const auto& [step, numbers] : steps) {
    --left;
    if (const auto band = band_of(numbers)) {
      sum.mean += band->mean;
      sum.low += band->low;
      sum.high += band->high;
      ++count;
    }
    if (count == 0 || (count < group && left > 0)) continue;
    const auto of = static_cast<double>(count);
    values.push_back({{"arm", arm},
                      {"x", step},
                      {"mean", sum.mean / of},
                      {"low", sum.low / of},
                      {"high", sum.high / of}});
    sum = {};
    count = 0;
  }
  return values;
}

// The points of all arms; empty when no arm has two.
Json curves(const Comparison& comparison, const Collect& collect) {
  Json values = Json::array();
  bool has_line = false;
  for (const Arm& arm : comparison.arms) {
    Steps steps;
    for (const Run& run : arm.runs) collect(run, steps);
    const Json points = points_of(arm.name, steps);
    has_line = has_line || points.size() > 1;
    values.insert(values.end(), points.begin(), points.end());
  }
  return has_line ? values : Json::array();
}

// Dragging moves the figure, Ctrl and the wheel zoom, a double click resets.
void add_zoom(Json& layers) {
  layers.back()["params"] =
      Json::array({{{"name", "zoom"},
                    {"select", {{"type", "interval"}, {"zoom", "wheel![event.ctrlKey]"}}},
                    {"bind", "scales"}}});
}

Json spec_of(const Comparison& comparison, Json values, const std::string& what, bool has_points) {
  const Json tooltip =
      Json::array({tip("arm", "arm"), tip("x", "step", "d"), tip("mean", what, ".5~g"),
                   tip("low", "lowest seed", ".5~g"), tip("high", "highest seed", ".5~g")});
  Json layers = line_layers(comparison,
                            axis_channel({.field = "x", .title = "training step", .format = ",d"}),
                            axis_channel({.field = "mean", .title = what}), has_points, tooltip);
  add_zoom(layers);
  return layered(std::move(values), std::move(layers), 320);
}

constexpr const char* kZoomWords =
    "Drag moves, Ctrl and the wheel zoom, a double click shows all again.";

// Targets of the part on which the curves are measured; 0 = there are no curves.
std::int64_t curve_targets(const Comparison& comparison) {
  for (const auto& [arm, run] : runs_of(comparison)) {
    if (!run.curve.empty()) return run.curve.back().targets;
  }
  return 0;
}

void add_learning_curves(const Comparison& comparison, std::vector<Figure>& out) {
  Json values = curves(comparison, [](const Run& run, Steps& steps) {
    for (const CurvePoint& point : run.curve) steps[point.step].push_back(point.loss);
  });
  if (values.empty()) return;
  const auto targets = static_cast<double>(curve_targets(comparison));
  out.push_back({.key = "learning-curves",
                 .section = "training",
                 .title = "Loss on held-out data while training",
                 .caption = str("The first ", grouped_number(targets),
                                " targets of valid, from an empty memory. ", band_words(comparison),
                                kZoomWords),
                 .spec = spec_of(comparison, std::move(values),
                                 "loss on a part of valid, nats a token", true)});
}

void add_evaluations(const Comparison& comparison, std::vector<Figure>& out) {
  std::set<std::string> splits;
  for (const auto& [arm, run] : runs_of(comparison)) {
    for (const EvaluationPoint& point : run.while_training) splits.insert(point.split);
  }
  for (const std::string& split : splits) {
    Json values = curves(comparison, [&](const Run& run, Steps& steps) {
      for (const EvaluationPoint& point : run.while_training) {
        if (point.split == split) steps[point.step].push_back(point.loss);
      }
    });
    if (values.empty()) continue;
    out.push_back({.key = "evaluations-" + split,
                   .section = "training",
                   .title = str("Loss on ", split, " while training"),
                   .caption = band_words(comparison),
                   .hint = kZoomWords,
                   .spec = spec_of(comparison, std::move(values),
                                   str("loss on ", split, ", nats a token"), true)});
  }
}

}  // namespace

void add_curve_figures(const Comparison& comparison, std::vector<Figure>& out) {
  std::size_t most = 0;
  Json values = curves(comparison, [&](const Run& run, Steps& steps) {
    for (const TrainingPoint& point : run.training) steps[point.step].push_back(point.loss);
    most = std::max(most, steps.size());
  });
  if (!values.empty()) {
    std::string caption = "Means over the steps between two points. " + band_words(comparison);
    if (most > kMaxPoints) caption += " Neighbouring steps are averaged.";
    out.push_back(
        {.key = "training-loss",
         .section = "training",
         .title = "Training loss",
         .caption = caption,
         .hint = kZoomWords,
         .spec = spec_of(comparison, std::move(values), "training loss, nats a token", false)});
  }
  add_learning_curves(comparison, out);
  add_evaluations(comparison, out);
}

void add_diagnostic_figures(const Comparison& comparison, std::vector<Figure>& out) {
  struct Kind {
    std::map<std::string, double> TrainingPoint::*numbers;
    const char* key;
    const char* words;
  };
  for (const Kind& kind : {Kind{&TrainingPoint::losses, "auxiliary-", "Auxiliary loss "},
                           Kind{&TrainingPoint::metrics, "metric-", "Metric "}}) {
    std::set<std::string> names;
    for (const auto& [arm, run] : runs_of(comparison)) {
      for (const TrainingPoint& point : run.training) {
        for (const auto& [name, value] : point.*kind.numbers) names.insert(name);
      }
    }
    for (const std::string& name : names) {
      Json values = curves(comparison, [&](const Run& run, Steps& steps) {
        for (const TrainingPoint& point : run.training) {
          const auto found = (point.*kind.numbers).find(name);
          if (found != (point.*kind.numbers).end()) steps[point.step].push_back(found->second);
        }
      });
      if (values.empty()) continue;
      out.push_back({.key = kind.key + name,
                     .section = "diagnostics",
                     .title = kind.words + name,
                     .caption = "Mean over the segments of the step, as the tier reports it. " +
                                band_words(comparison),
                     .spec = spec_of(comparison, std::move(values),
                                     name.substr(name.rfind('.') + 1), false)});
    }
  }
}

}  // namespace mneme::report
