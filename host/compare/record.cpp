// comparison.json.
#include <algorithm>
#include <array>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

#include "host/compare/runs.hpp"
#include "host/run/host_commit.hpp"
#include "host/run/run_description.hpp"
#include "mneme/abi.h"

namespace mneme::compare {
namespace {

// Of the values of RunRecord::State.
constexpr std::array kStateWords = {"waiting", "running", "done", "failed"};

Json json_of(const RunRecord& run) {
  // A comparison that is begun again and killed keeps what it had.
  const RunRecord::State state = run.is_done() ? RunRecord::State::kDone : run.state;
  Json json = {{"seed", run.seed},
               {"folder", run.folder},
               {"state", kStateWords.at(static_cast<std::size_t>(state))}};
  if (!run.initial_sha256.empty()) json["initial_sha256"] = run.initial_sha256;
  if (run.state == RunRecord::State::kFailed)
    json["error"] = {{"message", run.error}, {"exit_code", run.exit_code}};
  return json;
}

Json json_of(const memory::ReplacedLayers& layers) {
  Json json = Json::array();
  for (const auto& [layer, kept] : layers) {
    json.push_back({{"layer", layer},
                    {"queries", kept.queries},
                    {"keys", kept.keys},
                    {"values", kept.values},
                    {"output", kept.output},
                    {"key_width", kept.key_width},
                    {"value_width", kept.value_width}});
  }
  return json;
}

Json json_of(const ArmRecord& arm) {
  Json runs = Json::array();
  for (const RunRecord& run : arm.runs) runs.push_back(json_of(run));
  Json json = {{"name", arm.setup.name},
               {"file", arm.setup.file.string()},
               {"overrides", arm.setup.settings},
               {"memory", config::to_toml(arm.setup.experiment.memory)},
               {"plugins", run::to_json(arm.plugins)},
               {"backbone_parameters", arm.backbone_parameters},
               {"memory_parameters", arm.memory_parameters},
               {"flops", arm.flops},
               {"checks", scores::to_json(arm.checks)},
               {"curve", {{"every", arm.curve.every}, {"segments", arm.curve.segments}}},
               {"runs", std::move(runs)}};
  if (!arm.setup.variant_of.empty()) json["variant_of"] = arm.setup.variant_of;
  if (!arm.replaced.empty()) json["replaced_layers"] = json_of(arm.replaced);
  if (!arm.runs_of.empty()) json["runs_of"] = arm.runs_of;
  if (arm.stop_at > 0) json["stop_at"] = arm.stop_at;
  return json;
}

}  // namespace

bool Record::has_failures() const {
  return std::ranges::any_of(arms, [](const ArmRecord& arm) {
    return std::ranges::any_of(
        arm.runs, [](const RunRecord& run) { return run.state == RunRecord::State::kFailed; });
  });
}

std::int64_t Record::count_runs() const {
  std::int64_t count = 0;
  for (const ArmRecord& arm : arms) count += has_work(arm) ? std::ssize(arm.runs) : 0;
  return count;
}

bool has_work(const ArmRecord& arm) {
  return arm.setup.refused.empty() && arm.runs_of.empty() && !arm.is_at_rest;
}

void copy_shared_runs(Record& record) {
  for (ArmRecord& arm : record.arms) {
    if (arm.runs_of.empty()) continue;
    arm.runs = std::ranges::find(record.arms, arm.runs_of, [](const ArmRecord& one) {
                 return one.setup.name;
               })->runs;
    for (RunRecord& run : arm.runs) run.arm = arm.setup.name;
  }
}

Json to_json(const Record& record) {
  Json splits = Json::array(), arms = Json::array();
  for (const data::Split split : record.splits) splits.push_back(data::to_word(split));
  for (const ArmRecord& arm : record.arms) arms.push_back(json_of(arm));
  Json json = {{"format", "mneme-comparison"},
               {"version", 1},
               {"mneme", MNEME_SDK_VERSION},
               {"commit", run::host_commit()},
               {"command", record.command},
               {"experiment_file", record.file.string()},
               {"experiment", record.experiment},
               {"machine", record.machine},
               {"data", record.data},
               {"initial_weights", record.initial_weights},
               {"splits", std::move(splits)},
               {"seeds", record.seeds},
               {"arms", std::move(arms)}};
  if (!record.tuning.is_null()) json["tuning"] = record.tuning;
  if (record.looks) json[scores::kLooksKey] = scores::to_json(*record.looks);
  return json;
}

}  // namespace mneme::compare
