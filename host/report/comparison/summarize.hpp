// One run folder, read without LibTorch: its experiment, curves and stored evaluations.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "host/report/comparison/comparison.hpp"
#include "host/scores/stored_evaluation.hpp"

namespace mneme::report {

// The sums and buckets of a stored evaluation; its columns are read once and not kept, but for the
// losses of lanes whose documents are unknown. Errors as scores::StoredEvaluation.
[[nodiscard]] EvaluationSummary summarize(const scores::StoredEvaluation& stored);

// Reads metrics.jsonl into a run. Lines that are no metrics are counted and left out: the number of
// them. A missing file has no lines.
[[nodiscard]] std::int64_t read_metrics(const std::filesystem::path& file, Run& run);

// Reads the stored evaluations of a run's own memory and data, one a split: of the latest step, and
// of several of one step the first by name, those with the run's own plugins, then its own [eval],
// before others. Of needles also those on haystacks of other lengths, if they are of the same step.
// An evaluation gets the samples that were generated with its weights. What cannot be read is left
// out; a sentence of each goes to `notes`.
void read_evaluations(const std::filesystem::path& folder, const std::string& experiment, Run& run,
                      std::vector<std::string>& notes);

// A description of data (data::Dataset::describe()) without the places of files.
[[nodiscard]] Json without_places(const Json& data);

}  // namespace mneme::report
