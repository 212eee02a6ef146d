#include "host/cli/input_lines.hpp"

#include <poll.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <system_error>
#include <utility>

#include "host/base/error.hpp"
#include "host/base/text.hpp"
#include "host/cli/interrupt.hpp"

namespace mneme::cli {
namespace {

constexpr int kAskedMs = 100;  // between two questions whether to stop

[[noreturn]] void refuse_input(ErrorKind kind, const std::string& thing, int code) {
  throw_error(kind, {.where = "standard input",
                     .failed = "cannot be read: " + std::generic_category().message(code),
                     .expected = thing + "s, one a line",
                     .hint = "give a terminal, a pipe or a file"});
}

}  // namespace

void InputLines::check_open(const std::string& thing) {
  if (::read(STDIN_FILENO, nullptr, 0) < 0) refuse_input(ErrorKind::kUsage, thing, errno);
}

std::optional<std::string> InputLines::next() {
  std::size_t dropped = 0;  // bytes of a line that is too long
  for (std::size_t looked = 0;;) {
    const std::size_t end = buffer_.find('\n', looked);
    if (end != std::string::npos) {
      std::string line = buffer_.substr(0, end);
      buffer_.erase(0, end + 1);
      if (line.ends_with('\r')) line.pop_back();
      return checked(std::move(line), dropped);
    }
    if (buffer_.size() > longest_ << 20) {
      dropped += buffer_.size();
      buffer_.clear();
    }
    looked = buffer_.size();
    if (is_over_ || !fill()) break;
  }
  if (buffer_.size() + dropped == 0 || InterruptGuard::signal() != 0) return std::nullopt;
  return checked(std::exchange(buffer_, {}), dropped);  // a last line without an end
}

bool InputLines::is_ready() {
  while (buffer_.find('\n') == std::string::npos) {
    pollfd waiting{STDIN_FILENO, POLLIN, 0};
    if (is_over_ || buffer_.size() > longest_ << 20 || ::poll(&waiting, 1, 0) <= 0) return false;
    if (!fill()) return false;
  }
  return true;
}

std::string InputLines::checked(std::string line, std::size_t dropped) {
  ++number_;
  const std::size_t bytes = line.size() + dropped;
  if (bytes <= longest_ << 20) return line;
  throw_usage({.where = str("standard input, line ", number_),
               .failed = str("the ", thing_, " is too long"),
               .expected = str("at most ", longest_, " MiB"),
               .got = human_bytes(bytes),
               .hint = "divide it into several lines"});
}

bool InputLines::fill() {
  for (;;) {
    if (InterruptGuard::signal() != 0) return false;
    pollfd waiting{STDIN_FILENO, POLLIN, 0};
    const int ready = ::poll(&waiting, 1, kAskedMs);
    if (ready == 0 || (ready < 0 && errno == EINTR)) continue;
    std::array<char, 65536> piece{};
    const ssize_t count = ::read(STDIN_FILENO, piece.data(), piece.size());
    if (count < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (count < 0) refuse_input(ErrorKind::kRun, thing_, errno);
    if (count > 0) buffer_.append(piece.data(), static_cast<std::size_t>(count));
    is_over_ = count <= 0;
    return true;
  }
}

}  // namespace mneme::cli
