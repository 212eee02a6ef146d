#include "host/compare/runs.hpp"

#include <algorithm>
#include <chrono>
#include <exception>
#include <memory>
#include <optional>
#include <set>
#include <thread>
#include <utility>

#include "host/base/error.hpp"
#include "host/base/file/file.hpp"
#include "host/base/json_text.hpp"
#include "host/compare/rank_agreement.hpp"
#include "host/compare/rank_schedule.hpp"
#include "host/compare/run_task.hpp"
#include "host/run/run_folder.hpp"

namespace mneme::compare {
namespace {

namespace fs = std::filesystem;
using State = RunRecord::State;

constexpr int kPollMs = 250;
// How long machines may take to see a folder that another one has made: the caches of NFS live for
// a minute at most, unless they were set otherwise.
constexpr double kFolderSeconds = 90.0;

// Why a run's first weights, once they are known, are not those of the other arms with its seed; ""
// = they are.
std::string why_other_start(const Record& record, const ArmRecord& its_arm, const RunRecord& run) {
  for (const ArmRecord& arm : record.arms) {
    if (arm.setup.experiment.model != its_arm.setup.experiment.model ||  // of other sizes
        arm.replaced != its_arm.replaced) {
      continue;
    }
    for (const RunRecord& other : arm.runs) {
      if (other.seed != run.seed || other.state == State::kFailed || other.initial_sha256.empty() ||
          other.initial_sha256 == run.initial_sha256) {
        continue;
      }
      return str("its backbone did not start from the weights of ", other.folder, ": expected ",
                 other.initial_sha256, ", got ", run.initial_sha256);
    }
  }
  return "";
}

// "warning text" of the log's line "12:34:56 warning text"; other lines as they are.
std::string without_time(const std::string& line) {
  constexpr std::string_view kTime = "00:00:00 ";
  if (line.size() < kTime.size()) return line;
  for (std::size_t i = 0; i < kTime.size(); ++i) {
    const bool fits = kTime[i] == '0' ? line[i] >= '0' && line[i] <= '9' : line[i] == kTime[i];
    if (!fits) return line;
  }
  return line.substr(kTime.size());
}

// All runs of a comparison: those that run, those that wait, and how far all of them are.
//
// Every rank has the whole queue and its own record. Several times a second all ranks tell one
// another how far their own runs are, and change queue and record alike, so that nobody has to be
// asked who does what. A process alone is one rank, which tells itself.
class Runs {
 public:
  Runs(Record& record, const Options& options, Observer& observer)
      : record_(record),
        options_(options),
        observer_(observer),
        queue_(queue_of(record)),
        schedule_(queue_.size(), ranks() == nullptr ? 1 : static_cast<std::size_t>(ranks()->size()),
                  options.jobs),
        said_(record.logged) {
    for (const ArmRecord& arm : record.arms) {
      for (std::size_t i = 0; i < std::min(record.ended_seeds, arm.runs.size()); ++i)
        ++(arm.runs[i].state == State::kFailed ? counts_.failed : counts_.done);
    }
    ended_before_ = counts_.done + counts_.failed;
  }

  // The signal that asked to stop; 0 = none. Before an error, such as a full disk, leaves, the
  // processes save what they have: their destructors would kill them.
  int run() {
    try {
      do {
        exchange(work_or_failure());
      } while (!is_over());
      tell();
      return signal_;
    } catch (...) {
      stop_all();
      throw;
    }
  }

 private:
  struct Place {
    ArmRecord* arm = nullptr;
    RunRecord* record = nullptr;
    RunNews news = {};  // the newest
  };

  // Seeds one after another, so that all arms can be compared early. Arms that are refused have
  // nothing to do.
  static std::vector<Place> queue_of(Record& record) {
    std::vector<Place> queue;
    for (std::size_t seed = record.ended_seeds; seed < record.seeds.size(); ++seed) {
      for (ArmRecord& arm : record.arms) {
        if (!arm.setup.refused.empty() || seed >= arm.runs.size()) continue;
        queue.push_back({.arm = &arm, .record = &arm.runs[seed], .news = {}});
      }
    }
    std::erase_if(queue, [](const Place& place) { return !has_work(*place.arm); });
    return queue;
  }

