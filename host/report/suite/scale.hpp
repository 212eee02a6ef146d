// A ladder of model sizes (mneme compare --scale): costs of its cells, exponents, crossings.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "host/report/comparison/comparison.hpp"
#include "host/report/sheet/sheet.hpp"

namespace mneme::report {

// Adds to the arms' cells, where these have numbers, means over the seeds: `parameters` of the
// backbone, `operations` of the training (FLOPs a token times the tokens read), `bytes` of the parameters in
// f32 and of one lane's state, `seconds` of the training. What is not known is left out.
void add_costs(const Comparison& comparison, std::map<std::string, Cell>& cells);

// Sentences on a ladder's table, whose cells have costs: of each memory the exponent of loss over
// operations, of each two the size at which one overtakes the other, or that it is not decided
// (stats/power_law.hpp).
[[nodiscard]] std::vector<std::string> scale_notes(const Sheet& sheet);

}  // namespace mneme::report
