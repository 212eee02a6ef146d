// How the next token of a text is drawn from the model's distribution.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstdint>

#include "host/kernel/sampling.hpp"

namespace mneme::generate {

using kernel::Sampling;

// Error (kUsage) naming the option, or the key of a request, its allowed values and its value.
void check(const Sampling& sampling, bool is_request = false);

// The token that `uniform` in [0, 1) draws (kernel::SamplingKernels::draw).
//   logp [V] f32 or f64 on the CPU, contiguous, finite: log-probabilities, or logits up to a
//   constant
[[nodiscard]] std::int32_t draw(const at::Tensor& logp, const Sampling& sampling, double uniform);

// Whether a device has a kernel that draws from rows of `ids` logits.
[[nodiscard]] bool draws_on(at::Device device, std::int64_t ids);

// The tokens of all samples, i64 [B,1] on the device of the logits [B,V]; -1 for
// a row with a number that is not finite. uniform [B] f64 on that device. By the device's
// kernel where there is one, which the host does not wait for and a trace holds, else by draw().
[[nodiscard]] at::Tensor draw_rows(const at::Tensor& logits, const Sampling& sampling,
                                   const at::Tensor& uniform);

}  // namespace mneme::generate
