// Groups of rows to one row each, and back, some columns at a time.
#include "kernels/pool.hpp"
// The rest is compiled for one instruction set:
#include "mneme_kernels/cpu/begin.inl"

namespace compressive::cpu {
namespace {

using namespace mneme::cpu;  // NOLINT: all of it has internal linkage

constexpr int64_t kColumns = 64;

template <typename T, typename E>
struct Columns {
  T values[kColumns];

  MNEME_INLINE void set(const E* from, int64_t count) {
    for (int64_t j = 0; j < count; ++j) values[j] = widen(from[j]);
  }
  MNEME_INLINE void add(const E* from, int64_t count) {
    for (int64_t j = 0; j < count; ++j) values[j] += widen(from[j]);
  }
  // A NaN on either side stays.
  MNEME_INLINE void raise(const E* from, int64_t count) {
    for (int64_t j = 0; j < count; ++j) {
      const T value = widen(from[j]);
      values[j] = value <= values[j] || values[j] != values[j] ? values[j] : value;
    }
  }
};

template <typename T, typename E>
void pool_window(const PoolShape& shape, const PoolBuffers& buffers, int64_t window) {
  const int64_t lane = window / shape.windows();
  const int64_t first = lane * shape.rows + window % shape.windows() * shape.rate;
  const E* rows = static_cast<const E*>(buffers.rows) + first * shape.width;
  E* pooled = static_cast<E*>(buffers.pooled) + window * shape.width;
  // A quotient is the nearest number to the sum's mean; a product with 1 / c is not.
  const T divisor = shape.kind == PoolKind::kMean ? static_cast<T>(shape.rate) : T{1};
  for (int64_t column = 0; column < shape.width; column += kColumns) {
    const int64_t count = smaller(kColumns, shape.width - column);
    Columns<T, E> columns;
    columns.set(rows + column, count);
    for (int64_t t = 1; t < shape.rate; ++t) {
      const E* row = rows + t * shape.width + column;
      shape.kind == PoolKind::kMean ? columns.add(row, count) : columns.raise(row, count);
    }
    for (int64_t j = 0; j < count; ++j) narrow(columns.values[j] / divisor, pooled[column + j]);
  }
}

template <typename E>
MNEME_INLINE void clear_row(E* to, int64_t width) {
  __builtin_memset(to, 0, static_cast<uint64_t>(width) * sizeof(E));
}

// The first of the window's largest rows of each column gets what arrives.
template <typename T, typename E>
MNEME_INLINE void give_to_largest(const PoolShape& shape, const E* rows, const E* arriving, E* to) {
  for (int64_t j = 0; j < shape.width; ++j) {
    int64_t largest = 0;
    T most = widen(rows[j]);
    for (int64_t t = 1; t < shape.rate; ++t) {
      const T value = widen(rows[t * shape.width + j]);
      if (value <= most || most != most) continue;
      most = value;
      largest = t;
    }
    for (int64_t t = 0; t < shape.rate; ++t) narrow(T{0}, to[t * shape.width + j]);
    to[largest * shape.width + j] = arriving[j];
  }
}

template <typename T, typename E>
MNEME_INLINE void give_to_all(const PoolShape& shape, const E* arriving, E* to) {
  const T divisor = static_cast<T>(shape.rate);
  for (int64_t t = 0; t < shape.rate; ++t, to += shape.width) {
    for (int64_t j = 0; j < shape.width; ++j) narrow(widen(arriving[j]) / divisor, to[j]);
  }
}

template <typename T, typename E>
void pool_window_backward(const PoolShape& shape, const PoolGradients& gradients, int64_t window) {
  const int64_t lane = window / shape.windows();
  const int64_t in_lane = window % shape.windows();
  const int64_t first = (lane * shape.rows + in_lane * shape.rate) * shape.width;
  const E* arriving = static_cast<const E*>(gradients.arriving) + window * shape.width;
  E* to = static_cast<E*>(gradients.rows_grad) + first;
  if (shape.kind == PoolKind::kMean) {
    give_to_all<T>(shape, arriving, to);
  } else {
    give_to_largest<T>(shape, static_cast<const E*>(gradients.rows) + first, arriving, to);
  }
  if (in_lane + 1 == shape.windows()) {
    clear_row(to + shape.rate * shape.width, shape.rest() * shape.width);
  }
}

void pool_rows(const PoolShape& shape, const PoolBuffers& buffers, int64_t window) {
  switch (shape.element) {
    case mneme::ElementType::kF32:
      return pool_window<float, float>(shape, buffers, window);
    case mneme::ElementType::kF64:
      return pool_window<double, double>(shape, buffers, window);
    case mneme::ElementType::kBF16:
      return pool_window<float, BF16>(shape, buffers, window);
    case mneme::ElementType::kF16:
      return pool_window<float, F16>(shape, buffers, window);
  }
}

void pool_backward(const PoolShape& shape, const PoolGradients& gradients, int64_t window) {
  switch (shape.element) {
    case mneme::ElementType::kF32:
      return pool_window_backward<float, float>(shape, gradients, window);
    case mneme::ElementType::kF64:
      return pool_window_backward<double, double>(shape, gradients, window);
    case mneme::ElementType::kBF16:
      return pool_window_backward<float, BF16>(shape, gradients, window);
    case mneme::ElementType::kF16:
      return pool_window_backward<float, F16>(shape, gradients, window);
  }
}

}  // namespace
}  // namespace compressive::cpu

namespace compressive {

const PoolKernels PoolKernels::MNEME_INSTRUCTION_SET = {&cpu::pool_rows, &cpu::pool_backward};

}  // namespace compressive

#include "mneme_kernels/cpu/end.inl"
