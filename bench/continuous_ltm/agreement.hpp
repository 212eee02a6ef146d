// Whether both sides of layer_bench compute the same, before anything is timed.
#pragma once

#include "bench/continuous_ltm/settings.hpp"

namespace mneme::bench {

// Largest relative Frobenius differences ||a - b|| / ||b|| that pass.
struct Tolerance {
  double out;
  double gradient;
};

// The released derivative of the expectations against autograd of their closed form, in f64 at
// small sizes. Prints the largest difference; false beyond 1e-8.
bool check_official();

// Two segments through both sides, from the same parameters and inputs: output and KL term of
// both, gradients of the second. Prints the largest differences; false beyond the tolerance.
bool check_plugin(const char* name, const LtmSettings& settings, double spread,
                  const Tolerance& tolerance);

}  // namespace mneme::bench
