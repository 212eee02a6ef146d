// Logging facade: only log.cpp sees spdlog (its fmt clashes with LibTorch's copy).
#pragma once

#include <array>
#include <filesystem>
#include <functional>
#include <memory>
#include <string_view>

#include "host/base/text.hpp"
#include "host/base/words.hpp"

namespace mneme {

enum class LogLevel { kDebug, kInfo, kWarning, kError, kOff };
constexpr auto words_of(LogLevel) { return std::array{"debug", "info", "warning", "error", "off"}; }

// Messages below `level` are dropped. The level at start is kInfo.
void set_log_level(LogLevel level);
[[nodiscard]] LogLevel log_level();

// Receives every message at or above the level. An empty function restores the default sink,
// stderr (coloured on a terminal unless NO_COLOR is set and not empty). Thread-safe.
using LogSink = std::function<void(LogLevel, std::string_view)>;
void set_log_sink(LogSink sink);

// Receives every message of its own thread, of every level, while it lives. With several listeners
// the newest gets a message first and decides whether the next one gets it; after the oldest the
// level and the sink apply. They are destroyed in reverse order, on the thread that made them.
class LogListener {
 public:
  // Returns true to pass the message on. Must not log; when it throws, the message is dropped.
  using Hear = std::function<bool(LogLevel, std::string_view)>;
  explicit LogListener(Hear hear);
  ~LogListener();
  LogListener(const LogListener&) = delete;
  LogListener& operator=(const LogListener&) = delete;

 private:
  friend void log(LogLevel level, std::string_view message) noexcept;
  Hear hear_;
  LogListener* older_;
};

// Appends to a file what reaches the sink, whatever the sink is, and what log_to_files() is given,
// while it lives: a line a message, with the time (UTC) and the level. Lines that come before
// open() are kept for it. A file that cannot be opened or written, as on a full disk, lacks lines;
// nobody gets an error. Thread-safe, and the same for all threads.
class LogFile {
 public:
  LogFile();
  ~LogFile();
  LogFile(const LogFile&) = delete;
  LogFile& operator=(const LogFile&) = delete;

  // Creates the file when it does not exist. Call once. Logs a warning when it cannot be opened.
  void open(const std::filesystem::path& path);

 private:
  class Sink;
  friend class Logger;
  std::shared_ptr<Sink> sink_;
};

// For lines that people are shown in another way, such as beside a progress bar: written to the
// open LogFiles alone. Never throws.
void log_to_files(LogLevel level, std::string_view message) noexcept;

// False when no listener and no sink would get a message of this level, so that it need not be
// composed.
[[nodiscard]] bool is_logged(LogLevel level);

// Logs one message. Thread-safe; never throws.
void log(LogLevel level, std::string_view message) noexcept;

template <typename... Args>
void log_debug(const Args&... args) {
  if (is_logged(LogLevel::kDebug)) log(LogLevel::kDebug, str(args...));
}
template <typename... Args>
void log_info(const Args&... args) {
  if (is_logged(LogLevel::kInfo)) log(LogLevel::kInfo, str(args...));
}
template <typename... Args>
void log_warning(const Args&... args) {
  if (is_logged(LogLevel::kWarning)) log(LogLevel::kWarning, str(args...));
}
template <typename... Args>
void log_error(const Args&... args) {
  if (is_logged(LogLevel::kError)) log(LogLevel::kError, str(args...));
}

}  // namespace mneme
