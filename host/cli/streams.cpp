#include "host/cli/streams.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>
#include <iostream>
#include <utility>

namespace mneme::cli {

Streams standard_streams() {
  const bool is_terminal = ::isatty(STDERR_FILENO) == 1;
  const char* const no_color = std::getenv("NO_COLOR");
  winsize size{};
  const bool has_size = is_terminal && ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0;
  return {.out = std::cout,
          .err = std::cerr,
          .is_err_terminal = is_terminal,
          .is_err_coloured = is_terminal && (no_color == nullptr || *no_color == '\0'),
          .err_width = has_size ? size.ws_col : 0};
}

ProgressOptions progress_options(const Streams& streams, std::string title,
                                 std::int64_t total_steps) {
  return {.title = std::move(title),
          .total_steps = total_steps,
          .is_terminal = streams.is_err_terminal,
          .terminal_width = streams.err_width};
}

}  // namespace mneme::cli
