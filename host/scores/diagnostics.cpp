#include "host/scores/diagnostics.hpp"

#include <limits>
#include <nlohmann/json.hpp>

#include "host/base/json_text.hpp"
#include "host/scores/json_record.hpp"

namespace mneme::scores {
namespace {

namespace fs = std::filesystem;

constexpr RecordKind kDiagnosticsKind{
    .format = "mneme-diagnostics",
    .version = 1,
    .words = "the stored diagnostics",
    .remedy = "make them again: mneme analyze RUN --for-report N"};

Json json_of(const std::vector<LayerValues>& all) {
  Json out = Json::array();
  for (const LayerValues& one : all) {
    Json values = Json::array();
    for (const double value : one.values) values.push_back(number_or_null(value));
    out.push_back({{"tier", one.tier}, {"layer", one.layer}, {"values", std::move(values)}});
  }
  return out;
}

std::vector<LayerValues> read_values(const Json& json) {
  std::vector<LayerValues> out;
  for (const Json& one : json) {
    LayerValues& layer = out.emplace_back();
    layer.tier = one.at("tier").get<std::string>();
    layer.layer = json_integer(one.at("layer"));
    for (const Json& value : one.at("values")) {
      layer.values.push_back(value.is_null() ? std::numeric_limits<double>::quiet_NaN()
                                             : value.get<double>());
    }
  }
  return out;
}

}  // namespace

fs::path diagnostics_file(const fs::path& run_folder, const std::string& evaluation_name) {
  return run_folder / kDiagnosticsFolder / (evaluation_name + ".json");
}

fs::path write_diagnostics(const fs::path& run_folder, const EvaluationName& name,
                           const Diagnostics& diagnostics, const Json& info) {
  const fs::path file = diagnostics_file(run_folder, to_text(name));
  Json regions = Json::array();
  for (const LayerRegions& one : diagnostics.regions) {
    regions.push_back({{"tier", one.tier}, {"layer", one.layer}, {"shares", one.shares}});
  }
  Json json = {{"evaluation", to_text(name)},
               {"split", name.split},
               {"step", name.step},
               {"segments_wanted", diagnostics.segments_wanted},
               {"segments", diagnostics.segments},
               {"lanes", diagnostics.lanes},
               {"distance_width", diagnostics.distance_width},
               {"distance", json_of(diagnostics.distance)},
               {"density", json_of(diagnostics.density)},
               {"stretch", diagnostics.stretch},
               {"age", json_of(diagnostics.age)},
               {"alpha", json_of(diagnostics.alpha)},
               {"regions", std::move(regions)}};
  json.update(info);
  write_record(file, kDiagnosticsKind, json);
  return file;
}

Diagnostics read_diagnostics(const fs::path& file) {
  const Json json = read_record(file, kDiagnosticsKind);
  try {
    Diagnostics out{.segments_wanted = json_integer(json.at("segments_wanted")),
                    .segments = json_integer(json.at("segments")),
                    .lanes = json_integer(json.at("lanes")),
                    .distance_width = json_integer(json.at("distance_width")),
                    .distance = read_values(json.at("distance")),
                    .density = read_values(json.at("density")),
                    .stretch = json_integer(json.at("stretch")),
                    .age = read_values(json.at("age")),
                    .alpha = read_values(json.at("alpha"))};
    for (const Json& one : json.at("regions")) {
      out.regions.push_back({.tier = one.at("tier").get<std::string>(),
                             .layer = json_integer(one.at("layer")),
                             .shares = one.at("shares").get<std::array<double, 3>>()});
    }
    return out;
  } catch (const Json::exception& error) {
    fail_record(file, kDiagnosticsKind, "the keys of docs/runs.md", error.what());
  }
}

}  // namespace mneme::scores
