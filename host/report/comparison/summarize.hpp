// A stored evaluation in sums.
#pragma once

#include "host/report/comparison/comparison.hpp"
#include "host/scores/stored_evaluation.hpp"

namespace mneme::report {

// The sums and buckets of a stored evaluation; its columns are read once and not kept, but for the
// losses of lanes whose documents are unknown. Errors as scores::StoredEvaluation.
[[nodiscard]] EvaluationSummary summarize(const scores::StoredEvaluation& stored);

}  // namespace mneme::report
