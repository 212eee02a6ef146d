// Errors of the C++ layer: mneme::Failure, and how it becomes a mneme_error at the boundary.
#pragma once

#include <cstdio>
#include <cstring>
#include <exception>
#include <new>
#include <string>
#include <utility>

#include "mneme/plugin.h"

namespace mneme {
inline namespace sdk_0_1 {

// What a hook throws, and what a failed call of the host becomes: code and text of the host are
// carried unchanged. Never crosses the boundary; the trampolines turn it into the caller's
// mneme_error.
class Failure : public std::exception {
 public:
  Failure(mneme_status code, std::string message, std::string file, int32_t line,
          int32_t native_code = 0)
      : code_(code),
        native_code_(native_code),
        line_(line),
        message_(std::move(message)),
        file_(std::move(file)) {}

  mneme_status code() const noexcept { return code_; }
  // An error number of CUDA or of the system, 0 = none.
  int32_t native_code() const noexcept { return native_code_; }
  const std::string& file() const noexcept { return file_; }
  int32_t line() const noexcept { return line_; }
  const char* what() const noexcept override { return message_.c_str(); }

 private:
  mneme_status code_;
  int32_t native_code_;
  int32_t line_;
  std::string message_;
  std::string file_;
};

// Throws a Failure that names the caller's file and line.
[[noreturn]] inline void fail(mneme_status code, std::string message,
                              const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  throw Failure(code, std::move(message), file, line);
}

// Throws a Failure with the caller's file and line unless `holds`. The text is only copied on
// failure.
inline void require(bool holds, mneme_status code, const char* message,
                    const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  if (!holds) fail(code, message, file, line);
}

namespace detail {

// The caller-owned error of one call into the host. Only the fields that are read are initialised:
// a call should not cost a kilobyte of zeros.
struct HostError {
  HostError() noexcept {
    raw.struct_size = sizeof(raw);
    raw.flags = 0;
    raw.code = MNEME_OK;
    raw.native_code = 0;
    raw.line = 0;
    raw.reserved = 0;
    raw.file[0] = '\0';
    raw.message[0] = '\0';
  }
  mneme_error raw;
};

[[noreturn]] inline void throw_host_error(mneme_status status, const HostError& error) {
  throw Failure(status, error.raw.message, error.raw.file, error.raw.line, error.raw.native_code);
}

inline void check(mneme_status status, const HostError& error) {
  if (status != MNEME_OK) throw_host_error(status, error);
}

inline mneme_status report(const Failure& failure, mneme_error* error) noexcept {
  const mneme_status code = failure.code() == MNEME_OK ? MNEME_E_INTERNAL : failure.code();
  if (error != nullptr) error->native_code = failure.native_code();
  return mneme_sdk_fail(error, code, failure.file().c_str(), failure.line(), failure.what());
}

// Runs `body` and turns whatever it throws into a status and the caller's error. Nothing escapes.
template <typename Body>
mneme_status guarded(mneme_error* error, const char* hook, Body&& body) noexcept {
  try {
    body();
    return MNEME_OK;
  } catch (const Failure& failure) {
    return report(failure, error);
  } catch (const std::bad_alloc&) {
    return mneme_sdk_fail(error, MNEME_E_OUT_OF_MEMORY, hook, 0, "the plugin ran out of memory");
  } catch (const std::exception& exception) {
    return mneme_sdk_fail(error, MNEME_E_INTERNAL, hook, 0, exception.what());
  } catch (...) {
    return mneme_sdk_fail(error, MNEME_E_INTERNAL, hook, 0,
                          "the plugin threw something that is no std::exception");
  }
}

}  // namespace detail
}  // namespace sdk_0_1
}  // namespace mneme