  [[nodiscard]] ranks::Communicator* ranks() const { return options_.ranks; }
  [[nodiscard]] std::size_t rank() const {
    return ranks() == nullptr ? 0 : static_cast<std::size_t>(ranks()->rank());
  }
  [[nodiscard]] bool is_stopping() const { return signal_ != 0; }
  [[nodiscard]] bool is_over() const {
    return schedule_.active() == 0 && (is_stopping() || schedule_.waiting() == 0);
  }

  // --- What this rank does between two exchanges ---

  // An error is told to the other ranks before it leaves.
  RankNews work_or_failure() {
    try {
      return work();
    } catch (const std::exception& error) {
      failure_ = std::current_exception();
      return {.failure = error.what()};
    }
  }

  RankNews work() {
    tell();
    for (const auto& task : tasks_) task->go_on(is_stopping());
    if (!is_stopping()) start_more();
    wait();
    RankNews news{.signal = observer_.stop_signal()};
    for (const auto& task : tasks_) {
      task->look(is_stopping() || news.signal != 0);
      news.runs.push_back(task->take_news());
    }
    return news;
  }

  void start_more() {
    for (const auto& [run, rank_of_run] : schedule_.hand_out()) {
      const Place& place = queue_[run];
      place.record->state = State::kRunning;
      has_changed_ = true;
      if (rank_of_run != rank()) continue;
      config::Experiment experiment = place.arm->setup.experiment;
      experiment.train.seed = place.record->seed;
      tasks_.push_back(std::make_unique<RunTask>(run, *place.record, std::move(experiment), record_,
                                                 options_, free_device()));
      tasks_.back()->start();
    }
  }

  [[nodiscard]] const std::string& free_device() const {
    std::vector<std::int64_t> work;
    for (const std::string& name : options_.device_names) {
      work.push_back(
          std::ranges::count_if(tasks_, [&](const auto& task) { return task->device() == name; }));
    }
    return options_.device_names[freest(work)];
  }

  // Until a process says something; not at all when something can be told already.
  void wait() {
    std::vector<ChildProcess*> processes;
    for (const auto& task : tasks_) {
      if (task->process() == nullptr) return;
      processes.push_back(task->process());
    }
    if (!processes.empty()) {
      ChildProcess::wait_for_any(processes, kPollMs);
    } else {
      std::this_thread::sleep_for(std::chrono::milliseconds(kPollMs));
    }
  }

  // --- What all ranks do with what all have told ---

  void exchange(const RankNews& mine) {
    std::vector<RankNews> all;
    if (ranks() == nullptr) {
      all.push_back(mine);
    } else {
      for (const std::string& text : ranks()->all_gather(write_news(mine), "compare: runs")) {
        all.push_back(read_news(text));
      }
    }
    leave_on_failure(all);
    for (const RankNews& news : all) {
      for (const RunNews& run : news.runs) take(run);
    }
    copy_shared_runs(record_);
    take_signal(all);
    std::erase_if(tasks_, [&](const auto& task) {
      return queue_[task->run()].record->state != State::kRunning;
    });
  }

  // Returns only when no rank has failed. Else all leave when all their processes have saved.
  void leave_on_failure(const std::vector<RankNews>& all) {
    const auto failed =
        std::ranges::find_if(all, [](const RankNews& news) { return !news.failure.empty(); });
    if (failed == all.end()) return;
    stop_all();
    if (ranks() != nullptr) ranks()->meet("compare: the end after a failure");
    if (failure_) std::rethrow_exception(failure_);
    const auto rank = static_cast<int>(failed - all.begin());
    throw_run(name_of(*ranks(), rank), ": ", failed->failure);
  }

  void take(const RunNews& news) {
    Place& place = queue_.at(news.run);
    RunRecord& record = *place.record;
    const bool has_start = record.initial_sha256.empty() && !news.initial_sha256.empty();
    place.news = news;
    record.state = news.state;
    record.initial_sha256 = news.initial_sha256;
    record.error = news.error;
    record.exit_code = news.exit_code;
    record.loss = news.loss;
    if (has_start && news.state == State::kRunning) {
      record.error = why_other_start(record_, *place.arm, record);
      if (!record.error.empty()) {
        record.state = State::kFailed;
        record.exit_code = static_cast<int>(ErrorKind::kRun);
      }
    }
    for (const std::string& line : news.lines) messages_.emplace_back(record.folder, line);
    if (record.state == State::kRunning) return;
    schedule_.end(news.run);
    ended_.push_back(news.run);
    has_changed_ = true;
  }

