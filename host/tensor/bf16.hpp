// Whether bf16 is worth it on the processor that computes.
#pragma once

#include <c10/core/Device.h>

#include <string>

#include "host/config/experiment.hpp"

namespace mneme::tensor {

// Whether the processor has instructions for products of bf16 numbers (AVX512_BF16, AMX_BF16); true
// where it is no x86-64 one, of which nothing is known.
[[nodiscard]] bool has_bf16_units();

// What to warn of when a model computes in this precision on this device; "" = nothing.
[[nodiscard]] std::string slow_bf16_text(config::Precision precision, c10::Device device,
                                         bool has_units);

}  // namespace mneme::tensor
