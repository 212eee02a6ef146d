// The tables of a report as data, for CSV: docs/report.md, "The tables as data".
#pragma once

#include <vector>

#include "host/report/comparison/comparison.hpp"
#include "host/report/differences/differences.hpp"
#include "host/report/tables/tables.hpp"

namespace mneme::report {

// A row for each number of each arm: mean, deviation, and against the first arm.
[[nodiscard]] Records result_records(const Comparison& comparison, const std::vector<Metric>& all);
// A row for each number of each run.
[[nodiscard]] Records run_records(const Comparison& comparison, const std::vector<Metric>& all);
// A row for each difference: arm, split and measure are columns.
[[nodiscard]] Records difference_records(const Comparison& comparison,
                                         const std::vector<Difference>& all);
// A row for each difference in loss that was held against a margin.
[[nodiscard]] Records margin_records(const Comparison& comparison,
                                     const std::vector<Difference>& all);
// A row for each difference in loss of a text, as ratio of perplexities and in bits.
[[nodiscard]] Records perplexity_records(const Comparison& comparison,
                                         const std::vector<Difference>& all);
// A row for each value of a setting in each arm that has it.
[[nodiscard]] Records setting_records(const Comparison& comparison,
                                      const std::vector<Setting>& settings);

// Tokens for one unit of `key` ("bits_per_byte"), by which a loss in nats a token is multiplied and
// divided by ln 2; NaN = not known.
[[nodiscard]] double bits_factor(const Comparison& comparison, const std::string& split,
                                 const char* key);
// A finite number as it is, "inf" or "-inf", and null for NaN.
[[nodiscard]] Json data_number(double value);
// The least share of the split that a run of the arm read; null where no run says it.
[[nodiscard]] Json share_read(const Arm& arm, const std::string& split);

}  // namespace mneme::report
