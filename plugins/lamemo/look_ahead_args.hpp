// What one look-ahead works on, the same for CPU and CUDA.
#pragma once

#include <cstdint>

#include "mneme/cpp/element.hpp"

namespace lamemo {

struct LookAheadShape {
  int64_t lanes = 0;                                      // B
  int64_t queries = 0;                                    // M
  int64_t keys = 0;                                       // W
  int64_t heads = 0;                                      // H
  int64_t head_width = 0;                                 // d
  int64_t offsets = 0;                                    // R, rows of the table
  int64_t first = 0;                                      // place of key 0; query i is at place i
  int64_t least = 1;                                      // offset of the table's row 0
  mneme::ElementType element = mneme::ElementType::kF32;  // of q, k, v and table
  double scale = 1.0;

  bool is_f64() const { return element == mneme::ElementType::kF64; }
  // Elements of q; of k and of v.
  int64_t query_elements() const { return lanes * queries * heads * head_width; }
  int64_t key_elements() const { return lanes * keys * heads * head_width; }
};

// Contiguous, row-major; null where an extent is 0. "S": f64 with elements of f64, else f32.
struct LookAheadBuffers {
  const void* q = nullptr;              // [B,M,H,d]
  const void* k = nullptr;              // [B,W,H,d]
  const void* v = nullptr;              // [B,W,H,d]
  const void* table = nullptr;          // [H,R,d]
  const void* content_bias = nullptr;   // [H,d] S
  const void* position_bias = nullptr;  // [H,d] S
  const uint8_t* valid = nullptr;       // [B,W]
  const void* carried_lse = nullptr;    // [B,M,H] S; forward only
  const void* carried = nullptr;        // [B,M,H,d] S; forward only
  void* context = nullptr;              // [B,M,H,d] S
  void* lse = nullptr;                  // [B,M,H] S
};

// A gradient that is not wanted is null; one that arrives null reads as zeros.
struct LookAheadGradients {
  const void* context = nullptr;  // [B,M,H,d] S
  const void* lse = nullptr;      // [B,M,H] S
  void* q = nullptr;              // [B,M,H,d]
  void* k = nullptr;              // [B,W,H,d]
  void* v = nullptr;              // [B,W,H,d]
  void* table = nullptr;          // [H,R,d]
  void* content_bias = nullptr;   // [H,d] S
  void* position_bias = nullptr;  // [H,d] S
};

}  // namespace lamemo
