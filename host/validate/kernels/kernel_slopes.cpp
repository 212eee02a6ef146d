#include "host/validate/kernels/kernel_slopes.hpp"

#include <algorithm>
#include <cmath>
#include <functional>

#include "host/tensor/torch.hpp"
#include "host/validate/kink.hpp"

namespace mneme::validate {

double weighed(const KernelCall& call, const std::vector<at::Tensor>& inputs,
               const std::vector<at::Tensor>& weights) {
  const KernelResult result = forward_alone(call, inputs);
  double sum = 0.0;
  for (std::size_t j = 0; j < result.outputs.size(); ++j) {
    if (!is_real(result.outputs[j])) continue;
    // An output that is infinite on both sides, as a log-sum-exp of nothing, does not change.
    const at::Tensor finite = result.outputs[j].to(at::kDouble);
    sum += (finite * weights[j]).masked_fill(finite.isinf(), 0.0).sum().item<double>();
  }
  return sum;
}

namespace {

constexpr double kSteps[] = {1e-4, 1e-5};  // of differences

// d(sum)/d(input i) along a direction: what backward says, and what differences say.
struct Slopes {
  double got = 0.0, expected = 0.0;
  [[nodiscard]] bool agree() const {
    constexpr double kMaxShare = 1e-5;
    const double scale = std::max({std::abs(expected), std::abs(got), 1e-5});
    return std::isfinite(got) && std::abs(got - expected) <= kMaxShare * scale;
  }
};

// The weighed outputs where input i is moved along a direction.
std::function<double(double)> weighed_along(const KernelCall& call, std::size_t i,
                                            const at::Tensor& direction,
                                            const std::vector<at::Tensor>& weights) {
  return [=, &call](double offset) {
    std::vector<at::Tensor> moved = call.inputs;
    moved[i] = moved[i] + offset * direction;
    return weighed(call, moved, weights);
  };
}

// By the first step with which both agree, else by the last.
Slopes slopes_along(const KernelCall& call, std::size_t i, const at::Tensor& direction,
                    const std::vector<at::Tensor>& weights, const at::Tensor& grad) {
  Slopes slopes{.got = (grad * direction).sum().item<double>()};
  const auto at_offset = weighed_along(call, i, direction, weights);
  for (const double step : kSteps) {
    const double near = at_offset(step) - at_offset(-step);
    const double far = at_offset(2 * step) - at_offset(-2 * step);
    slopes.expected = (8.0 * near - far) / (12.0 * step);
    if (slopes.agree()) break;
  }
  return slopes;
}

}  // namespace

void check_direction(const KernelCall& call, std::size_t i, const at::Tensor& direction,
                     const std::vector<at::Tensor>& weights, const at::Tensor& grad) {
  std::vector<Slopes> all = {slopes_along(call, i, direction, weights, grad)};
  if (!all[0].agree() && is_kink(weighed_along(call, i, direction, weights))) {
    all.clear();
    for (const double side : kSides) {
      KernelCall moved = call;
      moved.inputs[i] = beside(call.inputs[i], side);
      const KernelResult result = run_alone(moved, moved.inputs, weights);
      all.push_back(slopes_along(moved, i, direction, weights, result.grad_inputs[i]));
    }
  }
  for (const Slopes& slopes : all) {
    if (slopes.agree()) continue;
    throw Failed(str(where(call), "the gradient of input ", i, " along a direction is ",
                     short_text(slopes.got), ", and differences give ",
                     short_text(slopes.expected)));
  }
}

}  // namespace mneme::validate
