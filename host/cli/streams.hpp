// Where a command writes.
#pragma once

#include <cstddef>
#include <ostream>

#include "host/base/progress.hpp"

namespace mneme::cli {

// Results go to `out`, progress and errors to `err`.
struct Streams {
  std::ostream& out;
  std::ostream& err;
  bool is_err_terminal = false;  // progress is a bar there, lines elsewhere
  bool is_err_coloured = false;  // a terminal, and NO_COLOR is unset or empty
  int err_width = 0;             // columns; 0 = unknown
  std::size_t out_width = 80;    // columns that tables and paragraphs take
};

// The process's stdout and stderr. Columns are those of COLUMNS, else the terminal's, else, for
// stdout, 80.
[[nodiscard]] Streams standard_streams();

// Options of a progress display on `streams.err`.
[[nodiscard]] ProgressOptions progress_options(const Streams& streams, std::string title,
                                               std::int64_t total_steps);

}  // namespace mneme::cli
