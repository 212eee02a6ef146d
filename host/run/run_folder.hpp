// The folder of a run, which training writes and most commands read, and its lock. docs/runs.md
// describes it file by file; run_writer.hpp writes it.
//
//   experiment.toml   the resolved experiment, every key written
//   run.json          versions, device, seed, data checksums, plugins, processor, counts
//   metrics.jsonl     see record/metrics.hpp
//   log.txt           every line of the log, and what people were shown beside it
//   vocabulary.json   of text; absent for ids and generated tasks
//   pretrained.json   of weights from a Hugging Face model folder: what the folder was
//   checkpoints/      see checkpoint/
//   evaluations/      see host/scores/evaluation_files.hpp
//   tensorboard/      event files; absent with train.tensorboard = false
//   lock              see RunLock
#pragma once

#include <exception>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "host/base/error.hpp"
#include "host/base/text.hpp"
#include "host/config/experiment.hpp"
#include "host/data/vocabulary/vocabulary.hpp"
#include "host/run/checkpoint/checkpoint.hpp"
#include "host/run/checkpoint/checkpoint_files.hpp"
#include "host/run/run_description.hpp"
#include "host/run/runtime.hpp"

namespace mneme::run {

class RunFolder {
 public:
  // The folder at a path, whether it holds a run or not.
  [[nodiscard]] static RunFolder at(const std::filesystem::path& path);
  // Opens an existing run. Error (kUsage) naming what is missing.
  [[nodiscard]] static RunFolder open(const std::filesystem::path& path);

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  [[nodiscard]] std::filesystem::path experiment_file() const { return path_ / "experiment.toml"; }
  [[nodiscard]] std::filesystem::path info_file() const { return path_ / "run.json"; }
  [[nodiscard]] std::filesystem::path vocabulary_file() const { return path_ / "vocabulary.json"; }
  [[nodiscard]] std::filesystem::path pretrained_file() const { return path_ / "pretrained.json"; }
  [[nodiscard]] std::filesystem::path metrics() const { return path_ / "metrics.jsonl"; }
  [[nodiscard]] std::filesystem::path log() const { return path_ / "log.txt"; }
  [[nodiscard]] std::filesystem::path tensorboard() const { return path_ / "tensorboard"; }
  [[nodiscard]] std::vector<std::filesystem::path> files() const {  // rewritten as wholes
    return {experiment_file(), info_file(), vocabulary_file(), pretrained_file(), metrics()};
  }
  [[nodiscard]] CheckpointFiles checkpoints() const {
    return CheckpointFiles(path_ / "checkpoints");
  }
  [[nodiscard]] config::Experiment experiment() const;  // as it is stored
  // The stored vocabulary; none for ids and generated tasks. Errors: as check_vocabulary
  // (run_description.hpp), as Vocabulary::load.
  [[nodiscard]] std::optional<data::Vocabulary> vocabulary() const;
  // The stored run.json. Error (kRun) when it is damaged.
  [[nodiscard]] Json info() const;
  // The same with keys that may be missing, as they are in runs of older versions.
  [[nodiscard]] Json raw_info() const;

  // The path of a checkpoint by its word: "last", "best" (of the newest checkpoint's evaluations)
  // or its number of steps. Errors: Error (kUsage) when there is none such, naming those that are;
  // as Checkpoint::open.
  [[nodiscard]] std::filesystem::path checkpoint(const std::string& which = "last") const;
  // Opens it. The Error (kRun) of a damaged one offers the newest whole one before it, by
  // `command`, such as "mneme eval runs/first", with --checkpoint.
  [[nodiscard]] Checkpoint open_checkpoint(const std::string& which, const std::string& command,
                                           CheckpointUse use) const;

 private:
  explicit RunFolder(std::filesystem::path path) : path_(std::move(path)) {}

  std::filesystem::path path_;
};

// A trained model ready for evaluation: the run's experiment with `memory` in place of its own when
// given, at eval.precision, its data with the stored vocabulary, and the weights of a checkpoint
// (RunFolder::checkpoint). Tier parameters that the checkpoint lacks follow memory.carry.
[[nodiscard]] std::unique_ptr<Runtime> open_run(
    const std::filesystem::path& folder, const RuntimeOptions& options,
    const std::optional<config::MemoryConfig>& memory = std::nullopt,
    const std::string& checkpoint = "last");

// --- A lock that allows one writer for a run folder ---

// Holds the file `lock` of a folder locked (flock) while it lives: the kernel releases it however
// the process ends. The file stays, empty; while somebody holds it, it says who: "<pid> <host>".
class RunLock {
 public:
  // Error (kUsage) naming process and machine when another process, or another RunLock of this
  // one, holds it; Error (kRun) when the file cannot be made or locked.
  explicit RunLock(const std::filesystem::path& folder);
  ~RunLock();
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

 private:
  int descriptor_ = -1;
};

// --- From an exception that ended an evaluation or a training to an Error ---

// An Error as it is. What LibTorch throws becomes an Error (kRun) of `where` with its first line,
// and with `memory_hint`, what to lower, when memory ran out.
[[nodiscard]] Error failure_of(const std::exception& error, const std::string& where,
                               const std::string& memory_hint);

}  // namespace mneme::run
