#include "kernels/cache_update.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>

namespace xl_cache::cpu {
namespace {

// Rows [first, first + count) of one lane with their validity.
struct Span {
  const unsigned char* rows;
  const uint8_t* valid;
  int64_t count;
};

Span span_of(const void* rows, const uint8_t* valid, int64_t lane, int64_t per_lane, int64_t first,
             int64_t count, int64_t row_bytes) {
  if (count == 0) return {nullptr, nullptr, 0};
  const int64_t at = lane * per_lane + first;
  return {static_cast<const unsigned char*>(rows) + at * row_bytes, valid + at, count};
}

// Copies a span in one piece, then clears the rows that are not valid: those are few.
void copy_span(const Span& from, int64_t row_bytes, unsigned char* rows, uint8_t* valid) {
  if (from.count == 0) return;
  if (row_bytes > 0) std::memcpy(rows, from.rows, static_cast<std::size_t>(from.count * row_bytes));
  for (int64_t r = 0; r < from.count; ++r) {
    valid[r] = from.valid[r] != 0 ? 1 : 0;
    if (valid[r] == 0 && row_bytes > 0) {
      std::memset(rows + r * row_bytes, 0, static_cast<std::size_t>(row_bytes));
    }
  }
}

// Rows [first, first + count) of the lane's joint sequence, old rows before fresh ones, to
// [B,count,D].
void copy_joint(const CacheUpdateShape& s, const CacheUpdateBuffers& b, int64_t lane, int64_t first,
                int64_t count, void* to_rows, uint8_t* to_valid) {
  if (count == 0) return;
  const int64_t n_old = std::clamp<int64_t>(s.old - first, 0, count);
  const int64_t first_fresh = std::max<int64_t>(first - s.old, 0);
  auto* rows = static_cast<unsigned char*>(to_rows) + lane * count * s.row_bytes;
  uint8_t* valid = to_valid + lane * count;
  copy_span(span_of(b.old_rows, b.old_valid, lane, s.old, first, n_old, s.row_bytes), s.row_bytes,
            rows, valid);
  copy_span(
      span_of(b.fresh_rows, b.fresh_valid, lane, s.fresh, first_fresh, count - n_old, s.row_bytes),
      s.row_bytes, rows + n_old * s.row_bytes, valid + n_old);
}

}  // namespace

void update_cache(const CacheUpdateShape& shape, const CacheUpdateBuffers& buffers) {
  const int64_t evicted = shape.evicted();
  for (int64_t lane = 0; lane < shape.lanes; ++lane) {
    copy_joint(shape, buffers, lane, 0, evicted, buffers.evicted_rows, buffers.evicted_valid);
    copy_joint(shape, buffers, lane, evicted, shape.kept, buffers.kept_rows, buffers.kept_valid);
  }
}

}  // namespace xl_cache::cpu
