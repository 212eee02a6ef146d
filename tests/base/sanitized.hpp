// Whether AddressSanitizer, which has a heap of its own, is part of this program.
#pragma once

namespace mneme::test {

// clang names its sanitizers by __has_feature, gcc by a macro.
constexpr bool is_address_sanitized() {
#if defined(__SANITIZE_ADDRESS__)
  return true;
#elif defined(__has_feature)
  return __has_feature(address_sanitizer);
#else
  return false;
#endif
}

}  // namespace mneme::test
