// One run of a comparison on its way.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "host/base/process/child_process.hpp"
#include "host/compare/rank_schedule.hpp"
#include "host/compare/runs.hpp"

namespace mneme::compare {

// A training, then the evaluations that it lacks, a process each. The run's news say how far it is;
// those who read them change the record.
class RunTask {
 public:
  // `run`: the record's place in the queue. The device is the processes'.
  RunTask(std::size_t run, const RunRecord& record, config::Experiment experiment,
          const Record& comparison, const Options& options, std::string device);

  [[nodiscard]] std::size_t run() const { return news_.run; }
  [[nodiscard]] const std::string& device() const { return device_; }
  // nullptr between two processes, and when the run is not running any more.
  [[nodiscard]] ChildProcess* process() { return process_.get(); }

  // Starts the training. When that cannot be, the run has failed.
  void start();
  // Reads what the process has printed, and how it ended.
  void look(bool is_stopping);
  // Between two processes: starts the next one; without one the run is done. When it `is_stopping`
  // nothing is started: the run waits for the next call of the same command.
  void go_on(bool is_stopping);
  // How far the run is; lines are handed over once.
  [[nodiscard]] RunNews take_news();

 private:
  template <typename Action>
  void guarded(const Action& action);
  [[nodiscard]] std::filesystem::path folder() const;
  [[nodiscard]] const ArmRecord& arm() const;
  [[nodiscard]] std::int64_t last_step() const;

  void begin(const std::string& phase, std::vector<std::string> arguments);
  void begin_training();
  void begin_evaluation();
  void begin_extras();
  void note_start();

  void take_lines();
  [[nodiscard]] bool take_progress(const std::string& line);
  void take_end(const ChildEnd& end, bool is_stopping);
  void fail(const std::string& reason, int exit_code);
  [[nodiscard]] std::string why(const ChildEnd& end) const;

  const RunRecord& record_;
  const config::Experiment experiment_;
  const Record& comparison_;
  const Options& options_;
  const std::string device_;
  RunNews news_;
  std::unique_ptr<ChildProcess> process_;
  std::string error_;    // the lines from "mneme: error" on
  std::string stopped_;  // "stopped by SIGTERM after step 3 of 9; saved"; "" = it was not
  std::set<std::string> tried_;
  std::string evaluation_;  // the stored one of the first split
};

}  // namespace mneme::compare
