// Progress of work on a model, and its result on one line.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "host/base/log.hpp"
#include "host/base/progress.hpp"
#include "host/cli/streams.hpp"
#include "host/data/dataset.hpp"
#include "host/eval/result.hpp"
#include "host/run/record/observer.hpp"

namespace mneme::cli {

// Progress on stderr of one phase of work after another, each a bar on a terminal and lines
// elsewhere. Silent when quiet; then the log shows warnings and errors only, and log files get the
// rest.
class Display {
 public:
  Display(const Streams& streams, bool is_quiet, const Clock& clock = steady_clock());

  // Announces a series of similar runs, then begins each: its phases show the run's number, and the
  // time left for the whole series.
  void count_runs(std::int64_t runs) { run_ = {.number = 0, .of = runs, .seconds = {}}; }
  void next_run();
  // Begins a phase; the one before ends. `steps` and `tokens` of a resumed run are already done.
  void begin(const std::string& title, std::int64_t total_steps, std::int64_t steps = 0,
             std::int64_t tokens = 0);
  void update(const run::StepReport& report);
  void update(std::int64_t segments, std::int64_t tokens);
  // A whole line, without damage to the bar.
  void note(const std::string& line);
  void end();

 private:
  [[nodiscard]] double seconds_of_runs() const;  // since the first one began

  const Streams& streams_;
  bool is_quiet_;
  const Clock& clock_;
  ProgressRun run_;
  double first_run_ = 0.0;       // when it began
  bool is_later_phase_ = false;  // of the run
  std::unique_ptr<Progress> progress_;
  std::optional<double> mfu_;  // of the newest report that has one, as peak_bytes_
  std::optional<std::int64_t> peak_bytes_;
  std::optional<LogListener> hush_;
};

// A line for each split that was read: its tokens, documents and words, and how many words the
// vocabulary lacks.
void note_data(Display& display, const data::Dataset& dataset);

// "loss 1.2345  perplexity 3.437  accuracy 0.8123 ...": the numbers of an evaluation on one line.
[[nodiscard]] std::string result_line(const eval::Result& result);

}  // namespace mneme::cli
