// Softmax attention of a tile of queries over one head's rows, block of rows by block of rows, with
// queries fastest: scores [rows, kTile] = K q^T and sums [d, kTile] = V^T P. Maxima, sums and
// rescaling then are operations on whole vectors, and the keys and values are read element by
// element, at any width.
#pragma once

#include "mneme_kernels/cpu/elements.inl"
#include "mneme_kernels/cpu/product.inl"

namespace compressive::cpu {
namespace {

using namespace mneme::cpu;  // NOLINT: all of it has internal linkage

constexpr int64_t kTile = kQueryTile;  // whole vectors of every instruction set and type
// Rows worked on together, so that their scores and values stay in the first cache; a multiple of
// all kRowsOf.
template <typename T>
constexpr int64_t kBlock = 384 / static_cast<int64_t>(sizeof(T));

// One head's keys and values, d apart, as the sums' type. kSpareRows rows of zeros follow each.
template <typename T>
struct HeadRows {
  int64_t count = 0;
  int64_t width;
  T* keys;
  T* values;

  HeadRows(Arena& arena, int64_t most, int64_t d)
      : width(d),
        keys(arena.take<T>((most + kSpareRows) * d)),
        values(arena.take<T>((most + kSpareRows) * d)) {}

  // Rows lie `stride` apart.
  template <typename E>
  void fill(const E* k, const E* v, int64_t stride, int64_t rows) {
    count = rows;
    for (int64_t r = 0; r < rows; ++r) {
      read_row(k + r * stride, width, width, keys + r * width);
      read_row(v + r * stride, width, width, values + r * width);
    }
    clear(keys + rows * width, kSpareRows * width);
    clear(values + rows * width, kSpareRows * width);
  }
  int64_t block_count(int64_t first) const { return smaller(kBlock<T>, count - first); }
};

// Up to kTile queries.
template <typename T>
struct QueryTile {
  int64_t count = 0;
  int64_t padded;  // row length of `rows`
  T* turned;       // [d, kTile] times scale and log2(e): scores are exponents of 2
  T* rows;         // [kTile, padded] times scale

  QueryTile(Arena& arena, int64_t d)
      : padded(round_up(d, kLanes<T>)),
        turned(arena.take<T>(d * kTile)),
        rows(arena.take<T>(kTile * padded)) {}

  template <typename E>
  void fill(const E* q, int64_t stride, int64_t n, int64_t d, double scale) {
    count = n;
    clear(turned, d * kTile);
    for (int64_t i = 0; i < n; ++i) {
      T* row = rows + i * padded;
      read_row(q + i * stride, d, padded, row);
      for (int64_t j = 0; j < d; ++j) {
        turned[j * kTile + i] = row[j] * static_cast<T>(scale * 1.4426950408889634074);
        row[j] *= static_cast<T>(scale);
      }
    }
  }
  int64_t vectors() const { return (count + kLanes<T> - 1) / kLanes<T>; }
};

// The softmax of a tile over the rows so far: probabilities are 2^(score - most) / sum.
template <typename T>
struct Softmax {
  T most[kTile];
  T sum[kTile];

  void begin() {
    for (int64_t i = 0; i < kTile; ++i) {
      most[i] = -__builtin_inff();
      sum[i] = T{0};
    }
  }
};

// Never below the smallest normal number, so that a score of -infinity is no NaN; a NaN stays.
template <typename T>
MNEME_INLINE Vec<T> power(Vec<T> exponent) {
  return exp2(at_least<T>(exponent, splat(SimdTypes<T>::kLowestExponent)));
}

// Scores of a block to unnormalised probabilities; what was summed before has to be multiplied by
// `shrink`. Returns whether any of it is not 1.
template <typename T>
MNEME_INLINE bool add_to_softmax(T* scores, int64_t count, int64_t vectors, Softmax<T>& softmax,
                                 T* shrink) {
  bool has_changed = false;
  for (int64_t i = 0; i < vectors * kLanes<T>; i += kLanes<T>) {
    const Vec<T> before = load(softmax.most + i);
    Vec<T> most = before;
    for (int64_t r = 0; r < count; ++r) most = at_least<T>(load(scores + r * kTile + i), most);
    const Vec<T> change = power<T>(before - most);
    Vec<T> sum = load(softmax.sum + i) * change;
    for (int64_t r = 0; r < count; ++r) {
      const Vec<T> p = power<T>(load(scores + r * kTile + i) - most);
      store(scores + r * kTile + i, p);
      sum += p;
    }
    store(softmax.most + i, most);
    store(softmax.sum + i, sum);
    store(shrink + i, change);
    for (int64_t j = 0; j < kLanes<T>; ++j) has_changed |= !(change[j] == T{1});
  }
  return has_changed;
}

// out [round_up(d, kSpareRows), kTile] = V^T 2^(scores - most), to be divided by the softmax's sum.
// keep null: `scores` is one block's. Otherwise it is [rows, kTile] and stays, each block's part
// relative to the maximum at its time, which goes to keep [blocks, kTile].
template <typename T>
void attend(const HeadRows<T>& rows, const QueryTile<T>& q, T* scores, T* keep, T* out,
            Softmax<T>& softmax) {
  T shrink[kTile];
  softmax.begin();
  for (int64_t first = 0; first < rows.count; first += kBlock<T>) {
    const int64_t count = rows.block_count(first);
    multiply(Product<T>{rows.keys + first * rows.width, rows.width, 1, q.turned, kTile, scores,
                        kTile, count, q.vectors(), rows.width, true});
    const bool has_changed = add_to_softmax(scores, count, q.vectors(), softmax, shrink);
    for (int64_t j = 0; has_changed && first > 0 && j < rows.width; ++j) {
      for (int64_t i = 0; i < q.vectors() * kLanes<T>; i += kLanes<T>) {
        store(out + j * kTile + i, load(out + j * kTile + i) * load(shrink + i));
      }
    }
    multiply(Product<T>{rows.values + first * rows.width, 1, rows.width, scores, kTile, out, kTile,
                        rows.width, q.vectors(), count, first == 0});
    if (keep == nullptr) continue;
    __builtin_memcpy(keep, softmax.most, sizeof(softmax.most));
    keep += kTile;
    scores += count * kTile;
  }
}

}  // namespace
}  // namespace compressive::cpu
