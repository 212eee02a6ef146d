// Measures of a memory on a few segments of a split, kept for reports. docs/runs.md, "Diagnostics",
// describes the file; host/analyze/run_diagnostics.hpp makes them.
//
//   RUN/diagnostics/<name of the evaluation of these weights>.json
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "host/base/text.hpp"
#include "host/scores/evaluation_files.hpp"

namespace mneme::scores {

// Values of one layer of a tier, or of the model, by place.
struct LayerValues {
  std::string tier = {};  // "<index>.<plugin id>"; "" = of the model
  std::int64_t layer = 0;
  std::vector<double> values = {};  // NaN = nothing was seen there
};

// Shares of a layer's attention.
struct LayerRegions {
  std::string tier = {};
  std::int64_t layer = 0;
  std::array<double, 3> shares = {};  // compressed memory, memory rows, segment
};

struct Diagnostics {
  std::int64_t segments_wanted = 0;
  std::int64_t segments = 0;  // measured
  std::int64_t lanes = 0;
  // The mean over tokens and heads of the largest weight that a token gives to a place of an
  // interval; interval n holds the distances n * distance_width + 1 .. (n + 1) * distance_width.
  std::int64_t distance_width = 0;
  std::vector<LayerValues> distance = {};
  std::vector<LayerValues> density = {};  // mass by bin of [0,1] of a continuous memory
  // Of a continuous memory: the share that tokens have that are n * stretch .. (n+1) * stretch - 1
  // tokens old.
  std::int64_t stretch = 0;
  std::vector<LayerValues> age = {};
  std::vector<LayerValues> alpha = {};  // weight of what a row carries, by row, oldest first
  std::vector<LayerRegions> regions = {};
};

inline constexpr std::string_view kDiagnosticsFolder = "diagnostics";  // in a run's folder

[[nodiscard]] std::filesystem::path diagnostics_file(const std::filesystem::path& run_folder,
                                                     const std::string& evaluation_name);
// Writes them in place of those of the same name; the file. `info`: further keys, of the program
// that measured. Error (kRun) when it cannot be written; what was there stays.
std::filesystem::path write_diagnostics(const std::filesystem::path& run_folder,
                                        const EvaluationName& name, const Diagnostics& diagnostics,
                                        const Json& info);
// Error (kRun) naming the file, what was expected and what was found, when it is damaged or of
// another version.
[[nodiscard]] Diagnostics read_diagnostics(const std::filesystem::path& file);

}  // namespace mneme::scores
