// Rows of one head to and from padded rows of the sums' type, without a call where nothing is
// converted: rows are short, and there are several for every query.
#pragma once

#include "mneme_kernels/cpu/elements.inl"

namespace mneme {
inline namespace sdk_0_1 {
namespace cpu {
namespace {

template <typename T>
MNEME_INLINE void clear_vectors(T* values, int64_t count) {
  for (int64_t j = 0; j < count; j += kLanes<T>) store(values + j, Vec<T>{});
}

// Elements from .. to - 1, of which there may be none.
template <typename T>
MNEME_INLINE void fill_columns(T* row, int64_t from, int64_t to, T value) {
  for (; from + kLanes<T> <= to; from += kLanes<T>) store(row + from, splat(value));
  for (; from < to; ++from) row[from] = value;
}

// The last vector overlaps the one in front of it.
template <typename T>
MNEME_INLINE void copy_row(const T* from, int64_t count, T* to) {
  if (count < kLanes<T>) {
    for (int64_t j = 0; j < count; ++j) to[j] = from[j];
    return;
  }
  for (int64_t j = 0; j < count - kLanes<T>; j += kLanes<T>) store(to + j, load(from + j));
  store(to + count - kLanes<T>, load(from + count - kLanes<T>));
}

// Zeros from `count` on; `padded` = padded_columns(count).
template <typename E, typename T>
MNEME_INLINE void fetch_row(const E* from, int64_t count, int64_t padded, T* to) {
  read_row(from, count, padded, to);
}
template <typename T>
MNEME_INLINE void fetch_row(const T* from, int64_t count, int64_t padded, T* to) {
  if (padded > count) clear_vectors(to + padded - kColumnUnit, kColumnUnit);
  copy_row(from, count, to);
}
template <typename T, typename E>
MNEME_INLINE void put_row(const T* from, int64_t count, E* to) {
  write_row(from, count, to);
}
template <typename T>
MNEME_INLINE void put_row(const T* from, int64_t count, T* to) {
  copy_row(from, count, to);
}

// Four rows of four to four columns of four, both as rows in memory.
MNEME_INLINE void turn_four(const float* from, int64_t from_row, float* to, int64_t to_row) {
  typedef float Four __attribute__((vector_size(16), aligned(4), may_alias));
  Four in[4];
  MNEME_UNROLL for (int i = 0; i < 4; ++i) {
    in[i] = *reinterpret_cast<const Four*>(from + i * from_row);
  }
  const Four low01 = __builtin_shufflevector(in[0], in[1], 0, 4, 1, 5);
  const Four low23 = __builtin_shufflevector(in[2], in[3], 0, 4, 1, 5);
  const Four high01 = __builtin_shufflevector(in[0], in[1], 2, 6, 3, 7);
  const Four high23 = __builtin_shufflevector(in[2], in[3], 2, 6, 3, 7);
  const Four out[4] = {__builtin_shufflevector(low01, low23, 0, 1, 4, 5),
                       __builtin_shufflevector(low01, low23, 2, 3, 6, 7),
                       __builtin_shufflevector(high01, high23, 0, 1, 4, 5),
                       __builtin_shufflevector(high01, high23, 2, 3, 6, 7)};
  MNEME_UNROLL for (int j = 0; j < 4; ++j) * reinterpret_cast<Four*>(to + j * to_row) = out[j];
}
MNEME_INLINE void turn_four(const double* from, int64_t from_row, double* to, int64_t to_row) {
  for (int64_t j = 0; j < 4; ++j) {
    for (int64_t i = 0; i < 4; ++i) to[j * to_row + i] = from[i * from_row + j];
  }
}

// As turn_four, for as many groups of four rows as make a vector: whole vectors are stored.
template <typename T>
constexpr int64_t kTurnedRows = 4;
#if MNEME_VECTOR_BYTES >= 32
template <>
constexpr int64_t kTurnedRows<float> = kLanes<float>;

// The four numbers at `from` and at each four rows on.
MNEME_INLINE Vec<float> load_fours(const float* from, int64_t from_row) {
  typedef float Four __attribute__((vector_size(16), aligned(4), may_alias));
  const auto four = [&](int64_t group) __attribute__((always_inline)) {
    return *reinterpret_cast<const Four*>(from + 4 * group * from_row);
  };
#ifdef MNEME_USE_AVX512
  Vec<float> out = _mm512_castps128_ps512(four(0));
  out = _mm512_maskz_insertf32x4(0xFFFF, out, four(1), 1);
  out = _mm512_maskz_insertf32x4(0xFFFF, out, four(2), 2);
  return _mm512_maskz_insertf32x4(0xFFFF, out, four(3), 3);
#else
  return __builtin_shufflevector(four(0), four(1), 0, 1, 2, 3, 4, 5, 6, 7);
#endif
}
#ifdef MNEME_USE_AVX512
#define MNEME_SHUFFLE(a, b, i, j, k, l)                                                      \
  __builtin_shufflevector(a, b, i, j, k, l, i + 4, j + 4, k + 4, l + 4, i + 8, j + 8, k + 8, \
                          l + 8, i + 12, j + 12, k + 12, l + 12)
#else
#define MNEME_SHUFFLE(a, b, i, j, k, l) \
  __builtin_shufflevector(a, b, i, j, k, l, i + 4, j + 4, k + 4, l + 4)
#endif
MNEME_INLINE void turn_fours(const float* from, int64_t from_row, float* to, int64_t to_row) {
  constexpr int kB = static_cast<int>(kLanes<float>);  // the first of the second factor
  Vec<float> in[4];
  MNEME_UNROLL for (int i = 0; i < 4; ++i) in[i] = load_fours(from + i * from_row, from_row);
  const Vec<float> low01 = MNEME_SHUFFLE(in[0], in[1], 0, kB, 1, kB + 1);
  const Vec<float> low23 = MNEME_SHUFFLE(in[2], in[3], 0, kB, 1, kB + 1);
  const Vec<float> high01 = MNEME_SHUFFLE(in[0], in[1], 2, kB + 2, 3, kB + 3);
  const Vec<float> high23 = MNEME_SHUFFLE(in[2], in[3], 2, kB + 2, 3, kB + 3);
  store(to, MNEME_SHUFFLE(low01, low23, 0, 1, kB, kB + 1));
  store(to + to_row, MNEME_SHUFFLE(low01, low23, 2, 3, kB + 2, kB + 3));
  store(to + 2 * to_row, MNEME_SHUFFLE(high01, high23, 0, 1, kB, kB + 1));
  store(to + 3 * to_row, MNEME_SHUFFLE(high01, high23, 2, 3, kB + 2, kB + 3));
}
#undef MNEME_SHUFFLE
#else
MNEME_INLINE void turn_fours(const float* from, int64_t from_row, float* to, int64_t to_row) {
  turn_four(from, from_row, to, to_row);
}
#endif
MNEME_INLINE void turn_fours(const double* from, int64_t from_row, double* to, int64_t to_row) {
  turn_four(from, from_row, to, to_row);
}

// [rows, columns] -> [columns, rows], rows from_row and to_row apart.
template <typename T>
void turn_rows(const T* from, int64_t from_row, int64_t rows, int64_t columns, T* to,
               int64_t to_row) {
  const int64_t whole_rows = rows / 4 * 4, whole = columns / 4 * 4;
  int64_t r = 0;
  for (; r + kTurnedRows<T> <= rows; r += kTurnedRows<T>) {
    for (int64_t j = 0; j < whole; j += 4) {
      turn_fours(from + r * from_row + j, from_row, to + j * to_row + r, to_row);
    }
  }
  for (; r < whole_rows; r += 4) {
    for (int64_t j = 0; j < whole; j += 4) {
      turn_four(from + r * from_row + j, from_row, to + j * to_row + r, to_row);
    }
  }
  for (int64_t j = 0; j < columns; ++j) {
    for (int64_t i = j < whole ? whole_rows : 0; i < rows; ++i) {
      to[j * to_row + i] = from[i * from_row + j];
    }
  }
}

// Rows that the next tile reads lie too far apart for the processor to guess them.
template <typename E>
MNEME_INLINE void prefetch_rows(const E* from, int64_t stride, int64_t rows, int64_t count) {
  const int64_t bytes = count * static_cast<int64_t>(sizeof(E));
  for (int64_t i = 0; i < rows; ++i) {
    const char* row = reinterpret_cast<const char*>(from + i * stride);
    for (int64_t at = 0; at < bytes; at += 64) __builtin_prefetch(row + at);
  }
}

}  // namespace
}  // namespace cpu
}  // namespace sdk_0_1
}  // namespace mneme
