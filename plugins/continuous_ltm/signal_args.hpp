// What one evaluation of the signal works on, the same for CPU and CUDA. No SDK type, so that .cu
// files stay free of it.
#pragma once

#include <cstdint>

#include "basis_grid.hpp"

namespace continuous_ltm {

struct SignalShape {
  int64_t lanes = 0;    // B
  int64_t samples = 0;  // M
  int64_t width = 0;    // D
  BasisGrid grid;       // N functions
  bool is_f64 = false;  // coefficients and rows; positions are f64 always
};

// Contiguous, row-major; null where an extent is 0.
struct SignalBuffers {
  const double* positions = nullptr;   // [B,M]
  const void* coefficients = nullptr;  // [B,N,D]
  void* rows = nullptr;                // [B,M,D]
};

}  // namespace continuous_ltm
