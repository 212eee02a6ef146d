// Which part of a split was read, where eval.steps ended an evaluation before the split's end.
#pragma once

#include <optional>
#include <string>

#include "host/report/comparison/comparison.hpp"

namespace mneme::report {

// Share of the split's targets that the evaluation read; absent when it read all, when the data
// have no end, and when the file does not say.
[[nodiscard]] std::optional<double> partial_share(const EvaluationSummary& evaluation);
// The same with 1 for an evaluation that read all.
[[nodiscard]] std::optional<double> share_of(const EvaluationSummary& evaluation);

// "59.1 % of valid was read"; of evaluations that read other shares "59.1 to 80.0 % of valid was
// read"; "" where every evaluation read all.
[[nodiscard]] std::string share_words(const Comparison& comparison, const std::string& split);
// The same of all splits for a table's caption: " (59.1 % of valid was read)"; "" where all was.
[[nodiscard]] std::string share_suffix(const Comparison& comparison);
// The same as a sentence with numbers and what to do; "" where all was read.
[[nodiscard]] std::string share_sentence(const Comparison& comparison, const std::string& split);

}  // namespace mneme::report
