// Memories of a command that failed while others go on.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "host/base/error.hpp"
#include "host/base/json.hpp"
#include "host/cli/streams.hpp"

namespace mneme::cli {

// Of so many memories. Each failure is told at once; that of the only one, or the last of all, ends
// the command.
class Failures {
 public:
  Failures(const Streams& streams, std::size_t memories) : streams_(streams), memories_(memories) {}

  // Throws the Error, with the name in front, when no memory is left that could work.
  void add(const std::string& name, const Error& error);
  // The first one's exit status; 0 without any.
  [[nodiscard]] int exit_code() const;
  // [{"name", "message", "exit_code"}]
  [[nodiscard]] Json json() const;

 private:
  struct Failure {
    std::string name;
    Error error;
  };
  const Streams& streams_;
  std::size_t memories_;
  std::vector<Failure> all_;
};

}  // namespace mneme::cli
