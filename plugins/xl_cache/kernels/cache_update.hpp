// The kernel of the cache: append, evict and per-lane reset in one launch for all lanes.
#pragma once

#include <cstdint>

#include "mneme/cpp/kernel.hpp"

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

namespace cpu {
// Fills kept and evicted whole. Rows are moved as bytes, so any element type works. Pure; any
// thread.
void update_cache(const CacheUpdateShape& shape, const CacheUpdateBuffers& buffers);
}  // namespace cpu

// Inputs   0 old rows [B,M,D]    1 their validity [B,M] bool
//          2 fresh rows [B,T,D]  3 their validity [B,T] bool
// Outputs  0 kept rows [B,K,D]     1 their validity [B,K]
//          2 evicted rows [B,E,D]  3 their validity [B,E]
// Integer  0 rows, the capacity; K = min(rows, M + T), E = M + T - K
//
// The joint sequence of a lane is its old rows, then its fresh ones; the oldest E are evicted, the
// rest is kept. A row that is not valid (a lane that was reset, padding) becomes zeros, so that
// nothing of a lane's past outlives its reset. D, M and T are free, M = 0 included; rows of f32,
// f64, bf16 and f16. No gradient: the cache is detached.
class CacheUpdate {
 public:
  static constexpr const char* kName = "xl_cache_update";
  static constexpr uint32_t kInputs = 4;
  static constexpr uint32_t kOutputs = 4;
  static constexpr uint32_t kFlags = mneme::kCapturable | mneme::kDeterministic;

  // Errors: Failure(MNEME_E_SHAPE | MNEME_E_DTYPE | MNEME_E_INVALID_ARGUMENT) naming the input.
  void infer(mneme::KernelPlan& plan) const;
  void forward_cpu(const mneme::KernelCall& call) const;
#ifdef MNEME_HAS_CUDA
  void forward_cuda(const mneme::KernelCall& call) const;
#endif

 private:
  static CacheUpdateShape shape_of(const mneme::KernelCall& call);
  static CacheUpdateBuffers buffers_of(const mneme::KernelCall& call);
};

}  // namespace xl_cache
