// A comparison as tables of a paper: one to show, and the others for its appendix.
#pragma once

#include <string>
#include <vector>

#include "host/report/comparison/comparison.hpp"
#include "host/report/differences/differences.hpp"
#include "host/report/latex/table.hpp"
#include "host/report/sheet/sheet.hpp"

namespace mneme::report {

// A row an arm: the measure with its deviation, difference with interval, p, bytes of state, FLOPs.
// Texts have perplexity, or bits where a token is a byte or a character, and differences in loss;
// generated tasks have accuracy. The best mean is bold.
[[nodiscard]] LatexTable paper_table(const Comparison& comparison,
                                     const std::vector<Difference>& all, const std::string& split);

// The tables of all splits.
[[nodiscard]] std::string paper_latex(const Comparison& comparison,
                                      const std::vector<Difference>& all);
// The tables of an appendix: what was trained on what, a row for each number of each arm, all
// differences, losses against a margin, settings that differ, plugins.
[[nodiscard]] std::string appendix_latex(const Comparison& comparison,
                                         const std::vector<Difference>& all,
                                         const std::vector<Difference>& pairs,
                                         const std::vector<Sheet>& sheets);

// A table for people as it is: the first column and those of words are text. Where a line has no
// room for its numbers (a suite of many memories), it has a row for each number.
[[nodiscard]] LatexTable latex_table(const Sheet& sheet);

}  // namespace mneme::report
