// The exception that reaches the user: host/cli turns it into text and an exit code. Besides it,
// CallError (host/plugin/host_groups.hpp) carries failures over the ABI's boundary, and
// std::logic_error tells of a mistake in the program itself.
#pragma once

#include <stdexcept>
#include <string>

#include "host/base/text.hpp"

namespace mneme {

// The class of a failure; the value is the process's exit code.
enum class ErrorKind {
  kRun = 1,     // a run failed: data, files, numbers
  kUsage = 2,   // wrong use or configuration
  kPlugin = 3,  // a plugin could not be loaded or misbehaved
  kDevice = 4,  // the accelerator failed or is missing
};

// The parts of a message. Composed as "where: failed: expected E, got G; hint"; empty parts and
// their punctuation are left out.
struct ErrorText {
  std::string where = {};     // file:line:column, file and tensor, or plugin, tier, hook
  std::string failed = {};    // what failed
  std::string expected = {};  // what is accepted
  std::string got = {};       // what was there
  std::string hint = {};      // what to do

  [[nodiscard]] std::string compose() const;
};

// An error of lines. what() has the whole message and its hint, printable and cut at 64 KiB.
class Error : public std::runtime_error {
 public:
  // Composes the message from its parts.
  Error(ErrorKind kind, const ErrorText& text);
  // For a message that is already composed; a non-empty hint is appended as "; hint".
  Error(ErrorKind kind, const std::string& message, const std::string& hint = "");

  [[nodiscard]] ErrorKind kind() const noexcept { return kind_; }
  [[nodiscard]] int exit_code() const noexcept { return static_cast<int>(kind_); }
  // What to do, without the rest of the message; "" when unknown.
  [[nodiscard]] const std::string& hint() const noexcept { return hint_; }

  // The same error with "context: " in front of its message.
  [[nodiscard]] Error with_context(const std::string& context) const;

 private:
  struct Ready {};
  Error(Ready, ErrorKind kind, const std::string& message, const std::string& hint);

  ErrorKind kind_;
  std::string hint_;
};

// Throw an Error of the named kind: from its parts (`throw_usage({.where = ..., .failed = ...})`),
// or with a message that str() makes of the arguments (`throw_run(path, ": is empty")`).
[[noreturn]] void throw_error(ErrorKind kind, const ErrorText& text);
[[noreturn]] void throw_run(const ErrorText& text);
[[noreturn]] void throw_usage(const ErrorText& text);
[[noreturn]] void throw_plugin(const ErrorText& text);
[[noreturn]] void throw_device(const ErrorText& text);

template <typename... Args>
[[noreturn]] void throw_run(const Args&... args) {
  throw Error(ErrorKind::kRun, str(args...));
}
template <typename... Args>
[[noreturn]] void throw_usage(const Args&... args) {
  throw Error(ErrorKind::kUsage, str(args...));
}
template <typename... Args>
[[noreturn]] void throw_plugin(const Args&... args) {
  throw Error(ErrorKind::kPlugin, str(args...));
}
template <typename... Args>
[[noreturn]] void throw_device(const Args&... args) {
  throw Error(ErrorKind::kDevice, str(args...));
}

}  // namespace mneme
