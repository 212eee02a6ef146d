// The share of a device's arithmetic that a training or an evaluation uses.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "host/run/cost/flops.hpp"
#include "host/run/runtime.hpp"

namespace mneme::run {

// Model FLOPs utilization (MFU) [PaLM, appendix B]: the operations that the model
// needs (FlopsPerToken), a second, over those that the device reaches in a product of two large
// matrices. Operations that are not counted, such as kernels of plugins, make it smaller.
struct Utilization {
  double flops_a_token = 0.0;  // of the pass; 0 = they could not be counted
  double peak = 0.0;           // operations a second of the product, in the precision of the model
  std::string problem = {};    // why nothing was counted

  // 0.25 = a quarter of the peak of `devices` alike; absent where nothing was counted, and
  // where it is above 1: the product was timed while others used the device.
  [[nodiscard]] std::optional<double> of(double tokens_a_second, std::int64_t devices = 1) const;
};

// Counts the operations of a pass and times the product, together some tenths of a second. Never
// fails: a memory that cannot be counted is a `problem`.
[[nodiscard]] Utilization measure_utilization(
    const Runtime& runtime, double FlopsPerToken::*pass = &FlopsPerToken::training);

// {"training_flops_per_token", "product_flops_per_second", "problem"}; null = not measured.
[[nodiscard]] Json to_json(const Utilization& utilization);

// How fast tokens went through a model without a backward pass.
struct Speed {
  Utilization evaluation;
  double tokens_a_second = 0.0;
  std::int64_t devices = 1;
};

// {"tokens_per_second", "flops_per_token", "flops_per_second", "product_flops_per_second", "mfu",
// "problem"}; null = not measured.
[[nodiscard]] Json to_json(const Speed& speed);

// A generation of `steps` tokens a sample in some seconds. A step reads the weights once for all
// samples, in the type of the products, and the state of every sample's memory (`state_bytes`
// together): {"tokens_per_second", "bytes_per_step", "bytes_per_second", "copy_bytes_per_second",
// "bandwidth_share"}, of which the fourth is measured now (tensor::copy_rate); null = no time.
[[nodiscard]] Json generation_speed_json(const Runtime& runtime, std::int64_t state_bytes,
                                         std::int64_t samples, std::int64_t steps, double seconds);

}  // namespace mneme::run
