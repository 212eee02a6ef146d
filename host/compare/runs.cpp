#include "host/compare/runs.hpp"

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "host/base/child_process.hpp"
#include "host/base/error.hpp"
#include "host/base/file/file.hpp"
#include "host/base/file/write_file.hpp"
#include "host/base/json_text.hpp"
#include "host/compare/finished_parts.hpp"
#include "host/compare/initial_weights.hpp"
#include "host/run/run_folder.hpp"
#include "host/scores/diagnostics.hpp"
#include "host/scores/generated.hpp"
#include "host/scores/stored_evaluation.hpp"

namespace mneme::compare {
namespace {

namespace fs = std::filesystem;

constexpr int kPollMs = 250;
constexpr std::string_view kStopped = "mneme: stopped by";
constexpr std::string_view kExtrasPhase = "samples and diagnostics";

// One run on its way: a training, then the evaluations that it lacks, a process each.
class RunTask {
 public:
  RunTask(RunRecord& record, const config::Experiment& experiment, const Record& comparison,
          const Options& options)
      : record_(record), experiment_(experiment), comparison_(comparison), options_(options) {}

  [[nodiscard]] RunRecord& record() { return record_; }
  [[nodiscard]] const Activity& activity() const { return activity_; }
  [[nodiscard]] ChildProcess* process() { return process_.get(); }
  // Steps of the training: done, and in all (0 = not known yet).
  [[nodiscard]] std::int64_t steps() const { return steps_; }
  [[nodiscard]] std::int64_t total_steps() const { return total_steps_; }

  // Starts the training. When that cannot be, the run has failed and there is no process.
  void start() {
    record_.state = RunRecord::State::kRunning;
    guarded([&] { begin_training(); });
  }

  // Reads what the process has printed and goes on to the next one when it has ended; false when
  // nothing is left to do. Lines that are no progress go to `lines`.
  bool advance(std::vector<std::string>& lines, bool is_stopping) {
    take_lines(lines);
    if (!process_->poll_end()) return true;
    take_lines(lines);
    const ChildEnd end = *process_->poll_end();
    process_.reset();
    if (end.exit_code != 0) {
      // A process that was asked to stop has saved what it had.
      const bool is_stopped = end.signal != 0 || end.exit_code == static_cast<int>(ErrorKind::kRun);
      if (is_stopping && is_stopped && error_.empty()) {
        record_.state = RunRecord::State::kWaiting;
      } else if (activity_.phase == kExtrasPhase) {
        lines.push_back(
            str("samples and diagnostics are missing, the same command tries again: ", why(end)));
        record_.state = RunRecord::State::kDone;
      } else {
        fail(end);
      }
      return false;
    }
    if (is_stopping) {
      record_.state = RunRecord::State::kWaiting;
      return false;
    }
    guarded([&] { begin_evaluation(); });
    return process_ != nullptr;
  }

 private:
  // What goes wrong with one run, such as a folder that was removed, must not end the others.
  template <typename Action>
  void guarded(const Action& action) {
    try {
      action();
    } catch (const std::exception& error) {
      process_.reset();
      fail(run::failure_of(error, record_.folder, "").what());
    }
  }

  [[nodiscard]] fs::path folder() const { return options_.folder / record_.folder; }

  // Signals reach the process through this program only: a terminal's Ctrl-C goes to the whole
  // foreground group, and the second one would end the process without saving.
  void begin(const std::string& phase, std::vector<std::string> arguments) {
    activity_ = {.run = record_.folder, .phase = phase};
    error_.clear();
    stopped_.clear();
    for (const std::string& word : {std::string("--threads"), str(options_.threads),
                                    std::string("--device"), options_.device_name}) {
      arguments.push_back(word);
    }
    if (options_.is_forced) arguments.emplace_back("--force");
    process_ =
        std::make_unique<ChildProcess>(Launch{.program = options_.program.string(),
                                              .arguments = std::move(arguments),
                                              .environment = {"MNEME_PROGRESS=json", "NO_COLOR=1"},
                                              .signal_mask = options_.signal_mask,
                                              .has_own_group = true});
  }

