// Progress of a long run (a bar on a terminal, plain lines elsewhere) and the clocks it reads.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <ostream>
#include <string>

namespace mneme {

// --- Clocks that code takes as an argument, so that tests control the time ---

// A monotonic clock in seconds since an arbitrary start.
class Clock {
 public:
  Clock() = default;
  Clock(const Clock&) = delete;
  Clock& operator=(const Clock&) = delete;
  virtual ~Clock() = default;
  [[nodiscard]] virtual double seconds() const = 0;
};

// The machine's steady clock.
class SteadyClock final : public Clock {
 public:
  [[nodiscard]] double seconds() const override {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
  }
};

// A clock that moves only when told to.
class ManualClock final : public Clock {
 public:
  [[nodiscard]] double seconds() const override { return now_; }
  void advance(double seconds) { now_ += seconds; }

 private:
  double now_ = 0.0;
};

// The process-wide steady clock.
[[nodiscard]] inline const Clock& steady_clock() {
  static const SteadyClock clock;
  return clock;
}

// The place of a run in a series of similar runs, to estimate the time of all of them.
struct ProgressRun {
  std::int64_t number = 0;  // from 1
  std::int64_t of = 0;      // runs in all; up to 1 = there are no others
  std::optional<double> seconds =
      {};  // of one run, from earlier ones; absent = those of this phase
};

struct ProgressOptions {
  std::string title = "";        // in front of every line: "train", "eval test"
  ProgressRun run = {};          // adds "run 3 of 15", and to the time left that of all runs
  std::int64_t total_steps = 0;  // 0 = unknown: no bar, no time left
  bool is_terminal = false;      // true: redraw one line with '\r'; false: whole lines
  bool is_json = false;          // whole lines for programs: see json_note
  double redraw_seconds = 0.2;   // least time between two redraws of the bar
  double line_seconds = 10.0;    // least time between two plain lines
  int bar_width = 24;            // characters between the brackets
  int terminal_width = 0;        // columns (0 = any number): see below
};

// The state of a run at one update. `step` and `tokens` count from the start of the run, not since
// the last call.
struct ProgressState {
  std::int64_t step = 0;
  std::int64_t tokens = 0;          // target tokens processed so far
  std::optional<double> loss = {};  // nats per token
  std::optional<double> learning_rate = {};
  std::optional<double> mfu = {};               // model FLOPs utilization, 0.25 = a quarter
  std::optional<std::int64_t> peak_bytes = {};  // of a GPU's memory
  bool has_more_work = false;  // of another kind, after the last step: no time is shown there
};

// A note as a line for programs, {"note": text}, and how such a line shows progress:
// {"progress": {"title", "step", "of", "tokens", "loss"}}.
[[nodiscard]] std::string json_note(const std::string& text);

// Writes progress to a stream that the caller owns. The first update and the last step are always
// shown. Speed and time left are measured from construction (steps and tokens at `start` excluded,
// so a resumed run shows its own speed). Where a terminal is too narrow, parts are left out in this
// order: the learning rate, the bar, the title (first shortened), the loss, the speed, then steps
// and time left. One thread at a time.
class Progress {
 public:
  Progress(std::ostream& out, ProgressOptions options, const Clock& clock = steady_clock(),
           ProgressState start = {});

  void update(const ProgressState& state);
  // Takes effect when the next update is shown.
  void set_title(const std::string& title);
  // Prints a line of the caller's own between updates without damaging the bar.
  void note(const std::string& line);
  // Shows the last state if it was not shown yet and ends the bar's line. Idempotent.
  void finish();

  // The text of one update without bar, carriage return or newline.
  [[nodiscard]] std::string line(const ProgressState& state) const;

 private:
  // The parts of a line in their order, "" = absent.
  struct Line {
    std::string title, steps, loss, rate, speed, time;

    [[nodiscard]] std::string text() const;
  };

  [[nodiscard]] Line parts(const ProgressState& state) const;
  [[nodiscard]] std::string time_text(const ProgressState& state, double elapsed) const;
  [[nodiscard]] std::string bar(const ProgressState& state, std::size_t width) const;
  // The line of a terminal, with the bar, in at most `width` columns (0 = any number).
  [[nodiscard]] std::string fitted(const ProgressState& state, std::size_t width) const;
  void show(const ProgressState& state);

  std::ostream& out_;
  ProgressOptions options_;
  const Clock& clock_;
  ProgressState start_;
  double started_;
  double last_shown_ = 0.0;
  bool has_shown_ = false;
  bool is_pending_ = false;
  bool is_finished_ = false;
  std::size_t drawn_width_ = 0;
  ProgressState state_;
};

}  // namespace mneme
