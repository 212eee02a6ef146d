// Lines of standard input, of commands that answer each of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

namespace mneme::cli {

// Read without blocking signals' requests to stop, inside an InterruptGuard. One thread at a time.
class InputLines {
 public:
  // `thing`: what messages call a line's content, "prompt". `longest`: MiB of a line.
  InputLines(std::string thing, std::size_t longest)
      : thing_(std::move(thing)), longest_(longest) {}

  // Before a file that the program opens can take the place of a closed descriptor. Error (kUsage).
  static void check_open(const std::string& thing);

  // Without its line end, "\n" or "\r\n"; absent at the end of the input, or when a signal asked to
  // stop. Error (kUsage) for a line that is too long, of which nothing is left then; Error (kRun)
  // when the input cannot be read.
  std::optional<std::string> next();
  // True where the next line is there already, and whole.
  [[nodiscard]] bool is_ready();
  // Of the last line, from 1.
  [[nodiscard]] std::int64_t number() const { return number_; }

 private:
  std::string checked(std::string line, std::size_t dropped);
  // False at the end and after a signal.
  bool fill();

  std::string thing_;
  std::size_t longest_;
  std::string buffer_;
  bool is_over_ = false;
  std::int64_t number_ = 0;
};

}  // namespace mneme::cli
