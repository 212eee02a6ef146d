// Whether the memory of a run does what a comparison takes for granted: no token sees a later one,
// a reset forgets, lanes do not touch. The laws are those of `mneme plugins validate`
// (validate/laws.hpp); here they are asked of the whole stack, with a run's own options, in its
// model, in f64 on the CPU.
#pragma once

#include <cstdint>
#include <vector>

#include "host/config/experiment.hpp"
#include "host/data/dataset.hpp"
#include "host/run/runtime.hpp"
#include "host/scores/memory_checks.hpp"

namespace mneme::checks {

// Before the training: with weights as train.seed draws them and random ids, in the experiment's
// model but for a small vocabulary and small feed-forward layers. No data are read. A check that
// cannot be made, such as that of a model for which it would take minutes, says why; nothing is
// thrown.
[[nodiscard]] scores::MemoryChecks check_untrained(const config::Experiment& experiment);

// After `step` steps: with the runtime's weights, which a leak behind a gate that starts closed
// needs to be seen, on `text`; without one on the dataset's valid split (test, train where there is
// none). A text that is too short is read again.
[[nodiscard]] scores::MemoryChecks check_trained(const run::Runtime& runtime, std::int64_t step,
                                                 const std::vector<std::int64_t>& text = {});

}  // namespace mneme::checks
