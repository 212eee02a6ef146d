// Parts of `mneme train`.
#pragma once

#include <filesystem>
#include <string>

#include "host/train/dry_run.hpp"
#include "host/train/trainer.hpp"

namespace mneme::cli {

// The plan as lines of text; `name` is the experiment's file.
[[nodiscard]] std::string plan_text(const train::TrainingPlan& plan, const std::string& name);

// The checks of a run's memory (checks/memory_checks.hpp), kept in its folder's checks.json: those
// of the beginning unless the run has them, and those with its last weights once it is finished.
// What fails, or could not be checked, is a warning in the log. So are rows that model.window leaves
// out (train/windows.hpp), before the training.
void check_before(train::Trainer& trainer, const std::filesystem::path& folder);
void check_after(train::Trainer& trainer, const std::filesystem::path& folder);

}  // namespace mneme::cli
