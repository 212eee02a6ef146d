// Places at which a function bends, as at a clamp's corner. Differences across one give the mean of
// two slopes there, and a right gradient gives one of them.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>

namespace mneme::validate {

// Whether a loss bends at offset 0 along a direction: at_offset(h) is the loss there, in f64.
[[nodiscard]] bool is_kink(const std::function<double(double)>& at_offset);

// Values near to these. Each is moved by 0.005 to 0.01 to a side that is drawn; with `side` -1 to
// the opposite side.
[[nodiscard]] at::Tensor beside(const at::Tensor& values, double side);

// Both sides.
inline constexpr double kSides[] = {1.0, -1.0};

}  // namespace mneme::validate
