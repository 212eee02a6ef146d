#include "host/base/progress.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "host/base/json_text.hpp"
#include "host/base/text.hpp"

namespace mneme {
namespace {

constexpr double kJsonSeconds = 0.25;  // least time between two lines for programs

// Seconds between two lines. Plain ones stay in a file or in a scheduler's log: the longer the work
// takes, the fewer, at most twenty for each doubling or so of the time.
double interval_of(const ProgressOptions& options, double elapsed) {
  constexpr double kShareOfElapsed = 0.05;
  constexpr double kMostSeconds = 600.0;
  if (options.is_json) return kJsonSeconds;
  if (options.is_terminal) return options.redraw_seconds;
  return std::clamp(kShareOfElapsed * elapsed, options.line_seconds, kMostSeconds);
}

std::string json_line(const ProgressOptions& options, const ProgressState& state) {
  Json progress = {{"title", options.title},
                   {"step", state.step},
                   {"of", options.total_steps},
                   {"tokens", state.tokens}};
  if (state.loss) progress["loss"] = number_or_null(*state.loss);
  return json_text({{"progress", std::move(progress)}});
}

}  // namespace

std::string json_note(const std::string& text) { return json_text({{"note", text}}); }

Progress::Progress(std::ostream& out, ProgressOptions options, const Clock& clock,
                   ProgressState start)
    : out_(out),
      options_(std::move(options)),
      clock_(clock),
      start_(start),
      started_(clock.seconds()),
      state_(start) {}

std::string Progress::Line::text() const {
  std::string text;
  for (const std::string* part : {&title, &steps, &loss, &rate, &speed, &time}) {
    if (part->empty()) continue;
    if (!text.empty()) text += part == &steps ? " " : "  ";
    text += *part;
  }
  return text;
}

std::string Progress::time_text(const ProgressState& state, double elapsed) const {
  const std::int64_t total = options_.total_steps;
  const std::int64_t steps = state.step - start_.step;
  const bool is_done = state.step >= total;
  if (total <= 0 || (steps <= 0 && !is_done) || (is_done && state.has_more_work)) return "";
  const double left =
      is_done ? 0.0
              : elapsed / static_cast<double>(steps) * static_cast<double>(total - state.step);
  std::string text = is_done ? "in " + format_duration(elapsed) : format_duration(left);
  if (const ProgressRun& run = options_.run; run.number < run.of) {
    const double others = static_cast<double>(run.of - run.number);
    text += is_done ? ", " : " of ";
    text += format_duration(left + others * run.seconds.value_or(elapsed + left)) + " left";
  } else if (!is_done) {
    text += " left";
  }
  return text;
}

Progress::Line Progress::parts(const ProgressState& state) const {
  const double elapsed = clock_.seconds() - started_;
  const std::int64_t total = options_.total_steps;
  const std::int64_t tokens = state.tokens - start_.tokens;
  Line line;
  line.title = options_.title;
  line.steps = total > 0 ? str(state.step, '/', total) : str(state.step);
  if (options_.run.of > 1) {
    line.steps = str("run ", options_.run.number, " of ", options_.run.of, ": ", line.steps);
  }
  if (state.loss) line.loss = "loss " + format_number(*state.loss, 4);
  if (state.learning_rate) line.rate = str("lr ", *state.learning_rate);
  if (elapsed > 0 && tokens > 0) {
    line.speed = format_count(static_cast<double>(tokens) / elapsed) + " tokens/s";
    if (state.mfu) line.speed += str(", MFU ", format_number(100.0 * *state.mfu, 1), " %");
    if (state.peak_bytes) {
      line.speed += str(", GPU ", human_bytes(static_cast<std::uint64_t>(*state.peak_bytes)));
    }
  }
  line.time = time_text(state, elapsed);
  return line;
}

std::string Progress::line(const ProgressState& state) const { return parts(state).text(); }

std::string Progress::bar(const ProgressState& state, std::size_t width) const {
  const double share = std::clamp(
      static_cast<double>(state.step) / static_cast<double>(options_.total_steps), 0.0, 1.0);
  const auto filled = static_cast<std::size_t>(share * static_cast<double>(width));
  return str('[', std::string(filled, '#'), std::string(width - filled, '.'), "] ");
}

std::string Progress::fitted(const ProgressState& state, std::size_t width) const {
  constexpr std::size_t kBrackets = 3;  // and the blank behind them
  constexpr std::size_t kShortestBar = 8;
  constexpr std::size_t kShortestTitle = 8;
  const bool has_bar = options_.total_steps > 0 && options_.bar_width > 0;
  const auto longest_bar = has_bar ? static_cast<std::size_t>(options_.bar_width) : 0;
  const auto is_narrow = [&](const std::string& text, std::size_t more) {
    return width > 0 && text_width(text) + more > width;
  };
  Line line = parts(state);
  const std::size_t shortest = std::min(kShortestBar, longest_bar);
  if (is_narrow(line.text(), has_bar ? shortest + kBrackets : 0)) line.rate.clear();
  const std::string text = line.text();
  if (has_bar && !is_narrow(text, shortest + kBrackets)) {
    const std::size_t room =
        width == 0 ? longest_bar : std::min(longest_bar, width - text_width(text) - kBrackets);
    return bar(state, room) + text;
  }
  if (const std::size_t over = text_width(text) - std::min(text_width(text), width);
      is_narrow(text, 0) && text_width(line.title) >= over + kShortestTitle) {
    line.title = shortened(line.title, text_width(line.title) - over);
  }
  for (std::string* part : {&line.title, &line.loss, &line.speed, &line.time}) {
    if (is_narrow(line.text(), 0)) part->clear();
  }
  // A line that wraps could not be redrawn in place.
  return width == 0 ? line.text() : line.text().substr(0, width);
}

void Progress::update(const ProgressState& state) {
  const auto is_last = [&](const ProgressState& one) {
    return options_.total_steps > 0 && one.step >= options_.total_steps;
  };
  const bool is_new = !has_shown_ || (is_last(state) && !is_last(state_));
  state_ = state;
  is_pending_ = true;
  const double now = clock_.seconds();
  if (is_new || now - last_shown_ >= interval_of(options_, now - started_)) show(state);
}

void Progress::show(const ProgressState& state) {
  if (options_.is_json) {
    out_ << json_line(options_, state) + '\n' << std::flush;
  } else if (options_.is_terminal) {
    // The last column stays free: some terminals begin a new line there.
    const int columns = options_.terminal_width;
    std::string text = fitted(state, columns > 1 ? static_cast<std::size_t>(columns - 1) : 0);
    // Blanks overwrite the rest of a longer previous line.
    const std::size_t width = text.size();
    if (width < drawn_width_) text.append(drawn_width_ - width, ' ');
    drawn_width_ = width;
    out_ << '\r' + text << std::flush;
  } else {
    out_ << line(state) + '\n' << std::flush;
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
  out_ << (options_.is_json ? json_note(text) : text) + '\n' << std::flush;
}

void Progress::set_title(const std::string& title) {
  if (options_.title == title) return;
  options_.title = title;
  is_pending_ = has_shown_;
}

void Progress::finish() {
  if (is_finished_) return;
  is_finished_ = true;
  if (is_pending_) show(state_);
  if (options_.is_terminal && drawn_width_ > 0) out_ << '\n' << std::flush;
}

}  // namespace mneme
