// What a training's curves consist of: points of a learning curve, and the losses between two lines
// of metrics.jsonl.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "host/base/text.hpp"
#include "host/eval/result.hpp"
#include "host/run/record/observer.hpp"

namespace mneme::run {

// A point of a learning curve: the first segments of the valid split.
struct CurveReport {
  std::int64_t step = 0;  // steps done
  std::int64_t segments = 0;
  eval::Result result = {};
  double seconds = 0.0;  // that it took
};
[[nodiscard]] Json to_json(const CurveReport& report);

// Sums over the steps since the last line of metrics.jsonl, whose losses are means over its steps.
// Part of RunProgress: a resumed run logs what the uninterrupted one does.
struct LossInterval {
  std::int64_t steps = 0;
  double loss = 0.0;
  std::map<std::string, double> losses = {};  // auxiliary; a step without one counts as 0

  void add(const StepReport& report);
  // The last step's report with the means in place of its losses.
  [[nodiscard]] StepReport mean(StepReport last) const;

  friend bool operator==(const LossInterval&, const LossInterval&) = default;
};

}  // namespace mneme::run
