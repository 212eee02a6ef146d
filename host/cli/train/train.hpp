// mneme train EXP --dry-run
#pragma once

#include <string>

#include "host/train/dry_run.hpp"

namespace mneme::cli {

// The plan as lines of text; `name` is the experiment's file.
[[nodiscard]] std::string plan_text(const train::TrainingPlan& plan, const std::string& name);

}  // namespace mneme::cli
