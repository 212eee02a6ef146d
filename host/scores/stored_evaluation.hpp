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
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "host/base/file/safetensors.hpp"
#include "host/base/text.hpp"
#include "host/scores/sums.hpp"

namespace mneme::scores {

class Columns;

inline constexpr std::string_view kFormat = "mneme-evaluation";
inline constexpr std::int64_t kVersion = 1;

// Targets that belong together: the unit that statistics resample.
struct Sample {
  std::string id;              // "valid/12"; of a lane "valid/lane3"; of an episode of a lane
                               // "valid/lane3/12". The same in every evaluation of the split
  std::int64_t document = -1;  // as in the column; -1 = unknown
  std::string sha256;          // first 16 hexadecimal digits, of the target ids in order as i32:
                               // samples of two evaluations hold the same targets when id and
                               // sha256 agree
  Sums sums;
  std::uint64_t seed = 0;              // train.seed
  std::map<std::string, Sums> slices;  // by where the information about the target lies: "none",
                                       // "inside", "outside"; empty when the task does not know
  // The groups to which the sequence belongs, by name, such as "depth" -> "0.2-0.3": what a task
  // knows of it (data::AnswerTask::slices). All samples have the same names; empty = no groups.
  std::map<std::string, std::string> groups = {};

  friend bool operator==(const Sample&, const Sample&) = default;
};

// The columns of nll.safetensors but nll, correct, source and predicted.
enum class Column {
  kTarget,    // the target's id
  kDocument,  // the target's document: its number in the split, a task's sequence; -1 = unknown
  kDistance,  // tokens of that document before the target; -1 = unknown
  kLane,
  kPlace,    // of the predicting token in its segment, from 0
  kSegment,  // number of the segment in the stream, from 0
};

[[nodiscard]] std::string_view to_word(Column column);

// What a sample holds, by the columns that tell samples apart.
enum class SampleUnit {
  kDocument,  // "document": of a text
  kSequence,  // "sequence": of a task, by its number in the split, which the column document holds
  kEpisode,   // "sequence": of a task that numbers its sequences in each lane; same document and
              // lane
  kLane,      // "lane": documents are unknown
};

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

  // n, at least 1. Entries are sorted by document, distance and lane.
  [[nodiscard]] std::int64_t targets() const { return targets_; }
  [[nodiscard]] std::vector<double> nll() const;                        // [n], nats
  [[nodiscard]] std::vector<std::int32_t> column(Column column) const;  // [n]
  [[nodiscard]] std::vector<std::uint8_t> correct() const;  // [n]: 1 = the target was the arg max
  // [n] of data::Source: 0 none, 1 inside, 2 outside; empty when the task does not know.
  [[nodiscard]] std::vector<std::uint8_t> source() const;
  // [n]: the id that was the arg max; empty when it was not kept, as for texts.
  [[nodiscard]] std::vector<std::int32_t> predicted() const;
  // In the order of their first targets in the columns.
  [[nodiscard]] const std::vector<Sample>& samples() const { return samples_; }
  // [n]: of every target, the place of its sample in samples().
  [[nodiscard]] std::vector<std::int32_t> sample_of_target() const;
  // The same targets told apart by another unit, such as the lanes of an evaluation whose samples
  // are documents: samples() and sample_of_target() of that unit.
  [[nodiscard]] std::vector<Sample> samples_by(SampleUnit unit) const;
  [[nodiscard]] std::vector<std::int32_t> sample_of_target(SampleUnit unit) const;
  // Occurrences of each id in the training data [V]; empty when they are not known. Error (kRun)
  // when the file is damaged.
  [[nodiscard]] std::vector<std::int64_t> vocabulary_counts() const;

 private:
  StoredEvaluation(std::filesystem::path folder, Json info, SafetensorsFile columns)
      : folder_(std::move(folder)), info_(std::move(info)), file_(std::move(columns)) {}
  [[nodiscard]] Columns read_columns() const;
  void check_columns();
  void check_sums(const Columns& columns) const;

  std::filesystem::path folder_;
  Json info_;
  SafetensorsFile file_;
  SampleUnit unit_ = SampleUnit::kDocument;
  std::int64_t targets_ = 0;
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

}  // namespace mneme::scores
