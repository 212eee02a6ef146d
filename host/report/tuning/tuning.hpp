// What a report says of the trials of tuned arms.
#pragma once

#include <nlohmann/json.hpp>
#include <vector>

#include "host/base/text.hpp"
#include "host/report/comparison/comparison.hpp"
#include "host/report/differences/statement.hpp"
#include "host/report/sheet/sheet.hpp"

namespace mneme::report {

// What was chosen, from how many trials; then a sentence for each value at the border of what was
// tried and for each arm without a choice, and that test counts. Empty without tuned arms.
[[nodiscard]] std::vector<Statement> tuning_statements(const Comparison& comparison);

// The table "trials": every trial of every arm, with its values, its loss, and whether it was taken
// or why it failed. Without rows where there are none.
[[nodiscard]] Sheet trials_sheet(const Comparison& comparison);

// {"keys", "seeds", "rungs", "arms": [{"arm", "chosen", "borders", "shares_runs", "trials"}]}; null
// without tuned arms.
[[nodiscard]] Json json_of_tuning(const Comparison& comparison);

}  // namespace mneme::report
