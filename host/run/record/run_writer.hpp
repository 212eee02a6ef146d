// The one writer of a run's folder (run_folder.hpp says what lies in it).
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "host/base/file/write_file.hpp"
#include "host/base/text.hpp"
#include "host/config/experiment.hpp"
#include "host/run/checkpoint/checkpoint.hpp"
#include "host/run/record/curve.hpp"
#include "host/run/record/metrics.hpp"
#include "host/run/run_description.hpp"
#include "host/run/run_folder.hpp"

namespace mneme::run {

// Holds the folder's lock while it lives. One thread at a time.
class RunWriter {
 public:
  // Writes a checkpoint to a path.
  using WriteCheckpoint = std::function<void(const std::filesystem::path& path)>;

  // Makes the folder and writes experiment.toml (last: a folder without it holds no run), run.json,
  // vocabulary.json, an empty metrics.jsonl and, with `write_first`, the checkpoint of step 0 that
  // a run with given weights begins with. Error (kUsage) when the folder holds a run, or files of
  // others that the run would write over, is a file, or is in use by another process; Error (kRun)
  // when it cannot be written. What was written is then removed again; with `is_claimed`, of a
  // folder that was made for this run, the folder too.
  [[nodiscard]] static std::unique_ptr<RunWriter> create(const std::filesystem::path& path,
                                                         const Runtime& runtime,
                                                         const WriteCheckpoint& write_first = {},
                                                         bool is_claimed = false);
  // Takes over the folder of a run, and removes the temporary files of processes that were killed.
  // Error (kUsage) when it holds none or is in use.
  [[nodiscard]] static std::unique_ptr<RunWriter> reopen(const std::filesystem::path& path);

  [[nodiscard]] const RunFolder& folder() const { return folder_; }

  // Called after reopening, before anything is appended: continues from `progress`. Deletes
  // checkpoints of later steps, cuts metrics.jsonl back, and adds to run.json what continues the
  // run. Warns, through the log, of deleted checkpoints, of lost lines, and when machine or program
  // differ from the run's. Error (kRun) for a damaged line of metrics.jsonl: nothing has been
  // changed then.
  void continue_from(const RunProgress& progress, const Runtime& runtime);

  // Append to metrics.jsonl and, with train.tensorboard, to the event file. Error (kRun).
  template <typename Report>
  void append(const Report& report) {
    append_line(to_json(report));
    if (tensorboard_) tensorboard_->add(report);
  }
  // Lines of metrics.jsonl.
  [[nodiscard]] std::int64_t metrics_lines() const { return metrics_lines_; }

  // Where the checkpoint of a step goes; what it says of the metrics is on the disk by then.
  [[nodiscard]] std::filesystem::path prepare_checkpoint(std::int64_t step);
  // After it was written: deletes what train.keep_checkpoints leaves over; `best_step` stays.
  void retain_checkpoints(std::int64_t best_step);

 private:
  RunWriter(const RunFolder& folder, std::unique_ptr<RunLock> lock);
  void open_files(const config::TrainConfig& train, const RunProgress& progress);
  void append_line(const Json& line);

  RunFolder folder_;
  std::unique_ptr<RunLock> lock_;
  std::int64_t keep_checkpoints_ = 1;
  std::int64_t metrics_lines_ = 0;
  std::optional<AppendFile> metrics_;
  std::optional<TensorBoard> tensorboard_;
};

}  // namespace mneme::run
