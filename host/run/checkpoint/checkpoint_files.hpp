// The checkpoints of a run: <run>/checkpoints/step_<steps done, 8 digits>.safetensors.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

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

}  // namespace mneme::run
