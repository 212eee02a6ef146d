#include "host/train/step/not_finite.hpp"

#include <algorithm>
#include <cmath>

#include "host/base/text.hpp"
#include "host/optim/parameter_groups.hpp"
#include "host/tensor/torch.hpp"

namespace mneme::train {

bool is_finite(const run::StepReport& report) {
  return std::isfinite(report.loss) && std::isfinite(report.grad_norm) &&
         std::ranges::all_of(report.losses,
                             [](const auto& loss) { return std::isfinite(loss.second); });
}

std::string loss_text(const run::StepReport& report) {
  const auto bad = std::ranges::find_if(
      report.losses, [](const auto& loss) { return !std::isfinite(loss.second); });
  if (!std::isfinite(report.loss) || bad == report.losses.end()) {
    return str("the loss is ", format_number(report.loss, 4));
  }
  return str("the auxiliary loss ", bad->first, " is ", format_number(bad->second, 4));
}

eval::NotFinite find_in_forward(run::Runtime& runtime, memory::StackState& state,
                                const std::vector<data::TokenSegment>& segments) {
  const at::NoGradGuard no_grad;
  for (const optim::TrainableParameter& parameter : runtime.parameters()) {
    if (!at::isfinite(parameter.tensor).all().item<bool>())
      return {str("parameter ", parameter.name)};
  }
  if (eval::NotFinite found = eval::find_in_state(state); !found.place.empty()) return found;
  for (std::size_t i = 0; i < segments.size(); ++i) {
    eval::NotFinite found =
        eval::find_not_finite(runtime.model(), runtime.stack(), state, segments[i]);
    if (found.place.empty()) continue;
    found.place += str(", segment ", i + 1, " of the step");
    return found;
  }
  return {};
}

}  // namespace mneme::train
