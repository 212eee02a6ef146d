// Checks and choices that the launchers share.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime_api.h>

#include <cstdint>

#include "expectation_args.hpp"

namespace continuous_ltm::cuda {

constexpr int64_t kMostBlocks = 2147483647;
constexpr int64_t kMostIndices = 2147483647;

inline int64_t tiles_of(int64_t count, int64_t tile) { return (count + tile - 1) / tile; }

inline bool is_usable(const BasisGrid& grid) {
  return grid.centres > 0 && grid.centres <= kMostIndices && grid.widths > 0 &&
         grid.widths <= kMaxWidths;
}
inline bool is_usable(const ExpectationShape& s) {
  return s.lanes >= 0 && s.heads >= 0 && s.queries >= 0 && s.queries <= kMostIndices &&
         s.head_width >= 0 && is_usable(s.grid);
}

// Calls body(sum, element) with values of the type that sums are in and of the elements' type.
template <typename Body>
cudaError_t with_elements(Element element, const Body& body) {
  switch (element) {
    case Element::kF32:
      return body(float{}, float{});
    case Element::kF64:
      return body(double{}, double{});
    case Element::kBF16:
      return body(float{}, __nv_bfloat16{});
    case Element::kF16:
      return body(float{}, __half{});
  }
  return cudaErrorInvalidValue;
}

}  // namespace continuous_ltm::cuda
