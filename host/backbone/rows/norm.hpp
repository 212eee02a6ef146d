// Layer norm and RMS norm.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

#include "host/backbone/parameters.hpp"
#include "host/config/experiment.hpp"

namespace mneme::backbone {

// A norm over the last dimension: (x - mean) / sqrt(variance + epsilon) * weight + bias, or
// x / sqrt(mean of squares + epsilon) * weight [Zhang and Sennrich 2019]; or of 1 + weight.
struct RowNorm {
  at::Tensor weight{};
  at::Tensor bias{};  // undefined in an RMS norm
  config::NormKind kind = config::NormKind::kLayer;
  double epsilon = 1e-5;
  bool has_unit_offset = false;  // the factor is 1 + weight

  [[nodiscard]] at::Tensor factor() const;
  // x [.., width], computed in the parameters' dtype; the result is of dtype `result`.
  [[nodiscard]] at::Tensor operator()(const at::Tensor& x, at::ScalarType result) const;
  // The same in the parameters' dtype.
  at::Tensor operator()(const at::Tensor& x) const { return (*this)(x, weight.scalar_type()); }
  // The same with the parameters as constants.
  [[nodiscard]] RowNorm constant() const;
};

// Makes a norm's parameters `name`.weight and, for a layer norm, `name`.bias. Epsilon and offset are
// those of the model.
RowNorm make_norm(const std::string& name, std::int64_t width, config::NormKind kind,
                  const config::ModelConfig& model, const InitScheme& init, ParameterStore& store);

}  // namespace mneme::backbone
