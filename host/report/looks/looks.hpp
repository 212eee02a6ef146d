// What a report says of a comparison whose seeds were added until a difference was shown.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "host/base/text.hpp"
#include "host/report/comparison/comparison.hpp"
#include "host/report/differences/differences.hpp"
#include "host/report/differences/statement.hpp"
#include "host/report/sheet/sheet.hpp"

namespace mneme::report {

// How seeds were added, and which arms were decided after how many; `differences` are those of the
// comparison. nullopt without looks.
[[nodiscard]] std::optional<Statement> looks_statement(const Comparison& comparison,
                                                       const std::vector<Difference>& differences);
// "Intervals and p hold for looks after every seed from 3 to 12."; "" without looks.
[[nodiscard]] std::string looks_note(const Comparison& comparison);

// The table "looks": what was seen of each arm after every seed. Without rows where there were none.
[[nodiscard]] Sheet looks_sheet(const Comparison& comparison);

// {"max_seeds", "first_look", "split"}; null without looks.
[[nodiscard]] Json json_of_looks(const Comparison& comparison);

// Whether more seeds of the arm are of no use: a difference is shown, or its memory breaks a rule
// that the comparison rests on.
[[nodiscard]] bool is_decided(const Difference& difference);
// "cache -0.0123 (-0.0200 to -0.0046, p 0.0012 at a level of 0.05 over all looks), decided"
[[nodiscard]] std::string look_words(const Comparison& comparison, const Difference& difference);

}  // namespace mneme::report
