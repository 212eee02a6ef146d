// What follows the pieces of a reconstruction error: sums over groups of queries, and the backward
// pass.
#pragma once

#include "cpu/sdk.inl"

namespace compressive::cpu {
namespace {

template <typename T>
void sum_groups_of(const ReconstructionShape& shape, const ReconstructionBuffers& buffers,
                   const ReconstructionParts& parts, int64_t head) {
  const int64_t width = shape.head_width;
  const int64_t stride = shape.heads * width;
  const int64_t at = head / shape.heads * shape.new_rows * stride + head % shape.heads * width;
  const int64_t part = shape.new_rows * width;
  for (const bool is_key : {true, false}) {
    const T* from = static_cast<const T*>(parts.gradients) + 2 * head * parts.groups * part +
                    (is_key ? 0 : part);
    T* to = static_cast<T*>(is_key ? buffers.k_grad : buffers.v_grad) + at;
    for (int64_t r = 0; r < shape.new_rows; ++r) {
      for (int64_t j = 0; j < width; ++j) {
        T sum = from[r * width + j];
        for (int64_t g = 1; g < parts.groups; ++g) sum += from[2 * g * part + r * width + j];
        to[r * stride + j] = sum;
      }
    }
  }
}

void sum_groups(const ReconstructionShape& shape, const ReconstructionBuffers& buffers,
                const ReconstructionParts& parts, int64_t head) {
  if (shape.is_f64()) {
    sum_groups_of<double>(shape, buffers, parts, head);
  } else {
    sum_groups_of<float>(shape, buffers, parts, head);
  }
}

// saved times the lane's arriving gradient, in the inputs' type.
template <typename T, typename E>
void scale_row(const ReconstructionShape& shape, const ReconstructionGradients& gradients,
               int64_t row) {
  const int64_t width = shape.heads * shape.head_width;
  const T factor = static_cast<const T*>(gradients.arriving)[row / shape.new_rows];
  const auto scale = [&](const void* saved, void* grad) {
    if (grad == nullptr) return;
    const T* from = static_cast<const T*>(saved) + row * width;
    E* to = static_cast<E*>(grad) + row * width;
    for (int64_t j = 0; j < width; ++j) narrow(from[j] * factor, to[j]);
  };
  scale(gradients.k_saved, gradients.k_new);
  scale(gradients.v_saved, gradients.v_new);
}

void scale_gradients(const ReconstructionShape& shape, const ReconstructionGradients& gradients,
                     int64_t row) {
  switch (shape.element) {
    case mneme::ElementType::kF64:
      return scale_row<double, double>(shape, gradients, row);
    case mneme::ElementType::kBF16:
      return scale_row<float, BF16>(shape, gradients, row);
    default:
      return scale_row<float, float>(shape, gradients, row);
  }
}

}  // namespace
}  // namespace compressive::cpu
