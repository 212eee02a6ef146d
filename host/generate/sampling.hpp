// How the next token is drawn from a distribution.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace mneme::generate {

// Applied in the order of the fields: each works on what the ones before have left, renormalised.
// Defaults leave the distribution as it is.
struct Sampling {
  bool is_greedy = false;    // the likeliest token, the lowest id among equals; nothing else counts
  double temperature = 1.0;  // log-probabilities are divided by it; above 0
  std::int64_t top_k = 0;    // keeps the k likeliest; 0 = all
  // Keeps tokens, likeliest first, until their probabilities exceed p: the one that crosses p stays
  // [official LaMemo generation]. In (0, 1]; 1 = all.
  double top_p = 1.0;
  double min_p = 0.0;  // drops tokens below min_p times the likeliest one's probability; in [0, 1)
};

// Error (kUsage) naming the option, what it may be and what it is.
void check(const Sampling& sampling);

// The token that `uniform` in [0, 1) draws: tokens in descending probability (by id among equals)
// when top_k or top_p cut, else by id, and the first whose cumulated share exceeds it.
//   logp [V] f32 or f64 on the CPU, contiguous, finite: log-probabilities, or logits up to a
//   constant
[[nodiscard]] std::int32_t draw(const at::Tensor& logp, const Sampling& sampling, double uniform);

}  // namespace mneme::generate
