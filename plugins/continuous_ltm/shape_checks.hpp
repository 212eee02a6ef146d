// What the kernels' infer functions say about inputs that do not fit.
#pragma once

#include <string>

#include "mneme/cpp/kernel.hpp"

namespace continuous_ltm {

inline std::string text_of(const mneme::Shape& shape) {
  std::string text = "[";
  for (int64_t i = 0; i < shape.rank(); ++i) {
    text += (i > 0 ? ", " : "") + std::to_string(shape[i]);
  }
  return text + "]";
}

inline std::string code_of(mneme::DType dtype) {
  return std::to_string(static_cast<uint32_t>(dtype));
}

// Errors: Failure(MNEME_E_SHAPE).
inline void check_rank(const char* what, const mneme::Shape& got, int64_t rank, const char* form) {
  if (got.rank() == rank) return;
  mneme::fail(MNEME_E_SHAPE, std::string(what) + ": expected " + form + ", got " + text_of(got));
}
inline void check_shape(const char* what, const mneme::Shape& got, const mneme::Shape& expected) {
  if (got == expected) return;
  mneme::fail(MNEME_E_SHAPE,
              std::string(what) + ": expected " + text_of(expected) + ", got " + text_of(got));
}

// Means and variances [B,H,T] of the attention densities, both f32 or both f64. Errors:
// Failure(MNEME_E_SHAPE | MNEME_E_DTYPE).
inline void check_densities(const mneme::TypedShape& mu, const mneme::TypedShape& variance) {
  check_rank("mu", mu.shape, 3, "[B, H, T]");
  check_shape("variance", variance.shape, mu.shape);
  const bool is_float = mu.dtype == mneme::DType::kF32 || mu.dtype == mneme::DType::kF64;
  if (!is_float || variance.dtype != mu.dtype) {
    mneme::fail(MNEME_E_DTYPE, "mu and variance: expected f32 or f64 for both, got dtype codes " +
                                   code_of(mu.dtype) + " and " + code_of(variance.dtype));
  }
}

}  // namespace continuous_ltm
