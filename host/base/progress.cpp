#include "host/base/progress.hpp"

#include <algorithm>
#include <utility>

#include "host/base/text.hpp"

namespace mneme {

Progress::Progress(std::ostream& out, ProgressOptions options, const Clock& clock,
                   ProgressState start)
    : out_(out),
      options_(std::move(options)),
      clock_(clock),
      start_(start),
      started_(clock.seconds()),
      state_(start) {}

std::string Progress::line(const ProgressState& state) const {
  const double elapsed = clock_.seconds() - started_;
  const std::int64_t total = options_.total_steps;
  std::string text = options_.title;
  if (!text.empty()) text += ' ';
  text += total > 0 ? str(state.step, '/', total) : str(state.step);
  if (state.loss) text += "  loss " + format_number(*state.loss, 4);
  if (state.learning_rate) text += str("  lr ", *state.learning_rate);
  const std::int64_t steps = state.step - start_.step;
  const std::int64_t tokens = state.tokens - start_.tokens;
  if (elapsed > 0 && tokens > 0) {
    text += "  " + format_count(static_cast<double>(tokens) / elapsed) + " tokens/s";
  }
  if (total > 0 && state.step >= total) {
    text += "  in " + format_duration(elapsed);
  } else if (total > 0 && steps > 0) {
    const double left =
        elapsed / static_cast<double>(steps) * static_cast<double>(total - state.step);
    text += "  " + format_duration(left) + " left";
  }
  return text;
}

void Progress::update(const ProgressState& state) {
  state_ = state;
  is_pending_ = true;
  const double interval = options_.is_terminal ? options_.redraw_seconds : options_.line_seconds;
  const bool is_last = options_.total_steps > 0 && state.step >= options_.total_steps;
  if (!has_shown_ || is_last || clock_.seconds() - last_shown_ >= interval) show(state);
}

void Progress::show(const ProgressState& state) {
  std::string text = line(state);
  if (options_.is_terminal && options_.total_steps > 0 && options_.bar_width > 0) {
    const double share = std::clamp(
        static_cast<double>(state.step) / static_cast<double>(options_.total_steps), 0.0, 1.0);
    const auto width = static_cast<std::size_t>(options_.bar_width);
    const auto filled = static_cast<std::size_t>(share * static_cast<double>(width));
    text = str('[', std::string(filled, '#'), std::string(width - filled, '.'), "] ", text);
  }
  if (options_.is_terminal) {
    // A line that wraps could not be redrawn in place.
    if (options_.terminal_width > 1) {
      text = text.substr(0, static_cast<std::size_t>(options_.terminal_width - 1));
    }
    // Blanks cover what a longer line before left behind.
    const std::size_t width = text.size();
    if (width < drawn_width_) text.append(drawn_width_ - width, ' ');
    drawn_width_ = width;
    out_ << '\r' << text << std::flush;
  } else {
    out_ << text << '\n' << std::flush;
  }
  last_shown_ = clock_.seconds();
  has_shown_ = true;
  is_pending_ = false;
}

void Progress::note(const std::string& text) {
  if (options_.is_terminal && drawn_width_ > 0) {
    out_ << '\r' << std::string(drawn_width_, ' ') << '\r';
    drawn_width_ = 0;
    is_pending_ = true;
  }
  out_ << text << '\n' << std::flush;
}

void Progress::finish() {
  if (is_finished_) return;
  is_finished_ = true;
  if (is_pending_) show(state_);
  if (options_.is_terminal && drawn_width_ > 0) out_ << '\n' << std::flush;
}

}  // namespace mneme
