#include "host/compare/run_task.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "host/base/error.hpp"
#include "host/base/exit_status.hpp"
#include "host/base/file/file.hpp"
#include "host/base/json_text.hpp"
#include "host/compare/finished_parts.hpp"
#include "host/run/run_folder.hpp"
#include "host/scores/diagnostics.hpp"
#include "host/scores/evaluation_files.hpp"
#include "host/scores/generated.hpp"

namespace mneme::compare {
namespace {

namespace fs = std::filesystem;
using State = RunRecord::State;

constexpr std::string_view kStopped = "mneme: stopped by";
constexpr const char* kSamplesPhase = "samples";
constexpr const char* kDiagnosticsPhase = "diagnostics";

}  // namespace

RunTask::RunTask(std::size_t run, const RunRecord& record, config::Experiment experiment,
                 const Record& comparison, const Options& options, std::string device)
    : record_(record),
      experiment_(std::move(experiment)),
      comparison_(comparison),
      options_(options),
      device_(std::move(device)),
      news_{.run = run} {}

void RunTask::start() {
  guarded([&] { begin_training(); });
}

void RunTask::look(bool is_stopping) {
  if (process_ == nullptr) return;
  take_lines();
  if (!process_->poll_end()) return;
  take_lines();
  const ChildEnd end = *process_->poll_end();
  process_.reset();
  guarded([&] { take_end(end, is_stopping); });
}

void RunTask::go_on(bool is_stopping) {
  if (process_ != nullptr || news_.state != State::kRunning) return;
  if (is_stopping) {
    news_.state = State::kWaiting;
  } else {
    guarded([&] { begin_evaluation(); });
  }
}

RunNews RunTask::take_news() {
  RunNews news = news_;
  news_.lines.clear();
  return news;
}

// What goes wrong with one run, such as a folder that was removed, must not end the others.
template <typename Action>
void RunTask::guarded(const Action& action) {
  try {
    action();
  } catch (const std::exception& error) {
    process_.reset();
    fail(run::failure_of(error, record_.folder, "").what(), static_cast<int>(ErrorKind::kRun));
  }
}

fs::path RunTask::folder() const { return options_.folder / record_.folder; }

const ArmRecord& RunTask::arm() const {
  return *std::ranges::find(comparison_.arms, record_.arm,
                            [](const ArmRecord& arm) { return arm.setup.name; });
}

std::int64_t RunTask::last_step() const {
  const std::vector<std::int64_t> steps = run::RunFolder::at(folder()).checkpoints().steps();
  return steps.empty() ? 0 : steps.back();
}

// --- Processes ---

// Signals reach the process through this program only: a terminal's Ctrl-C goes to the whole
// foreground group, and the second one would end the process without saving.
void RunTask::begin(const std::string& phase, std::vector<std::string> arguments) {
  news_.activity = {.run = record_.folder, .phase = phase};
  error_.clear();
  stopped_.clear();
  arguments.insert(arguments.end(),
                   {"--threads", comparison_.machine.at("threads").dump(), "--device", device_});
  if (options_.is_forced) arguments.emplace_back("--force");
  process_ =
      std::make_unique<ChildProcess>(Launch{.program = options_.program.string(),
                                            .arguments = std::move(arguments),
                                            .environment = {"MNEME_PROGRESS=json", "NO_COLOR=1"},
                                            .signal_mask = options_.signal_mask,
                                            .has_own_group = true});
}

void RunTask::begin_training() {
  std::vector<std::string> words = {"train", "--resume", folder().string()};
  if (!fs::exists(folder() / "experiment.toml")) {
    const fs::path file = options_.folder / "experiments" / (record_.folder + ".toml");
    fs::create_directories(file.parent_path());
    write_file_atomic(file, config::to_toml(experiment_));
    words = {"train", file.string(), "--run", folder().string()};
    if (!options_.initial_weights.empty()) {
      words.insert(words.end(), {"--init", kept_weights(options_.folder).string()});
    }
  }
  words.emplace_back("--checked");  // the memory, when the arm was made
  if (const ArmCurve& curve = arm().curve; curve.every > 0) {
    words.insert(words.end(),
                 {"--curve-every", str(curve.every), "--curve-segments", str(curve.segments)});
  }
  if (arm().stop_at > 0) words.insert(words.end(), {"--stop-at", str(arm().stop_at)});
  begin("train", std::move(words));
}

// Begins the next evaluation that is missing; without one the run is done.
void RunTask::begin_evaluation() {
  for (const data::Split split : comparison_.splits) {
    std::vector<std::string> others;
    const std::int64_t step = last_step();
    const auto found = find_evaluation(folder(), split, step, arm().plugins, others);
    if (found && split == comparison_.splits.front()) {
      evaluation_ = found->name;
      news_.loss = found->loss;
    }
    if (found) continue;
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
void RunTask::begin_extras() {
  news_.state = State::kDone;
  const auto begin_one = [&](const char* phase, const char* command,
                             const std::vector<std::string>& more) {
    if (!tried_.insert(phase).second) return false;
    std::vector<std::string> words = {command, folder().string(), "--split",
                                      std::string(data::to_word(comparison_.splits.front()))};
    words.insert(words.end(), more.begin(), more.end());
    news_.state = State::kRunning;
    begin(phase, std::move(words));
    return true;
  };
  if (comparison_.samples > 0 &&
      !has_samples(scores::generated_file(folder(), evaluation_), comparison_) &&
      begin_one(kSamplesPhase, "generate",
                {"--for-report", str(comparison_.samples), "--prompt-tokens",
                 str(comparison_.prompt_tokens)})) {
    return;
  }
  if (comparison_.diagnostics > 0 &&
      !has_diagnostics(scores::diagnostics_file(folder(), evaluation_), comparison_)) {
    begin_one(kDiagnosticsPhase, "analyze", {"--for-report", str(comparison_.diagnostics)});
  }
}

// The program and the plugins must be those that were looked at before the first run.
void RunTask::note_start() {
  const Json info = run::RunFolder::open(folder()).info();
  news_.initial_sha256 = info.value("initial_backbone_sha256", std::string());
  check_same_files(info, arm().plugins, record_.folder);
}

// --- What a process says ---

void RunTask::take_lines() {
  for (std::string& line : process_->read_lines()) {
    if (line.starts_with('{') && take_progress(line)) continue;
    if (!error_.empty() || line.starts_with("mneme: error")) {
      error_ += (error_.empty() ? "" : "\n") + line;
    } else if (line.starts_with(kStopped)) {
      stopped_ = line.substr(std::string_view("mneme: ").size());
      stopped_.resize(std::min(stopped_.find("; continue with"), stopped_.size()));
    } else if (!line.empty()) {
      news_.lines.push_back(std::move(line));
    }
  }
}

bool RunTask::take_progress(const std::string& line) {
  const Json json = parse_json(line);
  if (json.is_discarded()) return false;
  if (!json.contains("progress")) return json.contains("note");
  const Json& progress = json.at("progress");
  Activity& activity = news_.activity;
  activity.step = progress.value("step", std::int64_t{0});
  activity.of = progress.value("of", std::int64_t{0});
  if (activity.phase == "train" && progress.value("title", std::string()) == "train") {
    news_.steps = activity.step;
    news_.total_steps = activity.of;
  }
  return true;
}

void RunTask::take_end(const ChildEnd& end, bool is_stopping) {
  if (end.exit_code == 0) return note_start();
  // A process that was asked to stop has saved what it had, and its status names the signal.
  const bool is_stopped = end.signal != 0 || end.exit_code > exit_code_of_signal(0);
  if (is_stopping && is_stopped && error_.empty()) {
    news_.state = State::kWaiting;
  } else if (const std::string& phase = news_.activity.phase;
             phase == kSamplesPhase || phase == kDiagnosticsPhase) {
    // The run goes on to what is left, and is done then.
    news_.lines.push_back(str(phase, " are missing, the same command tries again: ", why(end)));
  } else {
    fail(why(end), end.exit_code < 0 ? exit_code_of_signal(end.signal) : end.exit_code);
  }
}

// Why the process failed, as it said itself.
std::string RunTask::why(const ChildEnd& end) const {
  const std::string_view prefix = "mneme: error: ";
  if (!error_.empty()) {
    return error_.starts_with(prefix) ? error_.substr(prefix.size()) : error_;
  }
  return stopped_.empty() ? str(news_.activity.phase, ": ", end.text())
                          : str(news_.activity.phase, ": its process was ", stopped_,
                                "; the same command goes on");
}

void RunTask::fail(const std::string& reason, int exit_code) {
  news_.state = State::kFailed;
  news_.error = reason;
  news_.exit_code = exit_code;
}

}  // namespace mneme::compare
