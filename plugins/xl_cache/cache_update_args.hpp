// What one cache update works on, the same for CPU and CUDA. No SDK type, so that .cu files stay
// free of it.
#pragma once

#include <cstdint>

namespace xl_cache {

// Extents; kept + evicted = old + fresh. Row r < old of the joint sequence is old row r, others are
// fresh row r - old.
struct CacheUpdateShape {
  int64_t lanes = 0;      // B
  int64_t old = 0;        // M
  int64_t fresh = 0;      // T
  int64_t kept = 0;       // K = min(rows, M + T)
  int64_t row_bytes = 0;  // D * element size
  int64_t evicted() const { return old + fresh - kept; }
};

// Contiguous, row-major; null where the extent is 0. Masks hold one byte a row, 0 or 1.
struct CacheUpdateBuffers {
  const void* old_rows = nullptr;        // [B,M,D]
  const uint8_t* old_valid = nullptr;    // [B,M]
  const void* fresh_rows = nullptr;      // [B,T,D]
  const uint8_t* fresh_valid = nullptr;  // [B,T]
  void* kept_rows = nullptr;             // [B,K,D]
  uint8_t* kept_valid = nullptr;         // [B,K]
  void* evicted_rows = nullptr;          // [B,E,D]
  uint8_t* evicted_valid = nullptr;      // [B,E]
};

}  // namespace xl_cache
