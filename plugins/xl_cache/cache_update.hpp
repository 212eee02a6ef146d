// The kernel of the cache: append, evict and per-lane reset in one launch for all lanes.
#pragma once

#include "mneme/cpp/kernel.hpp"

namespace xl_cache {

// Inputs   0 old rows [B,M,D]    1 their validity [B,M] bool   2 fresh rows [B,T,D]     3 their
// validity [B,T] bool Outputs  0 kept rows [B,K,D]   1 their validity [B,K]        2 evicted rows
// [B,E,D]   3 their validity [B,E] Integer  0 rows, the capacity; K = min(rows, M + T), E = M + T -
// K
//
// The joint sequence of a lane is its old rows, then its fresh ones; the oldest E are evicted, the
// rest is kept. A row that is not valid (a lane that was reset, padding) becomes zeros, so that
// nothing of a lane's past outlives its reset. D, M and T are free, M = 0 included; rows of f32,
// f64, bf16 and f16. No gradient: the cache is detached.
struct CacheUpdate {
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
};

}  // namespace xl_cache
