// Evaluations that a run keeps: the loss of every target, sums of every sample, and what was
// evaluated. docs/runs.md, "Stored evaluations", describes the files.
//
//   RUN/evaluations/<split>-step<8 digits>-<8 hexadecimal digits>/
//     nll.safetensors   equally long columns [n], one entry a target
//     samples.jsonl     one JSON object a sample: a document, a sequence of a task or a lane
//     evaluation.json   what was evaluated and how; written last
//   RUN/evaluations/counts.safetensors   occurrences of each id in the training data
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "host/base/file/safetensors.hpp"
#include "host/base/text.hpp"
#include "host/scores/columns.hpp"

namespace mneme::scores {

inline constexpr std::string_view kFormat = "mneme-evaluation";
inline constexpr std::int64_t kVersion = 1;

// A finished evaluation, opened for reading. Columns stay in their file, mapped, until they are
// asked for. Copies share the map. Reading is thread-safe.
class StoredEvaluation {
 public:
  // Reads evaluation.json and samples.jsonl and checks everything: format and version, the
  // checksums of the files, columns of one length and dtype, losses that are finite, and that the
  // columns add up to the samples' sums and to evaluation.json's result. Error (kUsage) when the
  // folder holds no finished evaluation; Error (kRun) naming file, what was expected and what was
  // found, when it is damaged or of another version.
  [[nodiscard]] static StoredEvaluation open(const std::filesystem::path& folder);

  [[nodiscard]] const std::filesystem::path& folder() const { return folder_; }
  // evaluation.json.
  [[nodiscard]] const Json& info() const { return info_; }
  [[nodiscard]] std::string split() const { return info_.at("split").get<std::string>(); }
  [[nodiscard]] std::int64_t step() const { return info_.at("step").get<std::int64_t>(); }
  // train.seed.
  [[nodiscard]] std::uint64_t seed() const { return info_.at("seed").get<std::uint64_t>(); }
  // "document", "sequence" or "lane".
  [[nodiscard]] std::string unit() const { return info_.at("unit").get<std::string>(); }
  [[nodiscard]] SampleUnit sample_unit() const { return unit_; }

  // The losses of all targets, at least one, sorted (Columns::sort).
  [[nodiscard]] Columns columns() const;
  // In the order of their first targets in the columns.
  [[nodiscard]] const std::vector<Sample>& samples() const { return samples_; }
  // Occurrences of each id in the training data [V]; empty when they are not known. Error (kRun)
  // when the file is damaged.
  [[nodiscard]] std::vector<std::int64_t> vocabulary_counts() const;

 private:
  StoredEvaluation(std::filesystem::path folder, Json info, SafetensorsFile columns)
      : folder_(std::move(folder)), info_(std::move(info)), file_(std::move(columns)) {}
  void check_columns();
  void check_sums(const Columns& columns) const;

  std::filesystem::path folder_;
  Json info_;
  SafetensorsFile file_;
  SampleUnit unit_ = SampleUnit::kDocument;
  std::vector<Sample> samples_;
};

// The folder of a run's evaluations: RUN/evaluations.
[[nodiscard]] std::filesystem::path evaluations_folder(const std::filesystem::path& run_folder);
// The folders of a run's finished evaluations by name, which is by split and step; none when there
// are none. Nothing of them has been checked.
[[nodiscard]] std::vector<std::filesystem::path> list_evaluations(
    const std::filesystem::path& run_folder);

// True when the run has the file of the vocabulary's counts.
[[nodiscard]] bool has_vocabulary_counts(const std::filesystem::path& run_folder);

// An evaluation's folder name taken apart.
struct EvaluationName {
  std::string split;      // "valid"
  std::int64_t step = 0;  // of the weights
  std::string settings;   // 8 hexadecimal digits: what the numbers depend on beside the weights
};

[[nodiscard]] std::string to_text(const EvaluationName& name);
// Absent for a name of another form.
[[nodiscard]] std::optional<EvaluationName> parse_evaluation_name(std::string_view name);

// --- Writing ---

// An evaluation to be stored.
struct EvaluationToStore {
  EvaluationName name;
  SampleUnit unit = SampleUnit::kDocument;
  // The keys of evaluation.json beside format, version, split, step, unit, sample_columns,
  // checksums and vocabulary_counts. `seed` and `result` (with tokens, nll, correct) are needed.
  Json info;
  // Of every id in the training data; empty = unknown. Written when the run has none yet.
  std::vector<std::int64_t> vocabulary_counts = {};
  // Sample::groups by Sample::document; none = samples have no groups.
  std::function<std::map<std::string, std::string>(std::int64_t document)> groups = {};
};

// Writes RUN/evaluations/<name>, in place of an evaluation of that name, and returns its folder.
// The files are made in a temporary folder beside it and take their name at once, so that readers
// find an evaluation whole or not at all, also when the process is killed; the next writer removes
// what such a process left. Processes that write evaluations of one run take turns (a lock in
// RUN/evaluations). Sorts the columns. Error (kRun) when the folder or a file cannot be written;
// what was there stays.
std::filesystem::path write_evaluation(const std::filesystem::path& run_folder,
                                       const EvaluationToStore& evaluation, Columns& columns);

// Removes finished evaluations of a run for whose name and evaluation.json `is_unwanted` is true;
// their folders. One whose evaluation.json cannot be read stays. Error (kRun) when one cannot be
// removed.
std::vector<std::filesystem::path> remove_evaluations(
    const std::filesystem::path& run_folder,
    const std::function<bool(const EvaluationName& name, const Json& info)>& is_unwanted);

}  // namespace mneme::scores
