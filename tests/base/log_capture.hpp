// What is logged, for tests to look at.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "host/base/log.hpp"

namespace mneme::test {

// Keeps what is logged while it lives; restores the sink and the level at the end.
class LogCapture {
 public:
  LogCapture() {
    set_log_sink([this](LogLevel level, std::string_view text) {
      lines_.emplace_back(level, std::string(text));
    });
  }
  ~LogCapture() {
    set_log_sink({});
    set_log_level(LogLevel::kInfo);
  }
  LogCapture(const LogCapture&) = delete;
  LogCapture& operator=(const LogCapture&) = delete;

  [[nodiscard]] const std::vector<std::pair<LogLevel, std::string>>& lines() const {
    return lines_;
  }
  [[nodiscard]] std::vector<std::string> warnings() const {
    std::vector<std::string> texts;
    for (const auto& [level, text] : lines_) {
      if (level == LogLevel::kWarning) texts.push_back(text);
    }
    return texts;
  }
  // Every line, each with its end.
  [[nodiscard]] std::string text() const {
    std::string all;
    for (const auto& line : lines_) all += line.second + '\n';
    return all;
  }

 private:
  std::vector<std::pair<LogLevel, std::string>> lines_;
};

}  // namespace mneme::test
