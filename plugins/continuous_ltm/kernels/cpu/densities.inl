// The normal densities of one head's queries: their order, and the terms that all functions of one
// width share.
#pragma once

#include "basis_grid.hpp"
#include "mneme_kernels/cpu/elements.inl"
#include "mneme_kernels/cpu/product.inl"

namespace continuous_ltm::cpu {
namespace {

using namespace mneme::cpu;  // NOLINT: all of it has internal linkage

constexpr int64_t kTile = 48;         // queries worked on together; a multiple of all kRowsOf
constexpr int64_t kOrderLevels = 32;  // steps of [0,1] that the order tells apart
constexpr int64_t kBuckets = kOrderLevels * kOrderLevels;

// The centres as sums of two numbers of type T: mu - high is exact near the centre, so that the
// distance has all the digits that mu has.
template <typename T>
struct Centres {
  int64_t count;
  T* high;
  T* low;

  Centres(Arena& arena, const BasisGrid& grid)
      : count(grid.centres), high(arena.take<T>(count)), low(arena.take<T>(count)) {}
  void fill(const BasisGrid& grid) {
    for (int64_t c = 0; c < count; ++c) {
      high[c] = static_cast<T>(grid.centre(c));
      low[c] = static_cast<T>(grid.centre(c) - static_cast<double>(high[c]));
    }
  }
};

// One head's queries; arrays are padded to whole vectors with a harmless density.
template <typename T>
struct Queries {
  int64_t count;
  int64_t padded;
  T* mu;
  T* mu_low;  // mu + mu_low is the mean
  T* variance;
  int32_t* order;  // [count] queries in the order in which they are worked on
  int32_t* bucket;
  int32_t* starts;  // [kBuckets]

  Queries(Arena& arena, int64_t n)
      : count(n),
        padded(round_up(n, kLanes<T>)),
        mu(arena.take<T>(padded)),
        mu_low(arena.take<T>(padded)),
        variance(arena.take<T>(padded)),
        order(arena.take<int32_t>(padded)),
        bucket(arena.take<int32_t>(padded)),
        starts(arena.take<int32_t>(kBuckets)) {}

  // Means of type double are kept as two terms.
  template <typename Mean>
  void fill(const Mean* means, const T* variances) {
    for (int64_t i = 0; i < padded; ++i) {
      const Mean mean = i < count ? means[i] : Mean{0};
      mu[i] = static_cast<T>(mean);
      mu_low[i] = static_cast<T>(mean - static_cast<Mean>(mu[i]));
      variance[i] = i >= count ? T{1} : variances == nullptr ? T{0} : variances[i];
      order[i] = static_cast<int32_t>(i);
    }
  }
};

// Sets each query's bucket from the first and the last step of [0,1] within its cutoff. Returns
// whether any two queries have different buckets; otherwise ordering them changes nothing.
template <typename T>
MNEME_INLINE bool find_buckets(Queries<T>& q, T widest, T cutoff) {
  constexpr T kTop = static_cast<T>(kOrderLevels - 1);
  const auto level = [&](T place) {  // NaN to 0
    const T step = place * static_cast<T>(kOrderLevels);
    return static_cast<int32_t>(step > T{0} ? (step < kTop ? step : kTop) : T{0});
  };
  T half[kLanes<T>];
  bool differ = false;
  for (int64_t i = 0; i < q.padded; i += kLanes<T>) {
    const Vec<T> v = load(q.variance + i) + widest * widest;
    store(half, cutoff * square_root(v));
    for (int64_t j = 0; j < kLanes<T>; ++j) {
      const T mean = q.mu[i + j];
      q.bucket[i + j] =
          level(mean - half[j]) * static_cast<int32_t>(kOrderLevels) + level(mean + half[j]);
      differ |= i + j < q.count && q.bucket[i + j] != q.bucket[0];
    }
  }
  return differ;
}

// Puts queries that use the same functions next to each other, so that a tile's functions are
// few. Stable, and a function of this head's densities only.
template <typename T>
MNEME_INLINE void order_queries(Queries<T>& q, const BasisGrid& grid, T cutoff) {
  if (cutoff == T{0} || q.count <= kTile) return;
  double widest = 0.0;
  for (int32_t w = 0; w < grid.widths; ++w) {
    widest = grid.width[w] > widest ? grid.width[w] : widest;
  }
  if (!find_buckets(q, static_cast<T>(widest), cutoff)) return;
  for (int64_t k = 0; k < kBuckets; ++k) q.starts[k] = 0;
  for (int64_t i = 0; i < q.count; ++i) ++q.starts[q.bucket[i]];
  int32_t start = 0;
  for (int64_t k = 0; k < kBuckets; ++k) {
    const int32_t size = q.starts[k];
    q.starts[k] = start;
    start += size;
  }
  for (int64_t i = 0; i < q.count; ++i) {
    q.order[q.starts[q.bucket[i]]++] = static_cast<int32_t>(i);
  }
}

// Up to kTile queries.
template <typename T>
struct Tile {
  int64_t count;
  const int32_t* order;
  T mu[kTile];
  T mu_low[kTile];
  T variance[kTile];

