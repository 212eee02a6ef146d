// Ranges of numbers on the command line, whose messages and help fit on a line. Not for other
// folders. CLI11 is included: for the .cpp files that add options.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>

namespace mneme::cli {

inline constexpr std::int64_t kMostExtent = 1'048'576;     // of a tensor, as in an experiment
inline constexpr std::int64_t kMostCount = 1'000'000'000;  // of steps and the like

// An integer in [least, most]: "--lanes: expected an integer in [1, 1048576], got 0".
[[nodiscard]] CLI::Validator between(std::int64_t least, std::int64_t most);
// An integer of at least `least`.
[[nodiscard]] CLI::Validator at_least(std::int64_t least);

}  // namespace mneme::cli
