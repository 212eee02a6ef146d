// Helpers for lanes with different numbers of rows: counts on the CPU, and gathers made from them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "mneme/cpp/ops.hpp"
#include "mneme/cpp/rows.hpp"

namespace compressive {

using Counts = std::vector<int64_t>;  // one number a lane

inline bool all_equal(const Counts& counts, int64_t value) {
  return std::all_of(counts.begin(), counts.end(), [&](int64_t n) { return n == value; });
}
inline int64_t largest(const Counts& counts) {
  return *std::max_element(counts.begin(), counts.end());
}

// Valid rows of each lane in blocks that lie end to end.
inline Counts counts_of(const std::vector<mneme::Rows>& blocks, int64_t lanes) {
  Counts out(static_cast<std::size_t>(lanes), 0);
  for (const mneme::Rows& block : blocks) {
    for (std::size_t b = 0; b < out.size(); ++b)
      out[b] += block.counts != nullptr ? block.counts[b] : block.count;
  }
  return out;
}

// [B,columns] bool: a lane's first counts[b] columns, or its last ones.
enum class Side { kFirst, kLast };
inline mneme::Tensor mask_of(const Counts& counts, int64_t columns, Side side) {
  std::vector<uint8_t> values;
  values.reserve(counts.size() * static_cast<std::size_t>(columns));
  for (const int64_t count : counts) {
    for (int64_t j = 0; j < columns; ++j)
      values.push_back((side == Side::kFirst ? j < count : j >= columns - count) ? 1 : 0);
  }
  return mneme::from_data<uint8_t>({static_cast<int64_t>(counts.size()), columns}, values);
}

// Empty, which says "all", where the mask would be true everywhere.
inline mneme::Tensor mask_unless_full(const Counts& counts, int64_t columns, Side side) {
  return all_equal(counts, columns) ? mneme::Tensor() : mask_of(counts, columns, side);
}

// Columns of x [B,S,...] (rank 2 or 3) in a lane's own order: `source(lane, j)` names the column
// that becomes column j < columns; a source outside of [0,S) means that the column is not used.
template <typename Source>
mneme::Tensor gather_columns(const mneme::Tensor& x, int64_t columns, const Source& source) {
  const mneme::Shape shape = x.shape();
  std::vector<int64_t> index;
  index.reserve(static_cast<std::size_t>(shape[0] * columns));
  for (int64_t b = 0; b < shape[0]; ++b) {
    for (int64_t j = 0; j < columns; ++j)
      index.push_back(std::clamp<int64_t>(source(static_cast<std::size_t>(b), j), 0, shape[1] - 1));
  }
  const mneme::Tensor at = mneme::from_data<int64_t>({shape[0], columns}, index);
  return take_along_dim(x, shape.rank() == 3 ? unsqueeze(at, 2) : at, 1);
}

// The source columns when each lane's new rows are appended to its old ones and the newest
// `capacity` are kept. Columns: `old` ones, of which a lane's are the last held[b], then new ones,
// of which a lane's are the first made[b].
struct Arrangement {
  Arrangement(const Counts& held_rows, const Counts& made, int64_t old_columns, int64_t capacity)
      : held(held_rows), old(old_columns) {
    for (std::size_t b = 0; b < held.size(); ++b) {
      kept.push_back(std::min(capacity, held[b] + made[b]));
      dropped.push_back(held[b] + made[b] - kept.back());
    }
    columns = largest(kept);
  }
  // The column of a lane's row, counted from its oldest.
  int64_t column_of(std::size_t b, int64_t row) const {
    return row < held[b] ? old - held[b] + row : old + row - held[b];
  }
  int64_t most_dropped() const { return largest(dropped); }
  // The kept rows [B,columns,D] of `all`, each lane's at the end.
  mneme::Tensor gathered(const mneme::Tensor& all) const {
    return gather_columns(all, columns, [&](std::size_t b, int64_t j) {
      return column_of(b, dropped[b] + j - (columns - kept[b]));
    });
  }

  Counts held;
  Counts kept;     // rows a lane has afterwards
  Counts dropped;  // its oldest rows, which are not kept
  int64_t old;
  int64_t columns = 0;
};

}  // namespace compressive
