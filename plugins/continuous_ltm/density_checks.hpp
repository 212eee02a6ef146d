// What the kernels' infer functions say about densities that do not fit.
#pragma once

#include <string>

#include "mneme/cpp/kernel_checks.hpp"

namespace continuous_ltm {

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
