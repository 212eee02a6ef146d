// Results of lm-evaluation-harness sample by sample: the files that its --log_samples writes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <utility>

namespace mneme::report {

// A score of one sample: mean = total / count over samples is the number that the harness prints,
// or the logarithm of a perplexity.
struct HarnessScore {
  double total = 0.0;  // nats of a perplexity
  double count = 1.0;  // words or bytes of a perplexity
};

// A document of a task, as one filter of answers sees it.
struct HarnessSample {
  std::string doc_hash = {};
  std::string prompt_hash = {};  // with the examples in front and the chat template
  std::string target_hash = {};
  std::map<std::string, HarnessScore> scores = {};  // by metric: "acc", "exact_match,first_line"
};

using HarnessSamples = std::map<std::pair<std::int64_t, std::string>, HarnessSample>;  // id, filter

struct HarnessTask {
  std::filesystem::path file;
  HarnessSamples samples = {};
};

// Of one model.
struct HarnessResults {
  std::filesystem::path folder;
  std::map<std::string, HarnessTask> tasks = {};
};

// Whether the folder, or a folder in it, has a file samples_TASK_DATE.jsonl.
[[nodiscard]] bool has_harness_results(const std::filesystem::path& folder);

// The samples of every task, of each the newest file by the date in its name. Metrics that are no
// number of each sample are left out. Error (kRun) for a folder without such files or with those of
// several models, and naming the line that is cut, no sample, or of a document that was there.
[[nodiscard]] HarnessResults read_harness_results(const std::filesystem::path& folder);

}  // namespace mneme::report
