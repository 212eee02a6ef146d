// How far a function's values are from those of a smooth one, because it computes with few digits.
#pragma once

#include <functional>

namespace mneme::validate {

// Standard deviation of the rounding of at_offset(h), a loss along a direction, near h = 0: about
// 1e-16 of a loss that is computed in f64, and larger where a part of it is computed in f32. Found
// from differences of the fourth order between equally spaced offsets, in which nothing is left of
// a smooth function [More and Wild 2011, "Estimating Computational Noise", section 2]. The offsets
// lie on one side of 0, and the smaller of both sides' is taken: a bend at 0 is no rounding.
[[nodiscard]] double rounding_of(const std::function<double(double)>& at_offset);

}  // namespace mneme::validate
