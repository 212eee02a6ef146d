// mneme plugins describe NAME --in EXP: a tier as the experiment makes it.
#pragma once

#include <string>

#include "host/base/json.hpp"
#include "host/memory/tier_outline.hpp"

namespace mneme::cli {

// What the tier declares, and what its plugin logged meanwhile, as lines for people and for
// programs. Shapes hold "B" for lanes and "any" for an extent that changes.
[[nodiscard]] std::string tier_text(const memory::TierOutline& tier);
[[nodiscard]] Json tier_json(const memory::TierOutline& tier);

}  // namespace mneme::cli
