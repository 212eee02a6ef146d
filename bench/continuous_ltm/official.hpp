// The released algorithm of one continuous long-term memory, written plainly in LibTorch from its
// mathematics: convolution as conv1d, regression in two steps, keys projected, scores formed,
// expectations [B,H,T,N] kept for backward, which goes through the densities' natural parameters.
// layer_bench compares the plugin with it.
#pragma once

#include "bench/continuous_ltm/settings.hpp"

namespace mneme::bench {

// How the expectations of the basis functions get their derivative.
enum class Derivative {
  kNatural,  // Cov(phi, psi) under the natural parameters, as released
  kDirect    // autograd of the closed form in (mu, variance): the check of the other
};

class OfficialLtm {
 public:
  OfficialLtm(const LtmSettings& settings, LtmParameters parameters, Derivative derivative);

  // Writes inputs.rows into the memory and reads it with inputs.q.
  LtmOutcome step(const LtmInputs& inputs);
  const LtmParameters& parameters() const { return parameters_; }
  const at::Tensor& coefficients() const { return past_; }  // [B,N,D]
  // Elements of what the memory keeps between steps, and of its constants, in bytes.
  int64_t state_bytes() const;

 private:
  at::Tensor gated(const at::Tensor& rows) const;
  at::Tensor updated(const at::Tensor& rows) const;
  at::Tensor expectations(const at::Tensor& mu, const at::Tensor& variance) const;

  LtmSettings settings_;
  LtmParameters parameters_;
  Derivative derivative_;
  at::Tensor centre_, width_;     // [N]
  at::Tensor first_, following_;  // ridge matrices [L,N], [M+L,N]
  at::Tensor sampled_;            // psi at the M samples of the old signal [M,N]
  at::Tensor past_;               // [B,N,D]; undefined before the first step
};

}  // namespace mneme::bench
