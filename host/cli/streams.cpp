#include "host/cli/streams.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <sstream>
#include <string_view>
#include <utility>

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

void report_error(const Streams& streams, const std::string& subject, const Error& error) {
  streams.err << str("mneme: error: ", subject, subject.empty() ? "" : ": ", error.what(), '\n')
              << std::flush;
}

namespace {

// A line that is too long, without its end.
std::string fit_line(const std::string& line, std::size_t width) {
  const std::size_t leading = std::min(line.find_first_not_of(' '), line.size());
  std::size_t head = leading, indent = leading + 4;
  if (line.compare(leading, 2, "- ") == 0) head += 2;  // of a list
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

}  // namespace mneme::cli
