#include <cmath>
#include <nlohmann/json.hpp>

#include "host/base/text.hpp"
#include "host/compare/comparison.hpp"
#include "host/run/run_folder.hpp"
#include "mneme/abi.h"

namespace mneme::compare {
namespace {

// JSON has no NaN.
Json numbers(const std::vector<double>& values) {
  Json list = Json::array();
  for (const double value : values) list.push_back(number_or_null(value));
  return list;
}

Json json_of(const NllSums& sums) {
  return {{"nll", numbers(sums.nll)}, {"targets", sums.targets}};
}

Json json_of(const SeedResult& seed) {
  Json curve = Json::array();
  for (const run::StepReport& report : seed.curve) curve.push_back(run::to_json(report));
  Json splits = Json::object();
  for (const SplitResult& split : seed.splits) {
    splits[std::string(data::to_word(split.split))] = {{"result", eval::to_json(split.result)},
                                                       {"lanes", json_of(split.lanes)},
                                                       {"segments", json_of(split.segments)}};
  }
  Json json = {{"seed", seed.seed},         {"initial_sha256", seed.initial_sha256},
               {"steps", seed.steps},       {"tokens", seed.tokens},
               {"seconds", seed.seconds},   {"tokens_per_second", number_or_null(seed.tokens_per_second())},
               {"curve", std::move(curve)}, {"splits", std::move(splits)}};
  if (!seed.folder.empty()) json["run"] = seed.folder.string();
  if (seed.error) {
    json["error"] = {{"message", seed.error->what()}, {"exit_code", seed.error->exit_code()}};
  }
  return json;
}

Json json_of(const Arm& arm) {
  Json plugins = Json::array();
  for (const memory::TierIdentity& plugin : arm.plugins) plugins.push_back(run::to_json(plugin));
  Json seeds = Json::array();
  for (const SeedResult& seed : arm.seeds) seeds.push_back(json_of(seed));
  return {{"name", arm.name},
          {"file", arm.file.string()},
          {"memory", arm.memory},
          {"plugins", std::move(plugins)},
          {"backbone_parameters", arm.backbone_parameters},
          {"memory_parameters", arm.memory_parameters},
          {"seeds", std::move(seeds)}};
}

Json json_of(const Metric& metric, const std::vector<Arm>& arms) {
  Json columns = Json::object();
  for (std::size_t i = 0; i < arms.size(); ++i) {
    const Spread of = spread(metric.values[i]);
    Json column = {{"values", numbers(metric.values[i])},
                   {"mean", number_or_null(of.mean)},
                   {"deviation", number_or_null(of.deviation)}};
    if (i > 0 && metric.against != Metric::Against::kNothing) {
      const bool is_ratio = metric.against == Metric::Against::kRatio;
      column[is_ratio ? "ratio_to_first" : "difference_to_first"] =
          numbers(against_first(metric, i));
    }
    columns[arms[i].name] = std::move(column);
  }
  return {{"name", metric.name}, {"arms", std::move(columns)}};
}

}  // namespace

Json to_json(const Comparison& comparison) {
  Json arms = Json::array();
  for (const Arm& arm : comparison.arms) arms.push_back(json_of(arm));
  Json table = Json::array();
  for (const Metric& metric : metrics(comparison)) {
    table.push_back(json_of(metric, comparison.arms));
  }
  Json json = {{"format", "mneme-comparison"},
               {"revision", 1},
               {"mneme", MNEME_SDK_VERSION},
               {"experiment_file", comparison.file.string()},
               {"experiment", comparison.experiment},
               {"machine", comparison.machine},
               {"data", comparison.data},
               {"interrupted", comparison.is_interrupted}};
  if (comparison.alphabet > 0) json["chance"] = comparison.chance();
  json["arms"] = std::move(arms);
  json["table"] = std::move(table);
  return json;
}

}  // namespace mneme::compare