  // The first signal counts: a second one would end the processes before they have saved.
  void take_signal(const std::vector<RankNews>& all) {
    if (is_stopping()) return;
    const auto signalled =
        std::ranges::find_if(all, [](const RankNews& news) { return news.signal != 0; });
    if (signalled == all.end()) return;
    signal_ = signalled->signal;
    for (const auto& task : tasks_) {
      if (task->process() != nullptr) task->process()->send(signal_);
    }
  }

  void stop_all() {
    std::vector<ChildProcess*> processes;
    for (const auto& task : tasks_) {
      if (task->process() != nullptr) processes.push_back(task->process());
    }
    for (ChildProcess* const process : processes) process->send(SIGTERM);
    while (!processes.empty()) {
      ChildProcess::wait_for_any(processes, kPollMs);
      // A full pipe would hold a process up.
      for (ChildProcess* const process : processes) static_cast<void>(process->read_lines());
      std::erase_if(processes, [](ChildProcess* one) { return one->poll_end().has_value(); });
    }
    tasks_.clear();
  }

  // --- What rank 0 makes of it ---

  // Writes and shows what the last exchange has changed.
  void tell() {
    const auto messages = std::exchange(messages_, {});
    const auto ended = std::exchange(ended_, {});
    if (rank() != 0) return;
    if (std::exchange(has_changed_, false)) save();
    for (const auto& [run, line] : messages) {
      if (said_.insert(without_time(line)).second) observer_.on_message(run, line);
    }
    for (const std::size_t run : ended) {
      const RunRecord& record = *queue_[run].record;
      if (record.state == State::kWaiting) continue;
      ++(record.state == State::kFailed ? counts_.failed : counts_.done);
      observer_.on_end(record, counts_);
    }
    report();
  }

  // Names and messages may hold bytes that are no UTF-8.
  void save() const {
    write_file_atomic(options_.folder / "comparison.json", json_text(to_json(record_), 2) + "\n");
  }

  void report() {
    std::vector<Activity> active;
    std::int64_t steps = 0, longest = 0, trained = 0;
    for (const auto& [arm, record, news] : queue_) {
      // One that was trained before tells no steps, and has none to do.
      if (record->is_complete && news.total_steps == 0) continue;
      ++trained;
      if (record->state == State::kWaiting) continue;
      const bool is_running = record->state == State::kRunning;
      if (is_running && !news.activity.run.empty()) active.push_back(news.activity);
      steps += is_running ? news.steps : std::max(news.steps, news.total_steps);
      longest = std::max(longest, news.total_steps);
    }
    // Of the seeds before, as their runs are counted.
    observer_.on_progress(active, counts_, steps + longest * ended_before_,
                          longest * (trained + ended_before_));
  }

  Record& record_;
  const Options& options_;
  Observer& observer_;
  std::vector<Place> queue_;
  RankSchedule schedule_;
  std::vector<std::unique_ptr<RunTask>> tasks_;  // this rank's
  std::exception_ptr failure_;                   // this rank's
  int signal_ = 0;
  // What is to be told; the record is written before the first run begins.
  bool has_changed_ = true;
  std::vector<std::pair<std::string, std::string>> messages_;  // run, line
  std::vector<std::size_t> ended_;
  std::set<std::string> said_;  // lines of the log, without their times
  EndedRuns counts_;
  std::int64_t ended_before_ = 0;  // Record::ended_seeds
};

void make_folder(const fs::path& folder) {
  std::error_code failure;
  fs::create_directories(folder, failure);
  if (!failure) return;
  throw_usage({.where = folder.string(),
               .failed = "the comparison's folder cannot be made",
               .got = failure.message(),
               .hint = "name another place with --run DIR"});
}

}  // namespace

int run_all(Record& record, const Options& options, Observer& observer) {
  ranks::Communicator* const ranks = options.ranks;
  // Before anything is written: what is written changes what a rank prepares.
  if (ranks != nullptr) check_alike(*ranks, record);
  std::optional<run::RunLock> lock;
  if (ranks == nullptr || ranks->is_first()) {
    make_folder(options.folder);
    lock.emplace(options.folder);
    if (!options.initial_weights.empty()) keep_initial_weights(options);
  }
  if (ranks != nullptr) check_folder_is_shared(*ranks, options, kFolderSeconds);
  return Runs(record, options, observer).run();
}

}  // namespace mneme::compare