  void begin_training() {
    if (fs::exists(folder() / "experiment.toml")) {
      begin("train", {"train", "--resume", folder().string()});
      return;
    }
    const fs::path file = options_.folder / "experiments" / (record_.folder + ".toml");
    fs::create_directories(file.parent_path());
    write_file_atomic(file, config::to_toml(experiment_));
    std::vector<std::string> arguments = {"train", file.string(), "--run", folder().string()};
    if (!options_.initial_weights.empty()) {
      arguments.insert(arguments.end(), {"--init", kept_weights(options_.folder).string()});
    }
    begin("train", arguments);
  }

  // Begins the next evaluation that is missing; without one the run is done.
  void begin_evaluation() {
    if (!note_start()) return;
    for (const data::Split split : comparison_.splits) {
      std::vector<std::string> others;
      const std::int64_t step = last_step();
      const std::string found = find_evaluation(folder(), split, step, arm().plugins, others);
      if (split == comparison_.splits.front()) evaluation_ = found;
      if (!found.empty()) continue;
      const std::string word(data::to_word(split));
      if (!tried_.insert(word).second) {
        throw_run({.where = scores::evaluations_folder(folder()).string(),
                   .failed = "mneme eval ended well but left no evaluation that can be used",
                   .expected = str("one of the ", word, " split after step ", step,
                                   ", with the run's experiment.toml and plugin files"),
                   .got = others.empty() ? std::string("none") : join(others, "; "),
                   .hint = "run the same command again; what does not fit may be removed"});
      }
      begin("evaluate " + word, {"eval", folder().string(), "--split", word});
      return;
    }
    begin_extras();
  }

  // Lets the run make what the report shows beside losses and is missing. A run without it is
  // complete: no number of the comparison depends on it.
  void begin_extras() {
    record_.state = RunRecord::State::kDone;
    if (!tried_.insert(std::string(kExtrasPhase)).second) return;
    std::vector<std::string> words = {"eval", folder().string(), "--split",
                                      std::string(data::to_word(comparison_.splits.front()))};
    const std::size_t least = words.size();
    if (comparison_.samples > 0 &&
        !has_samples(scores::generated_file(folder(), evaluation_), comparison_)) {
      words.insert(words.end(), {"--samples", str(comparison_.samples), "--prompt-tokens",
                                 str(comparison_.prompt_tokens)});
    }
    if (comparison_.diagnostics > 0 &&
        !has_diagnostics(scores::diagnostics_file(folder(), evaluation_), comparison_)) {
      words.insert(words.end(), {"--diagnostics", str(comparison_.diagnostics)});
    }
    if (words.size() == least) return;
    record_.state = RunRecord::State::kRunning;
    begin(std::string(kExtrasPhase), std::move(words));
  }

  [[nodiscard]] std::int64_t last_step() const {
    const std::vector<std::int64_t> steps = run::RunFolder::at(folder()).checkpoints().steps();
    return steps.empty() ? 0 : steps.back();
  }
  [[nodiscard]] const ArmRecord& arm() const {
    return *std::ranges::find(comparison_.arms, record_.arm,
                              [](const ArmRecord& arm) { return arm.setup.name; });
  }

  // The program and the plugins must be those that were looked at before the first run, and the
  // first weights those of the other arms with this seed; false when they are not.
  bool note_start() {
    const Json info = run::RunFolder::open(folder()).info();
    record_.initial_sha256 = info.value("initial_backbone_sha256", std::string());
    check_same_files(info, arm().plugins, record_.folder);
    for (const ArmRecord& arm : comparison_.arms) {
      if (arm.setup.experiment.model != experiment_.model) continue;  // of other sizes
      for (const RunRecord& other : arm.runs) {
        if (other.seed != record_.seed || other.state == RunRecord::State::kFailed ||
            other.initial_sha256.empty() || other.initial_sha256 == record_.initial_sha256) {
          continue;
        }
        fail(str("its backbone did not start from the weights of ", other.folder, ": expected ",
                 other.initial_sha256, ", got ", record_.initial_sha256));
        return false;
      }
    }
    return true;
  }

