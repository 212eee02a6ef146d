// A stored evaluation, opened for reading (evaluation_files.hpp says what lies where in it).
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "host/base/file/safetensors.hpp"
#include "host/base/text.hpp"
#include "host/scores/columns.hpp"

namespace mneme::scores {

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
  // "document", "sequence", "question" or "lane".
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

}  // namespace mneme::scores
