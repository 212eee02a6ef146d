// One layer of the continuous long-term memory: its sizes, options and parameters, the same for
// both sides of a comparison.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace mneme::bench {

// Defaults: the released GPT-2 experiment [infinity-former, appendix C.2].
struct LtmSettings {
  int64_t lanes = 1;      // B
  int64_t segment = 512;  // L rows written, T queries
  int64_t width = 768;    // D
  int64_t heads = 12;     // H
  int64_t basis = 512;    // N
  int64_t samples = 512;  // M
  std::vector<double> widths = {0.005, 0.01};
  double tau = 0.5;
  double ridge = 0.5;
  double variance_floor = 1e-4;
  double sigma_0 = 0.05;
  double lambda_kl = 1e-6;
  bool has_gate = true;
  at::ScalarType dtype = at::kFloat;  // kFloat or kDouble

  int64_t head_width() const { return width / heads; }
  int64_t centres() const { return basis / static_cast<int64_t>(widths.size()); }
};

// Leaves that require grad.
struct LtmParameters {
  at::Tensor key, value, output;       // [D,D], y = x W^T
  at::Tensor gate_weight, gate_bias;   // [D,D,3] (out, in, tap), [D]; undefined without a gate
  at::Tensor mu_weight, sigma_weight;  // [1,N]

  // Those that are defined, in this order.
  std::vector<at::Tensor> all() const;
};

// Linear maps from N(0, .02), the convolution from U(+-1 / sqrt(3 D)), as released. The two maps of
// the densities are multiplied by `spread`: 1 leaves every density wide (mu about .5, variance
// about .69), hundreds give all widths down to the floor.
LtmParameters random_parameters(const LtmSettings& settings, double spread);

// What one step works on.
struct LtmInputs {
  at::Tensor rows;       // [B,L,D], absorbed before reading
  at::Tensor q;          // [B,T,H,d], a leaf that requires grad
  at::Tensor projected;  // [B,T,D], to which the memory's output is added
  at::Tensor weight;     // [B,T,D], the gradient that arrives from above
};
LtmInputs random_inputs(const LtmSettings& settings);

struct LtmOutcome {
  at::Tensor out;  // [B,T,D]
  at::Tensor aux;  // [], lambda_kl times the mean of the KL term
};

// Sends inputs.weight into out and 1 into aux.
void backward(const LtmOutcome& outcome, const LtmInputs& inputs);

}  // namespace mneme::bench
