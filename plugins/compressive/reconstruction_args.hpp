// What one reconstruction error works on, the same for CPU and CUDA.
#pragma once

#include <cstdint>

#include "mneme/cpp/element.hpp"

namespace compressive {

struct ReconstructionShape {
  int64_t lanes = 0;                                      // B
  int64_t queries = 0;                                    // T
  int64_t heads = 0;                                      // H
  int64_t head_width = 0;                                 // d
  int64_t old_rows = 0;                                   // E
  int64_t new_rows = 0;                                   // N
  mneme::ElementType element = mneme::ElementType::kF32;  // of queries, keys and values
  bool wants_gradient = false;
  double scale = 1.0;

  bool is_f64() const { return element == mneme::ElementType::kF64; }
  int64_t elements() const { return lanes * queries * heads * head_width; }
  int64_t new_elements() const { return lanes * new_rows * heads * head_width; }
};

// Contiguous, row-major; null where an extent is 0. Errors and gradients are f64 with inputs of
// f64, else f32.
struct ReconstructionBuffers {
  const void* q = nullptr;          // [B,T,H,d]
  const void* k_old = nullptr;      // [B,E,H,d]
  const void* v_old = nullptr;      // [B,E,H,d]
  const void* k_new = nullptr;      // [B,N,H,d]
  const void* v_new = nullptr;      // [B,N,H,d]
  const int64_t* counts = nullptr;  // [B,2]
  void* error = nullptr;            // [B]
  void* k_grad = nullptr;  // [B,N,H,d] derivatives of the error; null without wants_gradient
  void* v_grad = nullptr;  // [B,N,H,d]
};

// Backward: what the forward pass saved, times the gradient that arrives. A gradient that is not
// wanted is null; arriving null reads as zeros.
struct ReconstructionGradients {
  const void* arriving = nullptr;  // [B]
  const void* k_saved = nullptr;   // [B,N,H,d]
  const void* v_saved = nullptr;   // [B,N,H,d]
  void* k_new = nullptr;           // [B,N,H,d]
  void* v_new = nullptr;           // [B,N,H,d]
};

}  // namespace compressive
