// How results of `read` join the local one (architecture.md, section 3, moment 6).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace mneme::memory {

// One tier's result at a site, checked and in the shape of the local result (or broadcastable to
// it).
struct ReadResult {
  uint32_t merge = 0;  // MNEME_MERGE_*
  at::Tensor out;      // HEADS [B|1,T|1,H,d], OUT [B|1,T|1,D]
  at::Tensor gate;     // broadcastable to out
  at::Tensor lse;      // [B,H,T]
};

// Joins in the fixed order: all LSE in one joint softmax with the local result, then the others in
// stack order. local is [B,T,H,d] with lse [B,H,T], or [B,T,D] without lse. A row whose every lse
// is -inf gives 0. Results are cast to local's dtype.
at::Tensor merge_reads(const at::Tensor& local, const at::Tensor& lse,
                       const std::vector<ReadResult>& results);

}  // namespace mneme::memory
