// Checks of shapes for kernels' infer functions, and their messages.
#pragma once

#include <string>

#include "mneme/cpp/element.hpp"
#include "mneme/cpp/kernel.hpp"

namespace mneme {
inline namespace sdk_0_1 {

inline std::string text_of(const Shape& shape) {
  std::string text = "[";
  for (int64_t i = 0; i < shape.rank(); ++i) {
    text += (i > 0 ? ", " : "") + std::to_string(shape[i]);
  }
  return text + "]";
}

inline std::string code_of(DType dtype) { return std::to_string(static_cast<uint32_t>(dtype)); }

// Errors: Failure(MNEME_E_SHAPE), `what` being the input's name.
inline void check_rank(const char* what, const Shape& got, int64_t rank, const char* form,
                       CallSite site = CallSite::here()) {
  if (got.rank() == rank) return;
  fail(MNEME_E_SHAPE, std::string(what) + ": expected " + form + ", got " + text_of(got), site);
}
inline void check_shape(const char* what, const Shape& got, const Shape& expected,
                        CallSite site = CallSite::here()) {
  if (got == expected) return;
  fail(MNEME_E_SHAPE,
       std::string(what) + ": expected " + text_of(expected) + ", got " + text_of(got), site);
}

// The element type of a kernel that has checked its inputs' types; kF32 for any other type.
inline ElementType element_of(DType dtype) noexcept {
  switch (dtype) {
    case DType::kF64:
      return ElementType::kF64;
    case DType::kBF16:
      return ElementType::kBF16;
    case DType::kF16:
      return ElementType::kF16;
    default:
      return ElementType::kF32;
  }
}

}  // namespace sdk_0_1
}  // namespace mneme
