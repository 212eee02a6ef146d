// Structs that come from a plugin, copied into this host's full size at the ABI boundary.
#pragma once

#include <cstring>

#include "host/base/text.hpp"
#include "host/memory/call/boundary.hpp"
#include "host/plugin/known_fields.hpp"

namespace mneme::memory {

// Errors: CallError for a struct_size that is impossible.
inline void check_struct_size(std::uint32_t size, std::uint64_t expected, const char* what) {
  if (size < 8 || size > 65536 || size % 8 != 0) {
    throw CallError(MNEME_E_INVALID_ARGUMENT, str(what, ".struct_size is ", size, ": expected ",
                                                  expected, " (start the struct with MNEME_INIT)"));
  }
}

// Errors: CallError when a reserved field is not zero: a later minor may give it a meaning.
template <typename T>
void check_reserved(const T& value, const char* what) {
  const auto check = [&](std::uint32_t reserved) {
    if (reserved != 0)
      throw CallError(MNEME_E_INVALID_ARGUMENT,
                      str(what, ": a reserved field is ", reserved,
                          ": expected 0 (start the struct with MNEME_INIT)"));
  };
  if constexpr (requires { value.reserved; }) check(value.reserved);
  if constexpr (requires { value.reserved2; }) check(value.reserved2);
}

[[noreturn]] inline void refuse_unknown(const std::string& what,
                                        const plugin::UnknownValue& unknown) {
  throw CallError(MNEME_E_INVALID_ARGUMENT, str(what, ": ", unknown.text()));
}

// Errors: CallError, naming the field, when it holds a reserved, unknown or undefined value. A
// declaration is named too.
template <typename T>
void check_fields(const T& value, const char* what) {
  check_reserved(value, what);
  const auto unknown = plugin::unknown_value(value);
  if (!unknown) return;
  std::string subject = what;
  if constexpr (requires { value.name; }) {
    if (value.name != nullptr) subject += str(" \"", value.name, '"');
  }
  refuse_unknown(subject, *unknown);
}

// The same for a function's own argument of bits.
inline void check_flags(const char* function, std::uint32_t flags, std::uint32_t known,
                        const char* family) {
  if (const auto unknown = plugin::unknown_bits("flags", flags, known, family))
    refuse_unknown(function, *unknown);
}

// Copies min(struct_size, sizeof(T)) bytes of a plugin's struct into a zeroed T; no later code
// looks at sizes. Errors: CallError for an impossible size, else as check_fields.
template <typename T>
T normalised(const T* from, const char* what) {
  if (from == nullptr) throw CallError(MNEME_E_INVALID_ARGUMENT, str(what, " is NULL"));
  const std::uint32_t size = from->struct_size;
  check_struct_size(size, sizeof(T), what);
  T out{};
  std::memcpy(static_cast<void*>(&out), from, size < sizeof(T) ? size : sizeof(T));
  out.struct_size = sizeof(T);
  check_fields(out, what);
  return out;
}

// A struct of the plugin that the host has to fill. Errors: CallError when it is null or its
// struct_size is not set: nothing could be written into it.
template <typename T>
void check_fillable(const T* out, const char* what) {
  if (out == nullptr) throw CallError(MNEME_E_INVALID_ARGUMENT, str(what, " is NULL"));
  check_struct_size(out->struct_size, sizeof(T), what);
}

// Writes as much of `value` as fits into the plugin's memory of `size` bytes.
template <typename T>
void write_struct(T* out, T value, std::uint32_t size) {
  value.struct_size = size;
  std::memcpy(static_cast<void*>(out), &value, size < sizeof(T) ? size : sizeof(T));
}

}  // namespace mneme::memory
