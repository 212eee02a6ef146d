// Commands that have got another name or place, taken in their old spelling for one release.
#pragma once

#include <string>
#include <vector>

namespace mneme::cli {

// The commands that `words`, the arguments of the program, mean today: `words` as they are, or those
// that replace them, with a warning for each that names it. Error (kUsage) naming these where there
// are several and --json, which each would write.
[[nodiscard]] std::vector<std::vector<std::string>> current_spelling(
    const std::vector<std::string>& words);

}  // namespace mneme::cli
