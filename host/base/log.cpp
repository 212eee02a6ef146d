#include "host/base/log.hpp"

#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace mneme {
namespace {

std::atomic<LogLevel> level_{LogLevel::kInfo};
thread_local LogListener* newest_ = nullptr;

spdlog::level::level_enum to_spdlog(LogLevel level) {
  using namespace spdlog::level;
  constexpr std::array kLevels = {debug, info, warn, err, off};  // by LogLevel
  return kLevels[static_cast<std::size_t>(level)];
}

// https://no-color.org: set and not empty means no colour.
spdlog::color_mode color_mode() {
  const char* no_color = std::getenv("NO_COLOR");
  return no_color != nullptr && *no_color != '\0' ? spdlog::color_mode::never
                                                  : spdlog::color_mode::automatic;
}

}  // namespace

// Lines wait until the file is open, with the time at which they were logged.
class LogFile::Sink {
 public:
  void open(const std::string& path) {
    auto file = std::make_shared<spdlog::sinks::basic_file_sink_st>(path);
    auto logger = std::make_unique<spdlog::logger>("mneme", std::move(file));
    logger->set_pattern("%Y-%m-%dT%H:%M:%SZ %l %v", spdlog::pattern_time_type::utc);
    logger->set_level(spdlog::level::trace);
    logger->flush_on(spdlog::level::trace);
    logger->set_error_handler([](const std::string&) {});  // a full disk, for example
    const std::lock_guard<std::mutex> lock(mutex_);
    logger_ = std::move(logger);
    for (const Line& line : waiting_) write(line);
    waiting_.clear();
  }

  void log(LogLevel level, std::string_view text) {
    Line line{spdlog::log_clock::now(), level, std::string(text)};
    const std::lock_guard<std::mutex> lock(mutex_);
    if (logger_ != nullptr) {
      write(line);
    } else {
      waiting_.push_back(std::move(line));
    }
  }

 private:
  struct Line {
    spdlog::log_clock::time_point time;
    LogLevel level;
    std::string text;
  };
  void write(const Line& line) {
    logger_->log(line.time, spdlog::source_loc{}, to_spdlog(line.level),
                 spdlog::string_view_t(line.text));
  }

  std::mutex mutex_;
  std::unique_ptr<spdlog::logger> logger_;  // null until open()
  std::vector<Line> waiting_;
};

// The logger is ours, not in spdlog's registry, so another user of spdlog in the process cannot
// change it.
class Logger {
 public:
  Logger() : stderr_("mneme", std::make_shared<spdlog::sinks::stderr_color_sink_mt>(color_mode())) {
    stderr_.set_pattern("%H:%M:%S %^%l%$ %v");
    stderr_.set_level(spdlog::level::trace);
  }

  void set_sink(LogSink sink) {
    auto shared = sink ? std::make_shared<const LogSink>(std::move(sink)) : nullptr;
    const std::lock_guard<std::mutex> lock(mutex_);
    sink_ = std::move(shared);
  }

  void add(std::shared_ptr<LogFile::Sink> file) {
    const std::lock_guard<std::mutex> lock(mutex_);
    files_.push_back(std::move(file));
  }

  void remove(const std::shared_ptr<LogFile::Sink>& file) {
    const std::lock_guard<std::mutex> lock(mutex_);
    std::erase(files_, file);
  }

  void write_to_files(LogLevel level, std::string_view message) {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const auto& file : files_) file->log(level, message);
  }

  void write(LogLevel level, std::string_view message) {
    write_to_files(level, message);
    std::shared_ptr<const LogSink> sink;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      sink = sink_;
    }
    if (sink) {
      (*sink)(level, message);
    } else {
      stderr_.log(to_spdlog(level), spdlog::string_view_t(message.data(), message.size()));
    }
  }

 private:
  spdlog::logger stderr_;
  std::mutex mutex_;
  std::shared_ptr<const LogSink> sink_;
  std::vector<std::shared_ptr<LogFile::Sink>> files_;
};

namespace {

Logger& logger() {
  static Logger instance;
  return instance;
}

}  // namespace

void set_log_level(LogLevel level) { level_.store(level, std::memory_order_relaxed); }

LogLevel log_level() { return level_.load(std::memory_order_relaxed); }

void set_log_sink(LogSink sink) { logger().set_sink(std::move(sink)); }

LogListener::LogListener(Hear hear) : hear_(std::move(hear)), older_(newest_) { newest_ = this; }
LogListener::~LogListener() { newest_ = older_; }

LogFile::LogFile() : sink_(std::make_shared<Sink>()) { logger().add(sink_); }
LogFile::~LogFile() { logger().remove(sink_); }

void LogFile::open(const std::filesystem::path& path) {
  try {
    sink_->open(path.string());
  } catch (const std::exception& error) {
    log_warning(path.string(), ": the log is not written to it: ", error.what());
  }
}

void log_to_files(LogLevel level, std::string_view message) noexcept {
  try {
    logger().write_to_files(level, message);
  } catch (const std::exception&) {  // as in log()
  }
}

bool is_logged(LogLevel level) { return newest_ != nullptr || level >= log_level(); }

void log(LogLevel level, std::string_view message) noexcept {
  if (level == LogLevel::kOff) return;
  try {
    for (const LogListener* at = newest_; at != nullptr; at = at->older_) {
      if (!at->hear_(level, message)) return;
    }
    if (level >= log_level()) logger().write(level, message);
  } catch (const std::exception&) {  // a failing log line must not end a run
  }
}

}  // namespace mneme
