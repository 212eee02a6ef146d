// A summary of a run's folder, as `mneme inspect` prints it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "host/base/text.hpp"
#include "host/config/experiment.hpp"
#include "host/run/run_folder.hpp"

namespace mneme::run {

struct CheckpointSummary {
  std::filesystem::path path = {};
  std::int64_t step = 0;  // by its name
  std::uintmax_t bytes = 0;
  std::int64_t tokens = 0;
  double seconds = 0.0;
  bool holds_whole_run = true;
  bool is_best = false;      // by the newest whole checkpoint's evaluations
  std::string problem = {};  // why it cannot be read; "" = it can, its checksums agree
};

// vocabulary.json in short.
struct VocabularySummary {
  std::string text = {};     // kind, size and checksum; "" without a vocabulary
  std::string problem = {};  // why it cannot be used; "" = it can, and is the one of run.json
};

// metrics.jsonl in short.
struct MetricsSummary {
  std::int64_t lines = 0;
  std::int64_t damaged_lines = 0;              // that are no metrics
  Json last_step = nullptr;                    // the newest line of kind "step"; null = none
  std::map<std::string, Json> last_eval = {};  // of every split: the newest line of kind "eval"
  std::string problem = {};                    // why it cannot be read; "" = it can
};

// A stored evaluation in short.
struct EvaluationSummary {
  std::string name = {};  // of its folder
  std::int64_t samples = 0;
  std::string unit = {};  // of a sample: "document", "sequence", "lane"
  std::int64_t targets = 0;
  double loss = 0.0;         // nats a target
  std::string problem = {};  // why it cannot be read; "" = it can, and its sums agree
};

// What is stored for reports beside an evaluation: generated samples or diagnostics.
struct ReportFileSummary {
  std::string kind = {};     // "generated samples" | "diagnostics"
  std::string name = {};     // of the evaluation of the same weights
  std::string text = {};     // how many
  std::string problem = {};  // why it cannot be read; "" = it can, and its checksum agrees
};

struct RunSummary {
  std::filesystem::path path = {};
  Json info = nullptr;  // run.json
  config::Experiment experiment = {};
  VocabularySummary vocabulary = {};
  std::vector<CheckpointSummary> checkpoints = {};  // by step
  MetricsSummary metrics = {};
  std::vector<EvaluationSummary> evaluations = {};   // by name
  std::vector<ReportFileSummary> report_files = {};  // samples, then diagnostics, by name

  // The parts that are damaged, by name: "the checkpoint of step 6", "1 line of metrics.jsonl".
  [[nodiscard]] std::vector<std::string> damaged_parts() const;
};

// Reads everything, checkpoints and what evaluations have stored entirely. Damage is reported in
// the summary; Error (kUsage | kRun) only when run.json or experiment.toml cannot be read.
[[nodiscard]] RunSummary summarize(const RunFolder& folder);
[[nodiscard]] Json to_json(const RunSummary& summary);

}  // namespace mneme::run
