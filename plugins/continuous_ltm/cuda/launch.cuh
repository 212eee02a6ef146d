// Checks and choices that the launchers share.
#pragma once

#include <cstdint>

#include "expectation_args.hpp"
#include "mneme/cuda/elements.cuh"

namespace continuous_ltm::cuda {

using mneme::cuda::with_elements;

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

}  // namespace continuous_ltm::cuda
