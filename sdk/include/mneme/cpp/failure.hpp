// Errors of the C++ layer: mneme::Failure, and how it becomes a mneme_error at the boundary.
#pragma once

#include <cstdio>
#include <cstring>
#include <exception>
#include <new>
#include <string>
#include <utility>

#include "mneme/sdk.h"

namespace mneme {
inline namespace sdk_0_1 {

// Where in the plugin's source a function of this layer was called: the default argument of its
// last parameter, so that errors name that place and not the SDK's own.
struct CallSite {
  const char* file = "";
  int line = 0;
  static constexpr CallSite here(const char* file = __builtin_FILE(),
                                 int line = __builtin_LINE()) noexcept {
    return {file, line};
  }
};

// What a hook throws, and what a failed call of the host becomes: code and text of the host are
// carried unchanged, file and line are the plugin's. Never crosses the boundary: entry.hpp turns it
// into the caller's mneme_error.
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
                              CallSite site = CallSite::here()) {
  throw Failure(code, std::move(message), site.file, site.line);
}

// Throws a Failure with the caller's file and line unless `holds`. The text is only copied on
// failure.
inline void require(bool holds, mneme_status code, const char* message,
                    CallSite site = CallSite::here()) {
  if (!holds) fail(code, message, site);
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

[[noreturn]] inline void throw_host_error(mneme_status status, const HostError& error,
                                          CallSite site) {
  throw Failure(status, error.raw.message, site.file, site.line, error.raw.native_code);
}

inline void check(mneme_status status, const HostError& error, CallSite site) {
  if (status != MNEME_OK) throw_host_error(status, error, site);
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
