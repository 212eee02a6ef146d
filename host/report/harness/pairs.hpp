// Two models on the tasks of lm-evaluation-harness, compared sample by sample.
#pragma once

#include <string>

#include "host/base/text.hpp"
#include "host/report/harness/results.hpp"
#include "host/report/sheet/sheet.hpp"

namespace mneme::report {

// A row for each task and metric that both have, or for the one `metric` ("" = all): means of both,
// difference to the baseline with its interval, p value before and after Holm's correction over all
// rows, by stats::compare_paired with a document as a unit. Notes say what only one of them has.
//
// Error (kRun) where no task or metric is in both, and where a document has other contents, another
// prompt or another target. Error (kUsage) for a metric that one of them lacks.
[[nodiscard]] Sheet harness_pairs(const HarnessResults& baseline, const HarnessResults& other,
                                  const std::string& metric = "");

// {"format": "mneme-pairs", "version": 1, "pairs": [{column: value}], "notes": [...]}
[[nodiscard]] Json harness_json(const Sheet& sheet);

}  // namespace mneme::report
