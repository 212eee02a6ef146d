// Floating-point operations of one segment, from the second on; a multiply-add counts 2, and what
// is of a lower order is left out. e = D, T = L.
#pragma once

#include "bench/continuous_ltm/settings.hpp"

namespace mneme::bench {

struct Operations {
  double forward;
  double backward;  // gradients of parameters and queries; the signal's only where a gate wants it
};

struct Products {
  explicit Products(const LtmSettings& s)
      : lanes(static_cast<double>(s.lanes)),
        row(2.0 * static_cast<double>(s.segment * s.width * s.width)),
        function(2.0 * static_cast<double>(s.basis * s.width * s.width)),
        write(2.0 * static_cast<double>(s.segment * s.basis * s.width)),
        sample(2.0 * static_cast<double>(s.samples * s.basis * s.width)),
        carry(2.0 * static_cast<double>(s.basis * s.basis * s.width)),
        gate(s.has_gate ? 3.0 * row : 0.0),
        past_gate(s.has_gate ? 1.0 : 0.0) {}
  double lanes, row, function, write, sample, carry, gate, past_gate;
};

// Two-step regression, keys, values, scores, expectations, output.
inline Operations official_operations(const LtmSettings& s) {
  const Products p(s);
  const double update = p.sample + (p.sample + p.write);
  const double forward = p.gate + update + 2.0 * p.function + 2.0 * p.write + p.row;
  const double below = p.past_gate * (2.0 * p.function + p.sample + p.write);
  const double backward = p.gate + 2.0 * p.function + 4.0 * p.write + 2.0 * p.row + below;
  return {p.lanes * forward, p.lanes * backward};
}

// Fused update, values, expectations, output: neither keys nor scores.
inline Operations fast_operations(const LtmSettings& s) {
  const Products p(s);
  const double forward = p.gate + (p.carry + p.write) + p.function + p.write + p.row;
  const double below = p.past_gate * (p.function + p.write);
  const double backward = p.gate + p.function + 2.0 * p.write + 2.0 * p.row + below;
  return {p.lanes * forward, p.lanes * backward};
}

}  // namespace mneme::bench
