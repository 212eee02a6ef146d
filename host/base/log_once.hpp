// A listener of the log that passes each message on once.
#pragma once

#include <set>
#include <string>
#include <string_view>

#include "host/base/log.hpp"
#include "host/base/text.hpp"

namespace mneme {

// Passes each message of its own thread on once while it lives: a memory that is made several times
// says the same each time. As a LogListener otherwise.
class LogOnce {
 public:
  LogOnce()
      : listener_([this](LogLevel level, std::string_view message) {
          return said_.insert(str(to_word(level), ' ', message)).second;
        }) {}
  // The messages so far, as "warning text".
  [[nodiscard]] const std::set<std::string>& said() const { return said_; }

 private:
  std::set<std::string> said_;
  LogListener listener_;
};

}  // namespace mneme
