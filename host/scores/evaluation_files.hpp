// Evaluations that a run keeps: the loss of every target, sums of every sample, and what was
// evaluated. docs/runs.md, "Stored evaluations", describes the files.
//
//   RUN/evaluations/<split>-step<8 digits>-<8 hexadecimal digits>/
//     nll.safetensors   equally long columns [n], one entry a target
//     samples.jsonl     one JSON object a sample: a document, a sequence of a task or a lane
//     evaluation.json   what was evaluated and how; written last
//   RUN/evaluations/counts.safetensors   occurrences of each id in the training data
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "host/base/file/file.hpp"
#include "host/base/text.hpp"
#include "host/scores/columns.hpp"

namespace mneme::scores {

// The folder of a run's evaluations: RUN/evaluations.
[[nodiscard]] std::filesystem::path evaluations_folder(const std::filesystem::path& run_folder);
// The folders of a run's finished evaluations by name, which is by split and step; none when there
// are none. Nothing of them has been checked. Error (kRun) for a folder that cannot be read.
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
  // Sample::groups and Sample::unit by Sample::document; none = samples have none.
  std::function<std::map<std::string, std::string>(std::int64_t document)> groups = {};
  std::function<std::string(std::int64_t document)> units = {};
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

// --- What writer and reader share ---

inline constexpr std::string_view kFormat = "mneme-evaluation";
inline constexpr std::int64_t kVersion = 1;
inline constexpr std::string_view kColumnsFile = "nll.safetensors";
inline constexpr std::string_view kSamplesFile = "samples.jsonl";
inline constexpr std::string_view kInfoFile = "evaluation.json";
inline constexpr std::string_view kCountsFile = "counts.safetensors";  // beside the evaluations

// The columns of nll.safetensors but nll, correct, source and predicted.
struct IntegerColumn {
  const char* name;
  std::vector<std::int32_t> Columns::*values;
};
inline constexpr std::array kIntegerColumns = {
    IntegerColumn{"target", &Columns::target},       IntegerColumn{"document", &Columns::document},
    IntegerColumn{kDistanceKey, &Columns::distance}, IntegerColumn{"lane", &Columns::lane},
    IntegerColumn{"place", &Columns::place},         IntegerColumn{"segment", &Columns::segment},
};

// CRC-32C of a whole file, 8 hexadecimal digits; read in parts. Error (kRun) when it cannot be.
[[nodiscard]] std::string crc32c_text(const std::filesystem::path& path);
// The key `checksum` of evaluation.json: CRC-32C of the object without it, as it is written in one
// line.
[[nodiscard]] std::string checksum_of_info(Json info);

// The key `unit`.
[[nodiscard]] std::string_view unit_word(SampleUnit unit);
// The key `sample_columns`: the columns that tell samples apart.
[[nodiscard]] std::vector<std::string> sample_columns(SampleUnit unit);
[[nodiscard]] Json to_json(const Sums& sums);

// One writer at a time in a folder of evaluations, whichever process: the kernel releases the lock
// however the process ends. Makes the folder, and removes what a killed writer left. Waits, but not
// for ever, as a stopped process must not stop a training: Error (kRun) after `patience`.
class WriterLock {
 public:
  explicit WriterLock(const std::filesystem::path& folder,
                      std::chrono::milliseconds patience = std::chrono::seconds(60));

 private:
  Descriptor file_;
};

}  // namespace mneme::scores
