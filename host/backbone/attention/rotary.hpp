// Rotary positions [Su et al. 2021]: numbers i and i + d/2 of a head are a point of a plane that
// turns by place * f_i, so a product of a query and a key depends on the difference of their places
// alone. Places are counted from the segment's first token; keys are kept without their turn.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "host/config/experiment.hpp"
#include "host/tensor/rows/rotary_turn.hpp"

namespace mneme::backbone {

// f_i of a head of `width` numbers, [width/2] in f64: base^(-2i/width), lowered as the scaling
// says: linear by the factor; llama3 by wavelength (Llama 3.1); yarn by turns in the original
// context [Peng et al. 2023, section 3.2]; dynamic not at all, within the original context.
std::vector<double> rotary_frequencies(const config::RotaryConfig& config, std::int64_t width);

// What queries and keys are multiplied by: 1, or yarn's factor.
double rotary_factor(const config::RotaryConfig& config);

using tensor::Turn;
using tensor::turned;

// Tables of one model. Angles are computed in f64.
class RotaryTables {
 public:
  RotaryTables(const config::RotaryConfig& config, std::int64_t head_width, at::Device device);

  // Places first, first + 1, .. [count,d/2] in `dtype`; kept for the next call.
  Turn range(std::int64_t first, std::int64_t count, at::ScalarType dtype);
  // Places i64 [..] -> [..,d/2].
  [[nodiscard]] Turn at(const at::Tensor& places, at::ScalarType dtype) const;
  // Of queries, and of keys.
  [[nodiscard]] double factor() const { return factor_; }
  // What the factor of queries and keys makes of a score; also of one without positions.
  [[nodiscard]] double score_factor() const { return factor_ * factor_; }

 private:
  at::Tensor frequencies_;  // [d/2] f64
  double factor_;
  Turn kept_;  // of places first_ ..
  std::int64_t first_ = 0;
};

}  // namespace mneme::backbone
