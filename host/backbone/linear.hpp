// Matrix products of the backbone in the type that it computes in.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <unordered_map>

namespace mneme::backbone {

// The most numbers of a weight for which oneDNN computes products in f32: it copies the factors,
// and for a layer's weight the copy is small.
inline constexpr std::int64_t kMaxFactor = 1 << 23;

// x [..,n] times weight [m,n] transposed, plus bias [m] when defined: [..,m]. Inputs are cast to
// `compute`, in which the product runs and the result stays.
at::Tensor linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                  at::ScalarType compute);

// Weights of another type than products have (precision = "bf16"), converted once for all segments
// of an evaluation or a generation: made anew in each, the copies would cost more time than a
// product of few rows. They take 2 bytes for each parameter that is used.
class ConvertedWeights {
 public:
  // `weight`, or its copy in `compute`, which without gradient is kept until clear(). The weight
  // must live until then.
  at::Tensor get(const at::Tensor& weight, at::ScalarType compute);
  // For when weights have changed.
  void clear() { kept_.clear(); }

 private:
  std::unordered_map<const c10::TensorImpl*, at::Tensor> kept_;
};

}  // namespace mneme::backbone
