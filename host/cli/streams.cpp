#include "host/cli/streams.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <utility>

namespace mneme::cli {

namespace {

constexpr int kUsualWidth = 80;
constexpr int kLeastWidth = 40;

// Columns of what a descriptor leads to; 0 = unknown. COLUMNS is the user's word.
int width_of(int descriptor) {
  const char* const columns = std::getenv("COLUMNS");
  const int named = columns == nullptr ? 0 : std::atoi(columns);
  if (named > 0) return std::max(kLeastWidth, named);
  winsize size{};
  if (::isatty(descriptor) != 1 || ::ioctl(descriptor, TIOCGWINSZ, &size) != 0) return 0;
  return size.ws_col;
}

}  // namespace

Streams standard_streams() {
  const bool is_terminal = ::isatty(STDERR_FILENO) == 1;
  const char* const no_color = std::getenv("NO_COLOR");
  const int out_width = width_of(STDOUT_FILENO);
  return {.out = std::cout,
          .err = std::cerr,
          .is_err_terminal = is_terminal,
          .is_err_coloured = is_terminal && (no_color == nullptr || *no_color == '\0'),
          .err_width = is_terminal ? width_of(STDERR_FILENO) : 0,
          .out_width = static_cast<std::size_t>(out_width == 0 ? kUsualWidth
                                                               : std::max(kLeastWidth, out_width))};
}

ProgressOptions progress_options(const Streams& streams, std::string title,
                                 std::int64_t total_steps) {
  return {.title = std::move(title),
          .total_steps = total_steps,
          .is_terminal = streams.is_err_terminal,
          .terminal_width = streams.err_width};
}

}  // namespace mneme::cli