  void take_lines(std::vector<std::string>& lines) {
    for (std::string& line : process_->read_lines()) {
      if (line.starts_with('{') && take_progress(line)) continue;
      if (!error_.empty() || line.starts_with("mneme: error")) {
        error_ += (error_.empty() ? "" : "\n") + line;
      } else if (line.starts_with(kStopped)) {
        stopped_ = line.substr(std::string_view("mneme: ").size());
        stopped_.resize(std::min(stopped_.find("; continue with"), stopped_.size()));
      } else if (!line.empty()) {
        lines.push_back(std::move(line));
      }
    }
  }

  bool take_progress(const std::string& line) {
    const Json json = parse_json(line);
    if (json.is_discarded()) return false;
    if (!json.contains("progress")) return json.contains("note");
    const Json& progress = json.at("progress");
    activity_.step = progress.value("step", std::int64_t{0});
    activity_.of = progress.value("of", std::int64_t{0});
    if (activity_.phase == "train" && progress.value("title", std::string()) == "train") {
      steps_ = activity_.step;
      total_steps_ = activity_.of;
    }
    return true;
  }

  void fail(const ChildEnd& end) {
    record_.state = RunRecord::State::kFailed;
    record_.exit_code = end.exit_code < 0 ? 128 + end.signal : end.exit_code;
    record_.error = why(end);
  }

  // Why the process failed, as it said itself.
  [[nodiscard]] std::string why(const ChildEnd& end) const {
    const std::string_view prefix = "mneme: error: ";
    if (!error_.empty()) {
      return error_.starts_with(prefix) ? error_.substr(prefix.size()) : error_;
    }
    return stopped_.empty()
               ? str(activity_.phase, ": ", end.text())
               : str(activity_.phase, ": its process was ", stopped_, "; the same command goes on");
  }

  // Without a process.
  void fail(const std::string& reason) {
    record_.state = RunRecord::State::kFailed;
    record_.exit_code = static_cast<int>(ErrorKind::kRun);
    record_.error = reason;
  }

  RunRecord& record_;
  const config::Experiment experiment_;
  const Record& comparison_;
  const Options& options_;
  Activity activity_;
  std::unique_ptr<ChildProcess> process_;
  std::string error_;    // the lines from "mneme: error" on
  std::string stopped_;  // "stopped by SIGTERM after step 3 of 9; saved"; "" = it was not
  std::set<std::string> tried_;
  std::string evaluation_;  // the stored one of the first split
  std::int64_t steps_ = 0;
  std::int64_t total_steps_ = 0;
};

// All runs of a comparison: those that run, those that wait, and how far all of them are.
class Runs {
 public:
  Runs(Record& record, const Options& options, Observer& observer)
      : record_(record), options_(options), observer_(observer) {
    // Seeds one after another, so that all arms can be compared early.
    for (std::size_t seed = 0; seed < record.seeds.size(); ++seed) {
      for (ArmRecord& arm : record.arms) {
        config::Experiment experiment = arm.setup.experiment;
        experiment.train.seed = arm.runs[seed].seed;
        waiting_.push_back(std::make_unique<RunTask>(arm.runs[seed], experiment, record, options));
        ++runs_;
      }
    }
  }

  // True when the observer asked to stop. Before an error, such as a full disk, leaves, the
  // processes save what they have: their destructors would kill them.
  bool run() {
    try {
      return run_to_end();
    } catch (...) {
      stop_all();
      throw;
    }
  }

