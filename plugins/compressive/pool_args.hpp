// What one pooling works on, the same for CPU and CUDA.
#pragma once

#include <cstdint>

#include "mneme/cpp/element.hpp"

namespace compressive {

enum class PoolKind : int64_t { kMean = 0, kMax = 1 };

struct PoolShape {
  int64_t lanes = 0;  // B
  int64_t rows = 0;   // m
  int64_t width = 0;  // D
  int64_t rate = 1;   // c
  PoolKind kind = PoolKind::kMean;
  mneme::ElementType element = mneme::ElementType::kF32;

  int64_t windows() const { return rows / rate; }  // of a lane
  int64_t rest() const { return rows % rate; }     // a lane's newest rows, in no window
};

// Contiguous, row-major; null where an extent is 0.
struct PoolBuffers {
  const void* rows = nullptr;  // [B,m,D]
  void* pooled = nullptr;      // [B,m/c,D]
};

// arriving: null reads as zeros.
struct PoolGradients {
  const void* rows = nullptr;      // [B,m,D]; read for the largest rows only
  const void* arriving = nullptr;  // [B,m/c,D]
  void* rows_grad = nullptr;       // [B,m,D]
};

}  // namespace compressive
