// sum_n N(mu; mu_n, sigma_n^2 + s2) V_n of one head [infinity-former, eq. 11], tile by tile: the
// weights of a tile of queries and a block of functions go to scratch, then through a
// register-blocked product. Functions are taken width by width, for then those that a tile uses are
// neighbours.
#pragma once

#include "kernels/cpu/densities.inl"

namespace continuous_ltm::cpu {
namespace {

constexpr int64_t kBlock = 96;  // functions: weights and values of a block stay in the first cache

// weights [count][kTile], queries contiguous, of functions first .. first + count - 1.
template <bool two_terms, typename T>
MNEME_INLINE void fill_weights(const Tile<T>& tile, const WidthTerms<T>& terms,
                               const Centres<T>& centres, int64_t first, int64_t count,
                               T* weights) {
  for (int64_t v = 0; v < tile.vectors(); ++v) {
    const Vec<T> mu = load(tile.mu + v * kLanes<T>);
    const Vec<T> mu_low = load(tile.mu_low + v * kLanes<T>);
    const Vec<T> rate = load(terms.rate + v * kLanes<T>);
    const Vec<T> height = load(terms.height + v * kLanes<T>);
    T* to = weights + v * kLanes<T>;
    for (int64_t c = first; c < first + count; ++c, to += kTile) {
      Vec<T> distance = mu - centres.high[c];
      if constexpr (two_terms) {
        distance += mu_low - centres.low[c];
      } else {
        distance -= centres.low[c];
      }
      store(to, exp2(distance * distance * rate) * height);
    }
  }
}

// Where the values of all functions lie: those of centre c and width w at data + w * width_stride +
// c * row_stride (width by width in a packed copy, centre by centre where they are read in place).
template <typename T>
struct ValueRows {
  const T* data;
  int64_t width_stride;
  int64_t row_stride;
};

// Copies [N, d] values whose rows lie `stride` apart to width-major rows of `padded` elements, with
// `spare` rows of zeros behind each width's.
template <typename T, typename E>
ValueRows<T> pack_values(const E* values, int64_t stride, const BasisGrid& grid, int64_t width,
                         int64_t padded, int64_t spare, T* to) {
  const ValueRows<T> rows = {to, (grid.centres + spare) * padded, padded};
  for (int64_t w = 0; w < grid.widths; ++w) {
    T* at = to + w * rows.width_stride;
    for (int64_t c = 0; c < grid.centres; ++c, at += padded) {
      read_row(values + (c * grid.widths + w) * stride, width, padded, at);
    }
    for (int64_t i = 0; i < spare * padded; ++i) at[i] = T{0};
  }
  return rows;
}

template <typename T>
struct ForwardScratch {
  int64_t padded;  // row length of values and sums
  Centres<T> centres;
  Queries<T> queries;
  T* values;
  T* weights;
  T* sums;

  ForwardScratch(Arena& arena, const BasisGrid& grid, int64_t count, int64_t width)
      : padded(round_up(width, kLanes<T>)),
        centres(arena, grid),
        queries(arena, count),
        values(arena.take<T>(grid.basis() * padded)),
        weights(arena.take<T>((kBlock + 1) * kTile)),
        sums(arena.take<T>(kTile * padded)) {}
};

// sums [kTile, padded] of one tile.
template <bool two_terms, typename T>
void sum_tile(const Tile<T>& tile, const BasisGrid& grid, T cutoff, const ValueRows<T>& values,
              const ForwardScratch<T>& s) {
  __builtin_memset(s.sums, 0, static_cast<uint64_t>(kTile * s.padded) * sizeof(T));
  for (int32_t w = 0; w < grid.widths; ++w) {
    const WidthTerms<T> terms(tile, grid.width[w], cutoff, grid.centres);
    for (int64_t c = terms.first; c < terms.last; c += kBlock) {
      const int64_t count = smaller(kBlock, terms.last - c);
      fill_weights<two_terms>(tile, terms, s.centres, c, count, s.weights);
      multiply(Product<T>{
          s.weights, 1, kTile, values.data + w * values.width_stride + c * values.row_stride,
          values.row_stride, s.sums, s.padded, tile.count, s.padded / kLanes<T>, count});
    }
  }
}

// All tiles of one head: row i of the result goes to `rows` + i * row_stride.
template <bool two_terms, typename T, typename E>
void sum_tiles(ForwardScratch<T>& s, const BasisGrid& grid, const ValueRows<T>& values,
               int64_t width, E* rows, int64_t row_stride) {
  const T cutoff = static_cast<T>(grid.cutoff(sizeof(T) == sizeof(double)));
  s.centres.fill(grid);
  order_queries(s.queries, grid, cutoff);
  for (int64_t first = 0; first < s.queries.count; first += kTile) {
    const Tile<T> tile(s.queries, first);
    sum_tile<two_terms>(tile, grid, cutoff, values, s);
    for (int64_t i = 0; i < tile.count; ++i) {
      write_row(s.sums + i * s.padded, width, rows + tile.order[i] * row_stride);
    }
  }
}

// Values can be read where they are when no row needs conversion or padding; a copy pays off by
// its second use.
template <typename T>
MNEME_INLINE ValueRows<T> rows_of(const T* values, int64_t stride, const BasisGrid& grid,
                                  int64_t width, ForwardScratch<T>& s) {
  if (width == s.padded && s.queries.count <= kTile) {
    return {values, stride, grid.widths * stride};
  }
  return pack_values(values, stride, grid, width, s.padded, 0, s.values);
}
template <typename T, typename E>
MNEME_INLINE ValueRows<T> rows_of(const E* values, int64_t stride, const BasisGrid& grid,
                                  int64_t width, ForwardScratch<T>& s) {
  return pack_values(values, stride, grid, width, s.padded, 0, s.values);
}

template <typename T>
uint64_t forward_bytes(const BasisGrid& grid, int64_t count, int64_t width) {
  Arena arena(nullptr);
  const ForwardScratch<T> scratch(arena, grid, count, width);
  static_cast<void>(scratch);
  return arena.bytes();
}

}  // namespace
}  // namespace continuous_ltm::cpu
