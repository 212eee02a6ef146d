// An estimate as JSON, and the backbone without storage (footprint.hpp).
#include <nlohmann/json.hpp>
#include <utility>

#include "host/run/cost/footprint.hpp"
#include "host/run/runtime.hpp"
#include "host/tensor/torch.hpp"

namespace mneme::run {

Json to_json(const Footprint& estimate) {
  Json uses = Json::array();
  for (const FootprintPart& use : estimate.uses) {
    uses.push_back({{"name", use.name}, {"bytes", use.bytes}, {"formula", use.formula}});
  }
  return {{"bytes", estimate.total()}, {"uses", std::move(uses)}};
}

std::vector<backbone::Parameter> backbone_outline(const config::Experiment& experiment,
                                                  std::int64_t vocabulary) {
  const backbone::ModelSetup setup =
      model_setup(experiment, vocabulary, experiment.train.precision, c10::kMeta);
  return backbone::make_model(experiment.model, setup)->parameters();
}

}  // namespace mneme::run
