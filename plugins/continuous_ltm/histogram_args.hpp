// What one histogram works on, the same for CPU and CUDA. No SDK type, so that .cu files stay free
// of it.
#pragma once

#include <cstdint>

namespace continuous_ltm {

struct HistogramShape {
  int64_t lanes = 0;    // B
  int64_t heads = 0;    // H
  int64_t queries = 0;  // T
  int64_t bins = 0;
  bool is_f64 = false;  // the densities; the sums are f64 always

  int64_t padded_edges() const { return (bins + 8) / 8 * 8; }  // bins + 1 in whole vectors
  // Edge k of bins + 1: k / bins, the outer ones moved outwards by 1e-6 as in the official code.
  double edge(int64_t k) const {
    if (k == 0) return -1e-6;
    if (k == bins) return 1.0 + 1e-6;
    return static_cast<double>(k) / static_cast<double>(bins);
  }
};

// Contiguous, row-major; null where an extent is 0.
struct HistogramBuffers {
  const void* mu = nullptr;        // [B,H,T]
  const void* variance = nullptr;  // [B,H,T]
  const uint8_t* valid = nullptr;  // [B,T], 0 or 1
  double* mass = nullptr;          // [B,bins]
};

}  // namespace continuous_ltm
