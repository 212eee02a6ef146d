#include "host/run/record/curve.hpp"

namespace mneme::run {

Json to_json(const CurveReport& report) {
  return {{"kind", "curve"},
          {"step", report.step},
          {"split", data::to_word(data::Split::kValid)},
          {"segments", report.segments},
          {"targets", report.result.total.targets},
          {"loss", report.result.loss()},
          {"seconds", report.seconds}};
}

void LossInterval::add(const StepReport& report) {
  ++steps;
  loss += report.loss;
  for (const auto& [name, value] : report.losses) losses[name] += value;
}

StepReport LossInterval::mean(StepReport last) const {
  last.loss = loss / static_cast<double>(steps);
  for (const auto& [name, sum] : losses) last.losses[name] = sum / static_cast<double>(steps);
  return last;
}

}  // namespace mneme::run
