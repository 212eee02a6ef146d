// The files of checkpoints, <run>/checkpoints/step_<steps done, 8 digits>.safetensors, and their
// checksums.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <utility>
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
  [[nodiscard]] std::vector<std::int64_t> remove_after(std::int64_t step) const;

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

// --- Files with checksums ---

// The tensors of a file, which is written with checksums.
class CheckedTensors {
 public:
  // A tensor on the CPU is written from where it lies.
  void add(const std::string& name, const at::Tensor& tensor);
  // Atomically: an older file stays whole until the new one is complete.
  void write(const std::filesystem::path& path, std::map<std::string, std::string> metadata) const;

 private:
  std::vector<at::Tensor> kept_;
  std::vector<TensorView> views_;
};

// The tensors whose names begin with `prefix`, by the rest of their names.
[[nodiscard]] std::vector<std::pair<std::string, at::Tensor>> tensors_below(
    const SafetensorsFile& file, const std::string& prefix);

}  // namespace mneme::run
