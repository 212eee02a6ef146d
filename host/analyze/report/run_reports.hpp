// Measurements over several runs or sizes as files, a CSV each, a Vega-Lite specification of its
// numbers, and a page with the figures: regression errors, losses by memory size, attention by
// distance.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "host/analyze/measures/regression.hpp"
#include "host/backbone/attention/positions.hpp"
#include "host/base/text.hpp"
#include "host/eval/result.hpp"

namespace mneme::analyze {

// What was measured with one memory, one number of rows, one kind of rows and one value.
struct MeasuredRegression {
  std::string memory;     // its name
  std::int64_t rows = 0;  // of a segment
  std::string source;     // the kind of rows
  std::string value;      // of the option, as TOML; "" = as the memory's file has it
  RegressionResult result;
};

// Writes into a folder that exists and returns the files' names:
//
//   regression.csv, .vl.json  memory, rows, source, <option>, error
//   ageing.csv, .vl.json      memory, rows, source, <option>, age, points, correlation, error; left
//                             out when no age was measured
//   regression.html           both figures
//
// `option` is the name of what the values are of. Error (kRun) when a file cannot be written.
std::vector<std::string> write_regression(const std::filesystem::path& folder,
                                          const std::string& option,
                                          const std::vector<MeasuredRegression>& measured);

// The same numbers.
[[nodiscard]] Json to_json(const std::string& option,
                           const std::vector<MeasuredRegression>& measured);

// --- Losses by memory size as a CSV and a figure ---

// One memory of one size.
struct SizedResult {
  std::string memory;
  std::int64_t multiple = 0;  // of the segment; 0 = a memory without a size
  eval::Result result;
};

// extrapolation.csv: memory, multiple, segment, context_rows, tokens, loss, perplexity.
// extrapolation.vl.json, .html: perplexity by multiple, a curve a memory [LaMemo, fig. 5]. Returns
// the names of the files. Error (kRun) when they cannot be written.
std::vector<std::string> write_extrapolation(const std::filesystem::path& folder,
                                             const std::vector<SizedResult>& results);

// --- Attention by distance as a CSV and a figure ---

// What was measured of one memory.
struct DistanceResult {
  std::string name;
  std::map<std::int64_t, backbone::AttentionByDistance::Layer> layers;
};

// distance.csv: memory, layer, from, to (distances of an interval), weight, tokens; intervals that
// no token saw whole are left out. distance.vl.json, .html: a panel a layer, a curve a memory,
// decades. Returns the names of the files. Error (kRun) when they cannot be written.
std::vector<std::string> write_distances(const std::filesystem::path& folder,
                                         const std::vector<DistanceResult>& subjects,
                                         const backbone::DistanceSettings& settings);

[[nodiscard]] Json to_json(const DistanceResult& subject);

}  // namespace mneme::analyze
