// What `mneme eval` says about memories that were evaluated one after another.
#pragma once

#include <string>
#include <vector>

#include "host/base/json.hpp"
#include "host/run/sweep.hpp"

namespace mneme::cli {

// Lines have at most `width` columns.

// One line a memory; columns that no memory has a number for are left out. Below it, which memory
// ran which build where one plugin occurs in several.
[[nodiscard]] std::string result_table(const std::vector<run::SweepResult>& results,
                                       std::size_t width);

// How the first numbers of the table were obtained, as a paragraph; "" when there are none.
[[nodiscard]] std::string statement_text(const std::vector<run::SweepResult>& results,
                                         std::size_t width);

// Loss by position, by distance and by frequency, one table each with a column a memory; positions
// are drawn together in powers of two.
[[nodiscard]] std::string breakdown_text(const std::vector<run::SweepResult>& results,
                                         std::size_t width);

// Everything, for programs: name, memory, plugins, and either result, statement and breakdown or
// error.
[[nodiscard]] Json to_json(const run::SweepResult& result);

}  // namespace mneme::cli
