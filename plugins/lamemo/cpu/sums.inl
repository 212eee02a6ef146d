// What follows the slices of a backward pass: sums over slices and over groups of queries.
#pragma once

#include "cpu/tiles.inl"

namespace lamemo::cpu {
namespace {

// to[j] = factor * sum over `parts` of from[part * stride + j], in their order.
template <typename T, typename E>
void sum_row(const T* from, int64_t parts, int64_t stride, int64_t width, T factor, E* to) {
  for (int64_t j = 0; j < width; ++j) {
    T sum = from[j];
    for (int64_t part = 1; part < parts; ++part) sum += from[part * stride + j];
    narrow(sum * factor, to[j]);
  }
}

template <typename T, typename E>
void sum_table_row(const LookAheadShape& shape, const LookAheadGradients& gradients,
                   const LookAheadParts& parts, int64_t row) {
  const int64_t padded = padded_columns(shape.head_width);
  const int64_t stride = (shape.offsets + kSpareOffsets) * padded;
  const T* from = static_cast<const T*>(parts.table_sums) +
                  row / shape.offsets * parts.slices * stride + row % shape.offsets * padded;
  sum_row(from, parts.slices, stride, shape.head_width, kLn2<T>,
          static_cast<E*>(gradients.table) + row * shape.head_width);
}

void sum_table(const LookAheadShape& shape, const LookAheadGradients& gradients,
               const LookAheadParts& parts, int64_t row) {
  switch (shape.element) {
    case mneme::ElementType::kF64:
      return sum_table_row<double, double>(shape, gradients, parts, row);
    case mneme::ElementType::kBF16:
      return sum_table_row<float, BF16>(shape, gradients, parts, row);
    default:
      return sum_table_row<float, float>(shape, gradients, parts, row);
  }
}

template <typename T>
void sum_biases_of(const LookAheadShape& shape, const LookAheadGradients& gradients,
                   const LookAheadParts& parts, int64_t head) {
  const int64_t padded = padded_columns(shape.head_width);
  const T* from = static_cast<const T*>(parts.bias_sums) + head * parts.slices * 2 * padded;
  const auto sum_bias = [&](const T* bias, void* to) {
    if (to == nullptr) return;
    sum_row(bias, parts.slices, 2 * padded, shape.head_width, static_cast<T>(shape.scale),
            static_cast<T*>(to) + head * shape.head_width);
  };
  sum_bias(from, gradients.content_bias);
  sum_bias(from + padded, gradients.position_bias);
}

void sum_biases(const LookAheadShape& shape, const LookAheadGradients& gradients,
                const LookAheadParts& parts, int64_t head) {
  if (shape.is_f64()) {
    sum_biases_of<double>(shape, gradients, parts, head);
  } else {
    sum_biases_of<float>(shape, gradients, parts, head);
  }
}

template <typename T, typename E>
void sum_keys_of(const LookAheadShape& shape, const LookAheadGradients& gradients,
                 const LookAheadParts& parts, int64_t piece) {
  const int64_t width = shape.head_width;
  const int64_t size = shape.keys * width;
  const int64_t lane = piece / shape.heads;
  const int64_t head = piece % shape.heads;
  const T* from = static_cast<const T*>(parts.key_sums) + piece * parts.groups * 2 * size;
  const auto sum_rows = [&](const T* sums, void* gradient) {
    if (gradient == nullptr) return;
    for (int64_t c = 0; c < shape.keys; ++c) {
      sum_row(sums + c * width, parts.groups, 2 * size, width, T{1},
              static_cast<E*>(gradient) + ((lane * shape.keys + c) * shape.heads + head) * width);
    }
  };
  sum_rows(from, gradients.k);
  sum_rows(from + size, gradients.v);
}

void sum_keys(const LookAheadShape& shape, const LookAheadGradients& gradients,
              const LookAheadParts& parts, int64_t piece) {
  switch (shape.element) {
    case mneme::ElementType::kF64:
      return sum_keys_of<double, double>(shape, gradients, parts, piece);
    case mneme::ElementType::kBF16:
      return sum_keys_of<float, BF16>(shape, gradients, parts, piece);
    default:
      return sum_keys_of<float, float>(shape, gradients, parts, piece);
  }
}

}  // namespace
}  // namespace lamemo::cpu
