#include "host/kernel/attention.hpp"

#include <algorithm>

namespace mneme::kernel {
namespace {

// Rows of a piece, over the heads that share keys: enough for each key, which is copied column by
// column, to be used often; few enough for sums and queries to stay in a core's cache.
constexpr int64_t kRowsOfPiece = 192;
constexpr int64_t kQueryUnit = 24;

}  // namespace

AttentionParts::AttentionParts(const AttentionShape& shape) {
  const int64_t most =
      std::max<int64_t>(kRowsOfPiece / shape.shared() / kQueryUnit, 1) * kQueryUnit;
  groups = std::max<int64_t>((shape.queries + most - 1) / most, 1);
  group = (shape.queries + groups - 1) / groups;
}

}  // namespace mneme::kernel
