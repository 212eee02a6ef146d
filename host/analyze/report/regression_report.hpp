// Regression errors as files: a CSV each, and a figure beside it that is drawn from its numbers.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "host/analyze/measures/regression.hpp"
#include "host/base/json.hpp"

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
//   regression.csv, .svg  memory, rows, source, <option>, error
//   ageing.csv, .svg      memory, rows, source, <option>, age, points, correlation, error; left out
//                         when no age was measured
//
// `option` is the name of what the values are of. Error (kRun) when a file cannot be written.
std::vector<std::string> write_regression(const std::filesystem::path& folder,
                                          const std::string& option,
                                          const std::vector<MeasuredRegression>& measured);

// The same numbers.
[[nodiscard]] Json to_json(const std::string& option,
                           const std::vector<MeasuredRegression>& measured);

}  // namespace mneme::analyze
