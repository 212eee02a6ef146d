// The plan of a comparison whose seeds are added until a difference is shown: `mneme compare
// --until-decided` writes it into comparison.json, and a report reads it.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "host/base/text.hpp"

namespace mneme::scores {

// The plan's key in comparison.json.
inline constexpr const char* kLooksKey = "until_decided";

struct LookRecord {
  std::size_t max_seeds = 0;  // of stats::LookPlan
  std::string split = {};     // whose losses decide

  bool operator==(const LookRecord&) const = default;
};

// {"max_seeds", "rule", "split"}: the rule names that of stats::LookPlan.
[[nodiscard]] Json to_json(const LookRecord& record);
// nullopt of null. Error (kRun) for a plan of another rule, and for what is no plan.
[[nodiscard]] std::optional<LookRecord> read_look_record(const Json& json);

}  // namespace mneme::scores