  Tile(const Queries<T>& q, int64_t first)
      : count(smaller(kTile, q.count - first)), order(q.order + first) {
    for (int64_t i = 0; i < kTile; ++i) {
      const int64_t from = i < count ? order[i] : -1;
      mu[i] = from < 0 ? T{0} : q.mu[from];
      mu_low[i] = from < 0 ? T{0} : q.mu_low[from];
      variance[i] = from < 0 ? T{1} : q.variance[from];
    }
  }
  // Vectors that cover the queries and what a register tile reads beyond them.
  int64_t vectors() const { return (round_up(count, kSpareRows) + kLanes<T> - 1) / kLanes<T>; }
};

// What a tile's queries share over the functions of one width sigma, with v = sigma^2 + s2:
// N(mu; mu_c, v) = height * 2^(rate * (mu - mu_c)^2). Every function within the
// cutoff of any query is among first .. last - 1.
template <typename T>
struct WidthTerms {
  T inverse[kTile];  // 1 / v
  T rate[kTile];     // -log2(e) / (2 v)
  T height[kTile];   // 1 / sqrt(2 pi v); 0 where there is no query, NaN where mu is not finite
  int64_t first;
  int64_t last;

  WidthTerms(const Tile<T>& tile, double sigma, T cutoff, int64_t centres) {
    T low[kTile];
    T high[kTile];
    for (int64_t i = 0; i < kTile; i += kLanes<T>) {
      const Vec<T> v = load(tile.variance + i) + static_cast<T>(sigma * sigma);
      const Vec<T> mu = load(tile.mu + i);
      const Vec<T> over_v = T{1} / v;
      const Vec<T> half = cutoff * square_root(v);
      store(inverse + i, over_v);
      store(rate + i, over_v * static_cast<T>(-kHalfLog2E));
      store(height + i, square_root(over_v * static_cast<T>(kInverseTwoPi)) + (mu - mu));
      store(low + i, mu - half);
      store(high + i, mu + half);
    }
    for (int64_t i = tile.count; i < kTile; ++i) height[i] = T{0};
    find_range(low, high, tile.count, cutoff, centres);
  }

 private:
  void find_range(const T* low, const T* high, int64_t count, T cutoff, int64_t centres) {
    T from = low[0];
    T to = high[0];
    bool is_ordered = cutoff != T{0};
    for (int64_t i = 0; i < count; ++i) {
      is_ordered &= low[i] <= high[i];  // false for NaN: then every function is visited
      from = low[i] < from ? low[i] : from;
      to = high[i] > to ? high[i] : to;
    }
    first = 0;
    last = centres;
    if (!is_ordered) return;
    const double steps = static_cast<double>(centres - 1);
    const double begin = static_cast<double>(from) * steps;
    const double end = static_cast<double>(to) * steps;
    if (begin > 0.0) first = begin < steps ? static_cast<int64_t>(begin) : centres - 1;
    if (end < steps) last = end > 0.0 ? static_cast<int64_t>(end) + 1 : 1;
  }
};

}  // namespace
}  // namespace continuous_ltm::cpu
