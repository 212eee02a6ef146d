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

// [rows, columns] -> [columns, rows], rows from_row and to_row apart.
template <typename T>
void turn_rows(const T* from, int64_t from_row, int64_t rows, int64_t columns, T* to,
               int64_t to_row) {
  const int64_t whole_rows = rows / 4 * 4, whole = columns / 4 * 4;
  for (int64_t r = 0; r < whole_rows; r += 4) {
    for (int64_t j = 0; j < whole; j += 4) {
      turn_four(from + r * from_row + j, from_row, to + j * to_row + r, to_row);
    }
  }
  for (int64_t j = 0; j < columns; ++j) {
    for (int64_t r = j < whole ? whole_rows : 0; r < rows; ++r) {
      to[j * to_row + r] = from[r * from_row + j];
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
