// Losses by memory size as a CSV and a figure.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "host/base/json.hpp"
#include "host/eval/result.hpp"

namespace mneme::analyze {

// One memory of one size.
struct SizedResult {
  std::string memory;
  std::int64_t multiple = 0;  // of the segment; 0 = a memory without a size
  eval::Result result;
};

// extrapolation.csv: memory, multiple, segment, context_rows, tokens, loss, perplexity.
// extrapolation.svg: perplexity by multiple, a curve a memory [LaMemo, fig. 5]. Returns the names
// of the files. Error (kRun) when they cannot be written.
std::vector<std::string> write_extrapolation(const std::filesystem::path& folder,
                                             const std::vector<SizedResult>& results);

}  // namespace mneme::analyze
