// The output streams of a command.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "host/base/error.hpp"
#include "host/base/progress.hpp"
#include "host/base/text.hpp"

namespace mneme::cli {

// Results go to `out`, progress and errors to `err`. A line on `err` is one write, because the
// thread that waits for signals, and other processes, write lines there, too.
struct Streams {
  std::ostream& out;
  std::ostream& err;
  bool is_err_terminal = false;  // progress is a bar there, lines elsewhere
  bool is_err_json = false;      // progress is lines of JSON (MNEME_PROGRESS=json)
  bool is_err_coloured = false;  // a terminal, and NO_COLOR is unset or empty
  int err_width = 0;             // columns; 0 = unknown
  std::size_t out_width = 80;    // columns that tables and paragraphs take
  bool is_out_terminal = false;
};

// The process's stdout and stderr. Columns are those of COLUMNS, else the terminal's, else, for
// stdout, 80.
[[nodiscard]] Streams standard_streams();

// Options of a progress display on `streams.err`.
[[nodiscard]] ProgressOptions progress_options(const Streams& streams, std::string title,
                                               std::int64_t total_steps);

// Tells an error after which the command goes on. `subject`, such as a memory's name, is in front
// of it; "" = nothing.
void report_error(const Streams& streams, const std::string& subject, const Error& error);

// Lines longer than `width` columns continue below: where their last column begins, if blanks part
// columns in the left half of the line, else four columns further in. No word is broken, so that
// paths can be copied, and the mark "- " of a list stays before its first word.
[[nodiscard]] std::string fit_lines(const std::string& text, std::size_t width);

// --- Writing the results of long work ---

// Writes several files; a failure of one, such as a full disk, does not prevent the others.
class Outputs {
 public:
  // `write` may throw an Error, which finish() tells.
  template <typename Write>
  void add(Write&& write) {
    try {
      std::forward<Write>(write)();
    } catch (const Error& error) {
      if (!kind_) kind_ = error.kind();
      messages_.emplace_back(error.what());
    }
  }
  // Error of the first one's kind with all messages, a line each; nothing when none failed.
  void finish() const {
    if (kind_) throw Error(*kind_, join(messages_, "\n"));
  }

 private:
  std::optional<ErrorKind> kind_;
  std::vector<std::string> messages_;
};

// --- Errors in files and arguments that the user gave ---

// Runs `read`, in which every failure is one of the files or arguments given: a missing or damaged
// file is then wrong use (exit code 2), not a failed run.
template <typename Read>
auto read_input(Read&& read) {
  try {
    return std::forward<Read>(read)();
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kRun) throw;
    throw Error(ErrorKind::kUsage, error.what());
  }
}

}  // namespace mneme::cli
