// What a stack of LaMemo layers is measured at.
#pragma once

#include <cstdint>

namespace mneme::bench {

struct StackSizes {
  int64_t layers, width, heads, head_width, ff;
  int64_t lanes, segment, rows;

  int64_t inner() const { return heads * head_width; }
};

// Transformer bodies of the paper [LaMemo, table 1; Transformer-XL's scripts].
inline StackSizes wikitext103(int64_t layers, int64_t lanes, int64_t segment, int64_t rows) {
  return {layers, 410, 10, 41, 2100, lanes, segment, rows};
}

// Floating-point operations of one segment of a full memory, a multiply-add counting 2. Of scores
// only those that a query may use are counted, whatever a side computes.
inline double useful_flops(const StackSizes& s) {
  const auto d = [](int64_t n) { return static_cast<double>(n); };
  const double tokens = d(s.segment), rows = d(s.rows), inner = d(s.inner()), width = d(s.width);
  const double keys = rows + tokens;
  const double feed_forward = 2.0 * 2.0 * width * d(s.ff);
  const double projection = 2.0 * width * inner;
  const double causal = 3.0 * 2.0 * inner * tokens * (rows + (tokens + 1.0) / 2.0);
  // Row i attends the window's keys behind it.
  double pairs = 0.0;
  const int64_t first = s.rows - s.segment + 1 > 1 ? s.rows - s.segment + 1 : 1;
  for (int64_t i = 0; i < s.rows; ++i) pairs += d(s.rows - (i + 1 > first ? i + 1 : first) + 1);
  const double refreshed = keys * (4.0 * projection + feed_forward) + 3.0 * 2.0 * inner * pairs;
  const double last = (2.0 * keys + 2.0 * tokens) * projection + tokens * feed_forward;
  const double positions = 2.0 * width * inner * keys;  // once for all lanes
  const double layers = d(s.layers);
  return d(s.lanes) * ((layers - 1.0) * refreshed + last + layers * causal) + layers * positions;
}

}  // namespace mneme::bench
