// Errors at the edge of the ABI: exceptions become codes and text going out, codes and text become
// exceptions coming in.
#pragma once

#include <exception>
#include <string>

#include "host/plugin/call_error.hpp"
#include "mneme/abi.h"

namespace mneme::memory {

using plugin::CallError;

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
