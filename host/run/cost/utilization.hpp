// The share of a device's arithmetic that a training uses.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "host/run/cost/flops.hpp"
#include "host/run/runtime.hpp"

namespace mneme::run {

// Model FLOPs utilization (MFU) of a training [PaLM, appendix B]: the operations that the model
// needs (FlopsPerToken), a second, over those that the device reaches in a product of two large
// matrices. Operations that are not counted, such as kernels of plugins, make it smaller.
struct Utilization {
  double flops_a_token = 0.0;  // of training; 0 = they could not be counted
  double peak = 0.0;           // operations a second of the product, in the precision of the model
  std::string problem = {};    // why nothing was counted

  // 0.25 = a quarter of the peak of `devices` alike; absent where nothing was counted.
  [[nodiscard]] std::optional<double> of(double tokens_a_second, std::int64_t devices = 1) const;
};

// Counts the operations and times the product, together some tenths of a second. Never fails: a
// memory that cannot be counted is a `problem`.
[[nodiscard]] Utilization measure_utilization(const Runtime& runtime);

// {"training_flops_per_token", "product_flops_per_second", "problem"}; null = not measured.
[[nodiscard]] Json to_json(const Utilization& utilization);

}  // namespace mneme::run
