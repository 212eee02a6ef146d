// Small matrix products that live in the caches: C [rows, columns] (+)= A [rows, k] B [k, columns].
#pragma once

#include <type_traits>

#include "mneme_kernels/cpu/simd.inl"

namespace mneme {
inline namespace sdk_0_1 {
namespace cpu {
namespace {

// A register tile has kRowsOf<columns> rows of `columns` vectors: 24 of AVX-512's 32 registers, 12
// of 16 otherwise, hold sums. All row counts divide kTile.
#ifdef MNEME_USE_AVX512
constexpr int kMaxColumns = 4;
template <int columns>
constexpr int kRowsOf = columns == 4   ? 6
                        : columns == 3 ? 8
                                       : 12;
#else
constexpr int kMaxColumns = 2;
template <int columns>
constexpr int kRowsOf = columns == 2 ? 6 : 12;
#endif
constexpr int64_t kSpareRows = 12;  // the largest kRowsOf

// Rows of A are a_row elements apart, its columns a_k; one of the two is 1. A, B and C may be read
// up to 11 rows beyond the last; B's and C's rows hold whole vectors.
template <typename T>
struct Product {
  const T* a;
  int64_t a_row;
  int64_t a_k;
  const T* b;
  int64_t b_row;
  T* c;
  int64_t c_row;
  int64_t rows;
  int64_t vectors;  // columns / kLanes
  int64_t k;
  bool is_fresh = false;  // C = A B, whatever C held; else C += A B
};

struct Nothing {
  MNEME_INLINE void operator()() const {}
};
constexpr int64_t kBetween = 16;  // products of a sum from one call of between() to the next

// Calls between() meanwhile, for what had better be done a little at a time.
template <int rows, int columns, typename T, typename Between = Nothing>
MNEME_INLINE void multiply_registers(const Product<T>& p, const T* a, const T* b, T* c,
                                     const Between& between = {}) {
  Vec<T> sum[rows][columns];
  MNEME_UNROLL for (int i = 0; i < rows; ++i) {
    MNEME_UNROLL for (int j = 0; j < columns; ++j) sum[i][j] =
        p.is_fresh ? Vec<T>{} : load(c + i * p.c_row + j * kLanes<T>);
  }
  // Addresses reach twice a row's distance without a register of their own.
  constexpr int kThrees = (rows + 2) / 3;
  const T* of_three[kThrees];
  MNEME_UNROLL for (int g = 0; g < kThrees; ++g) of_three[g] = a + 3 * g * p.a_row;
  int64_t k = 0;
  const auto add = [&](int64_t end) __attribute__((always_inline)) {
    for (; k < end; ++k) {
      Vec<T> row[columns];
      MNEME_UNROLL for (int j = 0; j < columns; ++j) row[j] = load(b + j * kLanes<T>);
      MNEME_UNROLL for (int i = 0; i < rows; ++i) {
        const Vec<T> factor = splat(of_three[i / 3][i % 3 * p.a_row]);
        MNEME_UNROLL for (int j = 0; j < columns; ++j) sum[i][j] += factor * row[j];
      }
      MNEME_UNROLL for (int g = 0; g < kThrees; ++g) of_three[g] += p.a_k;
      b += p.b_row;
    }
  };
  if constexpr (!std::is_same_v<Between, Nothing>) {
    while (k + kBetween <= p.k) {
      add(k + kBetween);
      between();
    }
  }
  add(p.k);
  MNEME_UNROLL for (int i = 0; i < rows; ++i) {
    MNEME_UNROLL for (int j = 0; j < columns; ++j)
        store(c + i * p.c_row + j * kLanes<T>, sum[i][j]);
  }
}

template <int columns, typename T, typename Between>
MNEME_INLINE void multiply_columns(const Product<T>& p, int64_t first, const Between& between) {
  constexpr int kRows = kRowsOf<columns>;
  for (int64_t i = 0; i < p.rows; i += kRows) {
    multiply_registers<kRows, columns>(p, p.a + i * p.a_row, p.b + first * kLanes<T>,
                                       p.c + i * p.c_row + first * kLanes<T>, between);
  }
}

// Works on rows rounded up to a register tile: the caller's buffers have room for them.
template <typename T, typename Between = Nothing>
MNEME_INLINE void multiply(const Product<T>& p, const Between& between = {}) {
  const int64_t panels = (p.vectors + kMaxColumns - 1) / kMaxColumns;
  for (int64_t panel = 0; panel < panels; ++panel) {
    const int64_t first = panel * p.vectors / panels;
    switch ((panel + 1) * p.vectors / panels - first) {
#ifdef MNEME_USE_AVX512
      case 4:
        multiply_columns<4>(p, first, between);
        break;
      case 3:
        multiply_columns<3>(p, first, between);
        break;
#endif
      case 2:
        multiply_columns<2>(p, first, between);
        break;
      default:
        multiply_columns<1>(p, first, between);
    }
  }
}

}  // namespace
}  // namespace cpu
}  // namespace sdk_0_1
}  // namespace mneme
