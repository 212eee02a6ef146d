#include "host/validate/kink.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "host/base/random.hpp"
#include "host/tensor/torch.hpp"
#include "host/validate/rounding.hpp"

namespace mneme::validate {

bool is_kink(const std::function<double(double)>& at_offset) {
  constexpr double kShort = 1e-6, kLong = 1e-5;
  constexpr double kLeast = 1e-5;  // of the slope: what the checks of gradients would see
  const double here = at_offset(0.0);
  struct Slopes {
    double mean, jump;  // of the slopes on both sides: their mean, and what they differ by
  };
  const auto slopes = [&](double step) {
    const double right = (at_offset(step) - here) / step, left = (here - at_offset(-step)) / step;
    return Slopes{std::abs(right + left) / 2, std::abs(right - left)};
  };
  const Slopes near = slopes(kShort);
  const double least = 64 * std::numeric_limits<double>::epsilon() * std::max(1.0, std::abs(here));
  const double rounding = std::max(least, 8 * rounding_of(at_offset)) / kShort;
  // Where a function only curves, the slopes of a step ten times as long differ ten times as much.
  return near.jump > rounding + kLeast * std::max(near.mean, near.jump) &&
         near.jump > slopes(kLong).jump / 2;
}

at::Tensor beside(const at::Tensor& values, double side) {
  constexpr double kFarthest = 0.01;
  at::Tensor out = values.detach().clone();
  Random random(29, {"beside"});
  double* const data = out.mutable_data_ptr<double>();
  for (std::int64_t i = 0; i < out.numel(); ++i) {
    const double length = kFarthest * (0.5 + 0.5 * random.uniform());
    data[i] += side * (random.uniform() < 0.5 ? -length : length);
  }
  return out;
}

}  // namespace mneme::validate
