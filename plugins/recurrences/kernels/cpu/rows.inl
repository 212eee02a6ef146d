// Rows of a chunk in the workspace, and products of them; all matrices have whole vectors a row and
// kSpareRows more rows than they use, as Product asks.
#pragma once

#include "kernels/recurrence.hpp"
#include "mneme_kernels/cpu/product.inl"
#include "mneme_kernels/cpu/rows.inl"
#include "mneme_kernels/cpu/softmax.inl"

namespace recurrences::cpu {
namespace {

using namespace mneme::cpu;  // NOLINT: all of it has internal linkage

constexpr int64_t kBlock = 24;  // tokens; whole register tiles of every instruction set

// Extents of one head, as lie in the workspace.
struct Extents {
  int64_t keys, key_row;      // K, and the length of a row of it
  int64_t values, value_row;  // V
  int64_t chunk, score_row;   // C

  explicit Extents(const RecurrenceShape& s)
      : keys(s.key_width),
        key_row(padded_columns(s.key_width)),
        values(s.value_width),
        value_row(padded_columns(s.value_width)),
        chunk(s.chunk < s.length ? s.chunk : s.length),
        score_row(turned_columns(chunk)) {}
};

template <typename T>
T* take_rows(Arena& arena, int64_t rows, int64_t row) {
  return arena.take<T>((rows + kSpareRows) * row);
}

// C [rows, columns] (+)= A B. `a_row` = 1: A lies turned, its columns `a_k` apart.
template <typename T>
struct Matrix {
  T* at;
  int64_t row;
};
template <typename T>
void product(const T* a, int64_t a_row, int64_t a_k, Matrix<const T> b, Matrix<T> c, int64_t rows,
             int64_t columns, int64_t k, bool is_fresh) {
  multiply(Product<T>{a, a_row, a_k, b.at, b.row, c.at, c.row, rows, divide_up(columns, kLanes<T>),
                      k, is_fresh});
}

// The same with A [n, n] whose entries above the diagonal are zeros.
template <typename T>
void lower_product(const T* a, int64_t a_row, Matrix<const T> b, Matrix<T> c, int64_t n,
                   int64_t columns, bool is_fresh) {
  for (int64_t i = 0; i < n; i += kBlock) {
    const int64_t rows = smaller(kBlock, n - i);
    product<T>(a + i * a_row, a_row, 1, b, {c.at + i * c.row, c.row}, rows, columns, i + rows,
               is_fresh);
  }
}
// C = A^T B, or added, of such an A.
template <typename T>
void lower_turned_product(const T* a, int64_t a_row, Matrix<const T> b, Matrix<T> c, int64_t n,
                          int64_t columns, bool is_fresh) {
  for (int64_t i = 0; i < n; i += kBlock) {
    product<T>(a + i * a_row + i, 1, a_row, {b.at + i * b.row, b.row}, {c.at + i * c.row, c.row},
               smaller(kBlock, n - i), columns, n - i, is_fresh);
  }
}

template <typename T, typename Function>
MNEME_INLINE void for_vectors(int64_t count, const Function& function) {
  for (int64_t j = 0; j < count; j += kLanes<T>) function(j);
}

// to = a * b, element by element; `count` is a whole number of vectors.
template <typename T>
MNEME_INLINE void times(const T* a, const T* b, int64_t count, T* to) {
  for_vectors<T>(
      count, [&](int64_t j)
                 __attribute__((always_inline)) { store(to + j, load(a + j) * load(b + j)); });
}
template <typename T>
MNEME_INLINE void add_times(const T* a, const T* b, int64_t count, T* to) {
  for_vectors<T>(
      count, [&](int64_t j) __attribute__((always_inline)) {
        store(to + j, load(to + j) + load(a + j) * load(b + j));
      });
}
template <typename T>
MNEME_INLINE void times(const T* a, T b, int64_t count, T* to) {
  for_vectors<T>(
      count, [&](int64_t j)
                 __attribute__((always_inline)) { store(to + j, load(a + j) * splat(b)); });
}
template <typename T>
MNEME_INLINE void add_times(const T* a, T b, int64_t count, T* to) {
  for_vectors<T>(
      count, [&](int64_t j) __attribute__((always_inline)) {
        store(to + j, load(to + j) + load(a + j) * splat(b));
      });
}
template <typename T>
MNEME_INLINE T dot(const T* a, const T* b, int64_t count) {
  Vec<T> sum = {};
  for_vectors<T>(
      count, [&](int64_t j) __attribute__((always_inline)) { sum += load(a + j) * load(b + j); });
  return sum_of<T>(sum);
}
// to = e^from.
template <typename T>
MNEME_INLINE void exponentials(const T* from, int64_t count, T* to) {
  for_vectors<T>(
      count, [&](int64_t j) __attribute__((always_inline)) {
        store(to + j, power<T>(load(from + j) * splat(kLog2E<T>)));
      });
}

// Rows of one head in a tensor [B,T,heads,width], first to last token of a chunk.
template <typename T>
struct TokenRows {
  T* first;
  int64_t stride;

  // `heads` of the tensor, of which `head` is meant.
  TokenRows(T* data, int64_t lane, int64_t length, int64_t heads, int64_t head, int64_t width,
            int64_t token)
      : first(data == nullptr ? nullptr : data + ((lane * length + token) * heads + head) * width),
        stride(heads * width) {}
  T* row(int64_t i) const { return first + i * stride; }
};

template <typename T>
void fetch(const TokenRows<const T>& from, int64_t count, int64_t width, int64_t padded, T* to) {
  for (int64_t i = 0; i < count; ++i) fetch_row(from.row(i), width, padded, to + i * padded);
}
template <typename T>
void put(const T* from, int64_t from_row, int64_t count, int64_t width, bool adds,
         const TokenRows<T>& to) {
  for (int64_t i = 0; i < count; ++i) {
    const T* row = from + i * from_row;
    T* target = to.row(i);
    if (adds) {
      for (int64_t j = 0; j < width; ++j) target[j] += row[j];
    } else {
      copy_row(row, width, target);
    }
  }
}

// A state [K,V] to and from rows of the workspace.
template <typename T>
void fetch_state(const Extents& e, const T* from, T* to) {
  for (int64_t i = 0; i < e.keys; ++i) {
    fetch_row(from + i * e.values, e.values, e.value_row, to + i * e.value_row);
  }
}
template <typename T>
void put_state(const Extents& e, const T* from, T* to) {
  for (int64_t i = 0; i < e.keys; ++i)
    copy_row(from + i * e.value_row, e.values, to + i * e.values);
}

}  // namespace
}  // namespace recurrences::cpu
