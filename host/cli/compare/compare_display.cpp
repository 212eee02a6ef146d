// What `mneme compare` shows while its processes run.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "host/cli/compare/compare.hpp"
#include "host/cli/interrupt.hpp"

namespace mneme::cli {
namespace {

std::string text_of(const compare::Activity& activity) {
  std::string text = str(activity.run, ": ", activity.phase);
  if (activity.of > 0) text += str(' ', 100 * activity.step / activity.of, '%');
  return text;
}

std::string failed_text(const compare::EndedRuns& ended) {
  return ended.failed == 0 ? "" : str(", ", ended.failed, " failed");
}

// One progress line for all processes: what each does, steps of all trainings, time left; a line
// for each run that ends, with its loss on the first split, and what the processes printed.
class CompareDisplay final : public compare::Observer {
 public:
  CompareDisplay(const Streams& streams, bool is_quiet, const compare::Record& record)
      : streams_(streams),
        is_quiet_(is_quiet),
        split_(data::to_word(record.splits.front())),
        runs_(record.count_runs()) {}

  void on_progress(const std::vector<compare::Activity>& active, const compare::EndedRuns& ended,
                   std::int64_t steps, std::int64_t total_steps) override {
    if (is_quiet_ || total_steps == 0) return;
    if (progress_ == nullptr) {
      progress_ = std::make_unique<Progress>(streams_.err,
                                             progress_options(streams_, "compare", total_steps),
                                             steady_clock(), ProgressState{.step = steps});
    }
    std::vector<std::string> parts;
    for (const compare::Activity& activity : active) parts.push_back(text_of(activity));
    const std::string at_work = parts.empty() ? "" : join(parts, ", ") + "; ";
    progress_->set_title(str(ended.done, " of ", runs_, " runs done", failed_text(ended), "; ",
                             at_work, "steps of all runs:"));
    progress_->update({.step = steps, .has_more_work = !active.empty()});
  }
  void on_message(const std::string& run, const std::string& line) override {
    note(str(run, ": ", line));
  }
  void on_end(const compare::RunRecord& run, const compare::EndedRuns& ended) override {
    if (run.state == compare::RunRecord::State::kFailed) {
      note(str("mneme: error: ", run.arm, " (seed ", run.seed, "): ", run.error));
    } else if (!is_quiet_) {
      const std::string loss =
          run.loss ? str(": ", split_, " loss ", format_number(*run.loss, 4)) : std::string();
      note(str(run.folder, " is done (", ended.done, " of ", runs_, " runs", failed_text(ended),
               ")", loss));
    }
  }
  int stop_signal() override { return InterruptGuard::signal(); }
  void end() {
    if (progress_ != nullptr) progress_->finish();
  }

 private:
  void note(const std::string& line) {
    if (progress_ != nullptr) {
      progress_->note(line);
    } else {
      streams_.err << (streams_.is_err_json ? json_note(line) : line) + '\n' << std::flush;
    }
  }

  const Streams& streams_;
  bool is_quiet_;
  std::string split_;  // the first
  std::int64_t runs_ = 0;
  std::unique_ptr<Progress> progress_;
};

}  // namespace

CompareEnd run_comparison(compare::Record& record, const compare::Options& options,
                          const CompareArguments& arguments, const Streams& streams) {
  CompareDisplay display(streams, arguments.is_quiet, record);
  CompareEnd end;
  end.signal = compare::run_all(record, options, display);
  display.end();
  end.has_failures = record.has_failures();
  add_counts(record, end);
  return end;
}

}  // namespace mneme::cli
