// The files of checkpoints, <run>/checkpoints/step_<steps done, 8 digits>.safetensors: their
// checksums and the keys of their metadata.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "host/base/file/safetensors.hpp"

namespace mneme::run {

class CheckpointFiles {
 public:
  explicit CheckpointFiles(std::filesystem::path folder) : folder_(std::move(folder)) {}

  [[nodiscard]] const std::filesystem::path& folder() const { return folder_; }
  [[nodiscard]] std::filesystem::path path_of(std::int64_t step) const;
  // Steps with a checkpoint, rising; empty without a folder. Files of other names do not count.
  // Error (kRun) when the folder cannot be read; so do list(), retain() and remove_after().
  [[nodiscard]] std::vector<std::int64_t> steps() const;
  // The steps as a message lists them: "50, 100", or "none".
  [[nodiscard]] std::string list() const;

  // Deletes what the newest `keep` checkpoints and that of `best_step` leave over. Error (kRun).
  void retain(std::int64_t keep, std::int64_t best_step) const;
  // Deletes the checkpoints of later steps, newest first, and returns their steps. Error (kRun).
  std::vector<std::int64_t> remove_after(std::int64_t step) const;

 private:
  void remove(std::int64_t step) const;

  std::filesystem::path folder_;
};

// --- Checksums of a checkpoint's contents, in its metadata ---

// Adds the keys "tensor_checksums" (JSON: CRC-32C of each tensor's dtype, shape and bytes) and
// "checksum" (that of all other metadata).
void add_checksums(std::map<std::string, std::string>& metadata,
                   const std::vector<TensorView>& tensors);

// What comparing a file with its checksums found.
struct ChecksumReport {
  struct Damage {
    std::string part;      // "metadata", or a tensor by its name
    std::string expected;  // checksum
    std::string got;
  };
  bool is_carried = false;  // without them damage cannot be detected
  std::vector<Damage> damage = {};
};

// What a checkpoint is opened for, and so how much of it is compared with its checksums.
enum class CheckpointUse {
  kTraining,    // everything
  kEvaluation,  // all but the optimiser's moments, two thirds of a file
  kProgress,    // the metadata
};

// Reads what `use` needs. No file makes it fail.
[[nodiscard]] ChecksumReport compare_checksums(const SafetensorsFile& file,
                                               CheckpointUse use = CheckpointUse::kTraining);

// Error (kRun) naming the first tensor, or the metadata, that is not as add_checksums saw it; also
// when the file carries no checksums.
void verify_checksums(const SafetensorsFile& file, CheckpointUse use = CheckpointUse::kTraining);

// --- What the writer and the reader of checkpoints share (not for other code) ---

inline const std::string kFormat = "mneme.checkpoint";
inline const std::string kRevision = "1";
// Metadata: whether a run can be resumed from the file. Absent = it can.
inline const std::string kContents = "contents";
inline const std::string kWholeRun = "run";
inline const std::string kWeightsOnly = "weights";
inline const std::string kMeanPrefix = "adam.mean/";
inline const std::string kSquarePrefix = "adam.square/";
inline const std::string kCountPrefix = "adam.count/";
inline const std::string kStatePrefix = "state/";
// Tensors of official weights that are no parameters, as they were imported.
inline const std::string kOfficialPrefix = "official/";

// Error (kUsage) naming the file, with the first of the differences, a line each.
[[noreturn]] void refuse_checkpoint(const SafetensorsFile& file, const std::string& failed,
                                    const std::vector<std::string>& differences,
                                    const std::string& hint);

}  // namespace mneme::run
