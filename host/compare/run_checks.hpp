// Whether what processes have made belongs to the comparison that asked for it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "host/base/text.hpp"
#include "host/memory/stack.hpp"
#include "host/scores/stored_evaluation.hpp"

namespace mneme::compare {

// Why a stored evaluation is not the one of a run's end: it is of another step or experiment (the
// text of experiment.toml), or was made with other plugin files; "" = it is.
[[nodiscard]] std::string why_unfit(const scores::StoredEvaluation& stored, std::int64_t last_step,
                                    const std::string& experiment,
                                    const std::vector<memory::TierIdentity>& plugins);

// Error (kRun) when a run was trained by another program than this one, or with other plugin files
// than these: one was replaced while the comparison ran. `info` is run.json, `run` names the run.
void check_same_files(const Json& info, const std::vector<memory::TierIdentity>& plugins,
                      const std::string& run);

}  // namespace mneme::compare
