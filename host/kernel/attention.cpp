#include "host/kernel/attention.hpp"

#include <algorithm>

#include "host/kernel/cuda/attention.hpp"
#include "mneme_kernels/cpu/arena.hpp"

namespace mneme::kernel {
namespace {

// Rows of a piece, over the heads that share keys: enough for each key, which is copied column by
// column, to be used often; few enough for sums and queries to stay in a core's cache.
constexpr std::int64_t kRowsOfPiece = 192;
constexpr std::int64_t kQueryUnit = 24;
// Of a backward pass: enough for many threads. Each has a gradient of the table of its own.
constexpr std::int64_t kGradientPieces = 64;

}  // namespace

AttentionParts::AttentionParts(const AttentionShape& shape) {
  const std::int64_t most =
      std::max<std::int64_t>(kRowsOfPiece / shape.shared() / kQueryUnit, 1) * kQueryUnit;
  groups = std::max<std::int64_t>((shape.queries + most - 1) / most, 1);
  group = (shape.queries + groups - 1) / groups;
}

GradientParts::GradientParts(const AttentionShape& shape)
    : shares(std::clamp<std::int64_t>(kGradientPieces / shape.key_heads, 1,
                                      std::max<std::int64_t>(shape.lanes, 1))) {}

std::int64_t padded_width(const AttentionShape& shape) {
  return mneme::cpu::padded_columns(shape.width);
}

#ifndef MNEME_HAS_CUDA
namespace {
constexpr const char* kNotBuilt = "the program was built without CUDA sources";
}
bool CudaAttention::is_built() { return false; }
std::uint64_t CudaAttention::workspace(const AttentionShape&) { return 0; }
std::uint64_t CudaAttention::backward_workspace(const AttentionShape&) { return 0; }
const char* CudaAttention::attend(const AttentionShape&, const AttentionInputs&,
                                  const AttentionResults&, void*, void*) {
  return kNotBuilt;
}
const char* CudaAttention::backward(const AttentionShape&, const AttentionInputs&,
                                    const AttentionPass&, const CudaAttentionGradients&, void*,
                                    void*) {
  return kNotBuilt;
}
#endif

}  // namespace mneme::kernel
