#include "host/cli/display.hpp"

#include <cmath>
#include <string_view>
#include <utility>

#include "host/base/text.hpp"

namespace mneme::cli {

Display::Display(const Streams& streams, bool is_quiet, const Clock& clock)
    : streams_(streams), is_quiet_(is_quiet), clock_(clock) {
  if (!is_quiet) return;
  hush_.emplace([](LogLevel level, std::string_view message) {
    if (level >= LogLevel::kWarning) return true;
    if (level >= log_level()) log_to_files(level, message);
    return false;
  });
}

void Display::begin(const std::string& title, std::int64_t total_steps, std::int64_t steps,
                    std::int64_t tokens) {
  end();
  if (is_quiet_) return;
  ProgressOptions options = progress_options(streams_, title, total_steps);
  options.run = run_;
  // A later phase of the first run: the time of the run is estimated from the phases before.
  if (run_.number == 1 && is_later_phase_) options.run.seconds = seconds_of_runs();
  is_later_phase_ = true;
  progress_ = std::make_unique<Progress>(streams_.err, std::move(options), clock_,
                                         ProgressState{steps, tokens, {}, {}});
}

double Display::seconds_of_runs() const { return clock_.seconds() - first_run_; }

void Display::next_run() {
  if (run_.number == 0) first_run_ = clock_.seconds();
  if (run_.number > 0) run_.seconds = seconds_of_runs() / static_cast<double>(run_.number);
  ++run_.number;
  is_later_phase_ = false;
}

void Display::update(const run::StepReport& report) {
  if (progress_ == nullptr) return;
  if (report.mfu) mfu_ = report.mfu;
  if (report.peak_device_bytes) peak_bytes_ = report.peak_device_bytes;
  progress_->update({report.step, report.tokens, report.loss, report.lr, mfu_, peak_bytes_});
}

void Display::update(std::int64_t segments, std::int64_t tokens) {
  if (progress_ == nullptr) return;
  progress_->update({segments, tokens, {}, {}});
}

void Display::note(const std::string& line) {
  log_to_files(LogLevel::kInfo, line);
  if (is_quiet_) return;
  if (progress_ != nullptr) {
    progress_->note(line);
  } else {
    streams_.err << (streams_.is_err_json ? json_note(line) : line) + '\n' << std::flush;
  }
}

void Display::end() {
  if (progress_ != nullptr) progress_->finish();
  progress_.reset();
}

void note_data(Display& display, const data::Dataset& dataset) {
  for (const data::Split split : data::kSplits) {
    if (const auto corpus = dataset.corpus(split)) {
      display.note(str(data::to_word(split), " data: ", corpus->summary()));
    }
  }
}

std::string result_line(const eval::Result& result) {
  std::string text = str("loss ", format_number(result.loss(), 4), "  perplexity ",
                         format_number(result.perplexity(), 3), "  accuracy ",
                         format_number(result.accuracy(), 4));
  if (const auto bits = result.bits_per_character()) {
    text += "  bits a character " + format_number(*bits, 4);
  }
  if (const auto outside = result.outside_accuracy()) {
    text += "  accuracy, source outside the segment " + format_number(*outside, 4);
  }
  if (const auto share = result.partial_share()) {
    text += str("  of ", format_number(std::floor(1000.0 * *share) / 10.0, 1), " % of the split");
  }
  return text + "  " + format_count(result.tokens_per_second()) + " tokens/s";
}

}  // namespace mneme::cli
