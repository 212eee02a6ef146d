#include "host/cli/streams.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <iostream>
#include <sstream>
#include <string_view>
#include <utility>

#include "host/base/log.hpp"
#include "host/base/text.hpp"

namespace mneme::cli {

namespace {

constexpr int kUsualWidth = 80;
constexpr int kMinWidth = 40;

// Columns of the terminal behind a descriptor; 0 = unknown. COLUMNS has precedence.
int width_of(int descriptor) {
  const char* const columns = std::getenv("COLUMNS");
  const int named = columns == nullptr ? 0 : std::atoi(columns);
  if (named > 0) return std::max(kMinWidth, named);
  winsize size{};
  if (::isatty(descriptor) != 1 || ::ioctl(descriptor, TIOCGWINSZ, &size) != 0) return 0;
  return size.ws_col;
}

}  // namespace

Streams standard_streams() {
  const char* const progress = std::getenv("MNEME_PROGRESS");
  const bool is_json = progress != nullptr && std::string_view(progress) == "json";
  const bool is_terminal = !is_json && ::isatty(STDERR_FILENO) == 1;
  const char* const no_color = std::getenv("NO_COLOR");
  const int out_width = width_of(STDOUT_FILENO);
  return {.out = std::cout,
          .err = std::cerr,
          .is_err_terminal = is_terminal,
          .is_err_json = is_json,
          .is_err_coloured = is_terminal && (no_color == nullptr || *no_color == '\0'),
          .err_width = is_terminal ? width_of(STDERR_FILENO) : 0,
          .out_width = static_cast<std::size_t>(out_width == 0 ? kUsualWidth
                                                               : std::max(kMinWidth, out_width)),
          .is_out_terminal = ::isatty(STDOUT_FILENO) == 1};
}

ProgressOptions progress_options(const Streams& streams, std::string title,
                                 std::int64_t total_steps) {
  return {.title = std::move(title),
          .total_steps = total_steps,
          .is_terminal = streams.is_err_terminal,
          .is_json = streams.is_err_json,
          .terminal_width = streams.err_width};
}

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

void report_error(const Streams& streams, const std::string& subject, const Error& error) {
  streams.err << str("mneme: error: ", subject, subject.empty() ? "" : ": ", error.what(), '\n')
              << std::flush;
}

void note_data(Display& display, const data::Dataset& dataset) {
  for (const data::Split split : data::kSplits) {
    if (const auto corpus = dataset.corpus(split)) {
      display.note(str(data::to_word(split), " data: ", corpus->summary()));
    }
  }
}

namespace {

// A line that is too long, without its end.
std::string fit_line(const std::string& line, std::size_t width) {
  const std::size_t leading = std::min(line.find_first_not_of(' '), line.size());
  std::size_t head = leading, indent = leading + 4;
  for (std::size_t gap = line.find("  ", leading); gap < width / 2; gap = line.find("  ", head)) {
    head = indent = std::min(line.find_first_not_of(' ', gap), line.size());
  }
  std::string out = line.substr(0, head);
  std::size_t column = text_width(out);
  bool is_first = true;
  std::istringstream words(line.substr(head));
  for (std::string word; words >> word; is_first = false) {
    const std::size_t columns = text_width(word);
    if (!is_first && column + 1 + columns > width) {
      out += '\n' + std::string(indent, ' ') + word;
      column = indent + columns;
    } else {
      out += (is_first ? "" : " ") + word;
      column += columns + (is_first ? 0 : 1);
    }
  }
  return out;
}

}  // namespace

std::string fit_lines(const std::string& text, std::size_t width) {
  std::istringstream lines(text);
  std::string out;
  for (std::string line; std::getline(lines, line);) {
    out += (text_width(line) > width ? fit_line(line, width) : line) + '\n';
  }
  return out;
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
