// Calls of a plugin's functions: no exception of its code goes further.
#pragma once

#include "host/memory/abi/call_error.hpp"

namespace mneme::memory {

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
