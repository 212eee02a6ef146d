// metrics.jsonl: one JSON object a line, "kind": "step" | "eval", each with its "step".
#pragma once

#include <cstdint>
#include <filesystem>

namespace mneme::run {

// Cuts the file back to what a run had written when it had done `step` steps and had evaluated for
// the last time after `evaluated` steps; a resumed run writes the later lines again. A last line
// without its end, as a killed process leaves it, is dropped; an absent file is made. Returns the
// lines that stay. Error (kRun) naming the line for any other line that is no JSON object with a
// step: somebody else changed it.
std::int64_t cut_metrics(const std::filesystem::path& path, std::int64_t step,
                         std::int64_t evaluated);
// Error (kRun) as cut_metrics; changes nothing.
void check_metrics(const std::filesystem::path& path);

}  // namespace mneme::run
