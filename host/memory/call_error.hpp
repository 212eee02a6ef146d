// Errors at the edge of the ABI: exceptions become codes and text going out, codes and text become
// exceptions coming in.
#pragma once

#include <exception>
#include <stdexcept>
#include <string>

#include "mneme/abi.h"

namespace mneme::memory {

// Thrown inside a function of a host group; becomes the mneme_status and text that the plugin gets.
class CallError : public std::runtime_error {
 public:
  CallError(mneme_status code, const std::string& message)
      : std::runtime_error(message), code_(code) {}
  mneme_status code() const { return code_; }

 private:
  mneme_status code_;
};

// Fills `error` (when not null) and returns `code`.
mneme_status fill_error(mneme_error* error, mneme_status code, const char* message) noexcept;
// What the exception being handled means to a plugin; call inside catch (...).
mneme_status fill_current_exception(mneme_error* error) noexcept;

// A pointer that the contract requires. Errors: CallError when it is null.
inline void need(const void* pointer, const char* what) {
  if (pointer == nullptr) throw CallError(MNEME_E_INVALID_ARGUMENT, std::string(what) + " is NULL");
}

// Runs `body`, turning every exception into a code and text. No exception crosses the boundary.
template <typename Body>
mneme_status guard(mneme_error* error, Body&& body) noexcept {
  try {
    body();
    return MNEME_OK;
  } catch (...) {
    return fill_current_exception(error);
  }
}

// "shape", "out of memory", ... for a code.
const char* status_text(mneme_status status);

// Throws Error(kPlugin): where, the plugin's text, its code and its file:line.
[[noreturn]] void throw_plugin_status(const std::string& where, mneme_status status,
                                      const mneme_error& error);

// One line for an error struct that a plugin filled: text, code, native code, file and line.
std::string plugin_error_text(mneme_status status, const mneme_error& error);

}  // namespace mneme::memory
