// The boundary between the host and a plugin, which no exception may pass: the opaque pointers that
// a plugin holds during a call (CallHandle), and errors in both directions (guard, call_plugin).
#pragma once

#include <cstdint>
#include <exception>
#include <string>

#include "host/plugin/host_groups.hpp"
#include "mneme/abi.h"

namespace mneme::memory {

// --- The opaque pointers: mneme_ctx of a hook, mneme_setup of create ---
// They are numbers, not addresses: one that is NULL, of an earlier call or made up is recognised and
// never dereferenced.

enum class HandleKind : std::uint8_t { kHook, kCreate };

// A running call into a plugin; lives on the calling thread while the call runs.
class CallHandle {
 public:
  // `object` is found under the call's handle; it outlives the call.
  CallHandle(HandleKind kind, void* object);
  ~CallHandle();
  CallHandle(const CallHandle&) = delete;
  CallHandle& operator=(const CallHandle&) = delete;

  // What the plugin gets; no other call had or will have the same.
  [[nodiscard]] mneme_ctx* ctx() const { return reinterpret_cast<mneme_ctx*>(number_); }
  [[nodiscard]] mneme_setup* setup() const { return reinterpret_cast<mneme_setup*>(number_); }

 private:
  std::uintptr_t number_;
  CallHandle* outer_;
  HandleKind kind_;
  void* object_;
  friend void* find_object(HandleKind kind, const void* handle);
};

// The object of the running call behind a handle, from any thread. Errors: CallError that says what
// is wrong with the handle.
void* find_object(HandleKind kind, const void* handle);

// --- Errors of the host's functions, which plugins get as a code and a text ---

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

// --- Errors of a plugin's functions, and exceptions that leave one ---

// Throws Error(kPlugin): where, the plugin's text, its code and its file:line.
[[noreturn]] void throw_plugin_status(const std::string& where, mneme_status status,
                                      const mneme_error& error);

// One line for an error struct that a plugin filled: text, code, native code, file and line.
std::string plugin_error_text(mneme_status status, const mneme_error& error);

// What the exception being handled, which left a plugin's function, means; call inside catch (...).
mneme_status fill_escaped_exception(mneme_error& error) noexcept;

// Runs `call`, which calls one function of a plugin and gives its status.
template <typename Call>
mneme_status call_plugin(mneme_error& error, Call&& call) noexcept {
  try {
    return call();
  } catch (...) {
    return fill_escaped_exception(error);
  }
}

}  // namespace mneme::memory
