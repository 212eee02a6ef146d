// Rotary positions [Su et al. 2021]: numbers i and i + d/2 of a head are a point of a plane that
// turns by an angle, which grows with the head's place.
#pragma once

#include <ATen/core/Tensor.h>

namespace mneme::tensor {

// Cosines and sines of the angles of places, and a factor.
struct Turn {
  at::Tensor cos, sin;  // [n,d/2] or [B,n,d/2], with the same strides

  // The same for rows of heads, [n,1,d/2]: to turn [B,n,H,d].
  [[nodiscard]] Turn of_rows() const;
};

// x [.., n, d] turned; `turn` broadcasts to [.., n, d/2]. In x's dtype. Differentiable once where a
// kernel of host/kernel/rows.hpp does it in one pass: on CUDA, for four dimensions that are the
// result's too.
at::Tensor turned(const at::Tensor& x, const Turn& turn);

}  // namespace mneme::tensor
