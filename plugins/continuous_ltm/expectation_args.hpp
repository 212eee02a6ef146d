// What one expectation works on, the same for CPU and CUDA.
#pragma once

#include <cstdint>

#include "basis_grid.hpp"
#include "mneme/cpp/element.hpp"

namespace continuous_ltm {

using mneme::ElementType;

struct ExpectationShape {
  int64_t lanes = 0;                // B
  int64_t heads = 0;                // H
  int64_t queries = 0;              // T
  int64_t head_width = 0;           // d
  BasisGrid grid;                   // N functions
  ElementType element = ElementType::kF32;  // of values and context; densities are f64 with kF64, else f32

  int64_t densities() const { return lanes * heads * queries; }
};

// Contiguous, row-major; null where an extent is 0.
struct ExpectationBuffers {
  const void* mu = nullptr;        // [B,H,T]
  const void* variance = nullptr;  // [B,H,T]
  const void* values = nullptr;    // [B,N,H,d]
  void* context = nullptr;         // [B,T,H,d]; unused backward
};

// A gradient that is not wanted is null. context: null reads as zeros.
struct ExpectationGradients {
  const void* context = nullptr;  // [B,T,H,d]
  void* mu = nullptr;             // [B,H,T]
  void* variance = nullptr;       // [B,H,T]
  void* values = nullptr;         // [B,N,H,d]
};

}  // namespace continuous_ltm