 private:
  [[nodiscard]] bool is_stopping() const { return signal_ != 0; }

  bool run_to_end() {
    save();
    while (!active_.empty() || !waiting_.empty()) {
      start_more();
      std::vector<ChildProcess*> processes;
      for (const auto& task : active_) processes.push_back(task->process());
      ChildProcess::wait_for_any(processes, kPollMs);
      pass_signal();
      advance();
      report();
      if (is_stopping() && active_.empty()) break;
    }
    return is_stopping();
  }

  // Names and messages may hold bytes that are no UTF-8.
  void save() const {
    write_file_atomic(options_.folder / "comparison.json",
                      to_json(record_).dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
  }

  void stop_all() {
    std::vector<ChildProcess*> processes;
    for (const auto& task : active_) {
      if (task != nullptr && task->process() != nullptr) processes.push_back(task->process());
    }
    for (ChildProcess* const process : processes) process->send(SIGTERM);
    while (!processes.empty()) {
      ChildProcess::wait_for_any(processes, kPollMs);
      // A full pipe would hold a process up.
      for (ChildProcess* const process : processes) static_cast<void>(process->read_lines());
      std::erase_if(processes, [](ChildProcess* one) { return one->poll_end().has_value(); });
    }
  }

  void start_more() {
    while (!is_stopping() && !waiting_.empty() &&
           static_cast<std::int64_t>(active_.size()) < options_.jobs) {
      std::unique_ptr<RunTask> task = std::move(waiting_.front());
      waiting_.pop_front();
      task->start();
      if (task->process() == nullptr) {
        finish(*task);
        continue;
      }
      active_.push_back(std::move(task));
      save();
    }
  }

  void pass_signal() {
    const int signal = observer_.stop_signal();
    if (signal == 0 || signal == signal_) return;
    signal_ = signal;
    for (const auto& task : active_) task->process()->send(signal);
  }

  void advance() {
    for (auto& task : active_) {
      std::vector<std::string> lines;
      const bool goes_on = task->advance(lines, is_stopping());
      for (const std::string& line : lines) {
        if (said_.insert(line).second) observer_.on_message(task->record().folder, line);
      }
      if (goes_on) continue;
      finish(*task);
      task.reset();
    }
    std::erase(active_, nullptr);
  }

  void finish(RunTask& task) {
    save();
    if (task.record().state == RunRecord::State::kWaiting) return;
    ++done_;
    done_steps_ += std::max(task.steps(), task.total_steps());
    longest_ = std::max(longest_, task.total_steps());
    observer_.on_end(task.record(), done_);
  }

  void report() {
    std::vector<Activity> active;
    std::int64_t steps = done_steps_;
    for (const auto& task : active_) {
      active.push_back(task->activity());
      steps += task->steps();
      longest_ = std::max(longest_, task->total_steps());
    }
    observer_.on_progress(active, done_, steps, longest_ * runs_);
  }

  Record& record_;
  const Options& options_;
  Observer& observer_;
  std::deque<std::unique_ptr<RunTask>> waiting_;
  std::vector<std::unique_ptr<RunTask>> active_;
  std::set<std::string> said_;
  std::int64_t runs_ = 0;
  std::int64_t done_ = 0;
  std::int64_t done_steps_ = 0;
  std::int64_t longest_ = 0;  // steps of a training, as far as they are known
  int signal_ = 0;
};

}  // namespace

bool run_all(Record& record, const Options& options, Observer& observer) {
  std::error_code failure;
  fs::create_directories(options.folder, failure);
  if (failure) {
    throw_usage({.where = options.folder.string(),
                 .failed = "the comparison's folder cannot be made",
                 .got = failure.message(),
                 .hint = "name another place with --run DIR"});
  }
  const run::RunLock lock(options.folder);
  if (!options.initial_weights.empty()) keep_initial_weights(options);
  return Runs(record, options, observer).run();
}

}  // namespace mneme::compare
