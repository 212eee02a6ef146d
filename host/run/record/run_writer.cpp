#include "host/run/record/run_writer.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <system_error>
#include <vector>

#include "host/base/error.hpp"
#include "host/base/file/file.hpp"
#include "host/base/json_text.hpp"
#include "host/base/log.hpp"
#include "host/run/fingerprint.hpp"
#include "host/run/record/evaluation_recorder.hpp"
#include "host/run/record/metrics.hpp"
#include "host/scores/memory_checks.hpp"

namespace mneme::run {
namespace {

namespace fs = std::filesystem;

// Makes the folder; true when it was not there.
bool make_folder(const fs::path& path) {
  std::error_code error;
  if (fs::exists(path, error) && !fs::is_directory(path, error)) {
    throw_usage({.where = path.string(),
                 .failed = "the run's folder cannot be made",
                 .expected = "a folder, or a path where nothing is",
                 .got = "a file"});
  }
  const bool is_new = fs::create_directories(path, error);
  if (error) {
    throw_run({.where = path.string(),
               .failed = "the run's folder cannot be made",
               .got = error.message()});
  }
  return is_new;
}

// Refuses a folder with files of others that the run would write over, such as the experiment.toml
// of a plugin's project. A start that was killed has left its lock beside its files.
void check_others(const RunFolder& folder) {
  std::error_code ignored;
  for (const fs::path& file : folder.files()) {
    if (!fs::exists(file, ignored) || fs::exists(folder.path() / "lock", ignored)) continue;
    if (fs::exists(folder.info_file(), ignored)) continue;  // a run, or a part of one
    throw_usage({.where = folder.path().string(),
                 .failed = str("the folder is no run and holds ", file.filename().string(),
                               ", which a run would write over"),
                 .expected = "a new folder, or one without files of a run's names",
                 .hint = str("name another folder, as ", (folder.path() / "runs/first").string())});
  }
}

void write_start(const RunFolder& folder, const Runtime& runtime,
                 const RunWriter::WriteCheckpoint& write_first) {
  if (const data::Vocabulary* vocabulary = runtime.dataset()->vocabulary()) {
    vocabulary->save(folder.vocabulary_file());
  }
  if (const auto& source = runtime.weights_source(); source && !source->pretrained.empty()) {
    write_file_atomic(folder.pretrained_file(), source->pretrained);
  }
  Json info = describe_run(runtime);
  info["started"] = utc_now();
  info["initial_backbone_sha256"] = digest(fingerprint(runtime.model()));
  write_file_atomic(folder.info_file(), json_text(info, 2) + "\n");
  write_file_atomic(folder.metrics(), "");
  make_folder(folder.checkpoints().folder());
  if (write_first) write_first(folder.checkpoints().path_of(0));
  write_file_atomic(folder.experiment_file(), config::to_toml(runtime.experiment()));
}

// Locks the folder. Without the lock, files in a new folder belong to another process: then the
// folder is removed only when it is empty.
std::unique_ptr<RunLock> lock_folder(const fs::path& folder, bool is_new) {
  try {
    return std::make_unique<RunLock>(folder);
  } catch (...) {
    std::error_code ignored;
    if (is_new) fs::remove(folder, ignored);
    throw;
  }
}

// Removes what write_start wrote; with the lock held, also the lock's file and the folder when it
// is new.
void remove_start(const RunFolder& folder, bool is_new) {
  std::error_code ignored;
  for (const fs::path& path : folder.files()) fs::remove(path, ignored);
  fs::remove(folder.checkpoints().path_of(0), ignored);
  fs::remove(folder.checkpoints().folder(), ignored);  // empty by now
  if (!is_new) return;
  fs::remove(folder.path() / "lock", ignored);
  fs::remove(folder.path(), ignored);
}

}  // namespace

RunWriter::RunWriter(const RunFolder& folder, std::unique_ptr<RunLock> lock)
    : folder_(folder), lock_(std::move(lock)) {
  std::vector<std::string> names = {scores::checks_file("").string() + '.'};
  for (const fs::path& file : folder_.files()) names.push_back(file.filename().string() + '.');
  remove_temporaries(folder_.path(), Writers::kCallerAlone, names);
  remove_temporaries(folder_.checkpoints().folder(), Writers::kCallerAlone, {"step_"});
}

std::unique_ptr<RunWriter> RunWriter::create(const fs::path& path, const Runtime& runtime,
                                             const WriteCheckpoint& write_first, bool is_claimed) {
  const bool is_new = make_folder(path) || is_claimed;
  const RunFolder folder = RunFolder::at(path);
  check_others(folder);
  std::unique_ptr<RunLock> lock = lock_folder(folder.path(), is_new);
  const std::vector<std::int64_t> steps = folder.checkpoints().steps();
  const bool has_first_alone = steps == std::vector<std::int64_t>{0};  // of a start that was killed
  if (fs::exists(folder.experiment_file()) || !(steps.empty() || has_first_alone)) {
    throw_usage({.where = path.string(),
                 .failed = "the folder already holds a run",
                 .expected = "a new folder, or one without a run",
                 .hint = str("name another folder, or continue this run with mneme train --resume ",
                             shell_word(path.string()))});
  }
  std::unique_ptr<RunWriter> writer(new RunWriter(folder, std::move(lock)));
  try {
    write_start(folder, runtime, write_first);
    writer->open_files(runtime.experiment().train, {});
  } catch (...) {
    remove_start(folder, is_new);
    throw;
  }
  return writer;
}

std::unique_ptr<RunWriter> RunWriter::reopen(const fs::path& path) {
  const RunFolder folder = RunFolder::open(path);
  auto lock = std::make_unique<RunLock>(folder.path());
  return std::unique_ptr<RunWriter>(new RunWriter(folder, std::move(lock)));
}

void RunWriter::continue_from(const RunProgress& progress, const Runtime& runtime) {
  Json info = folder_.info();
  const Json now = describe_run(runtime);
  check_metrics(folder_.metrics());  // before anything is changed
  warn_of_changes(folder_.path().string(), info, now);
  for (const std::int64_t step : folder_.checkpoints().remove_after(progress.step)) {
    log_warning(folder_.path().string(), ": deleted the checkpoint of step ", step,
                ": the run continues from step ", progress.step);
  }
  const std::int64_t kept =
      cut_metrics(folder_.metrics(), progress.step, progress.valid.last_step, progress.curve_step);
  if (kept < progress.metrics_lines) {
    log_warning(folder_.metrics().string(), ": ", progress.metrics_lines - kept, " of the ",
                progress.metrics_lines, " lines up to step ", progress.step,
                " are lost; the run continues without them");
  }
  drop_later_evaluations(folder_.path(), progress.step);
  add_continuation(info, now, progress.step);
  write_file_atomic(folder_.info_file(), json_text(info, 2) + "\n");
  open_files(runtime.experiment().train, progress);
  metrics_lines_ = kept;
}

void RunWriter::open_files(const config::TrainConfig& train, const RunProgress& progress) {
  keep_checkpoints_ = train.keep_checkpoints;
  metrics_.emplace(folder_.metrics());
  if (!train.tensorboard) return;
  tensorboard_.emplace(folder_.tensorboard(), progress.step, progress.tokens, progress.seconds);
}

void RunWriter::append_line(const Json& line) {
  metrics_->append(json_text(line) + "\n");
  ++metrics_lines_;
}

fs::path RunWriter::prepare_checkpoint(std::int64_t step) {
  metrics_->sync();
  make_folder(folder_.checkpoints().folder());
  return folder_.checkpoints().path_of(step);
}

void RunWriter::retain_checkpoints(std::int64_t best_step) {
  folder_.checkpoints().retain(keep_checkpoints_, best_step);
}

}  // namespace mneme::run
