// Which values of which keys the arms of a tuned comparison try.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "host/base/text.hpp"
#include "host/scores/trials.hpp"

namespace mneme::compare {

// The numbers from which values are drawn. Bounds that are written as integers give integers.
struct TuneRange {
  bool is_log = false;
  bool is_integer = false;
  double low = 0.0, high = 0.0;
};

// A key of [memory], [model] or [train] and the values that are tried of it.
struct Tune {
  scores::TunedKey key;
  std::vector<std::string> values = {};  // TOML; empty: they are drawn from the range
  TuneRange range = {};
};
// "KEY=VALUE,VALUE,...", "KEY=log:LOW:HIGH" or "KEY=linear:LOW:HIGH"; keys as parse_sweep takes
// them. Error (kUsage) for other words, for fewer than two values, for a range that is none, and
// for keys of which trials cannot be compared.
[[nodiscard]] Tune parse_tune(std::string_view word, bool is_together);

// Combinations of values, one value a key. Without `trials` all of them; else so many that differ,
// drawn by `seed`: a key's draws do not depend on the other keys. Error (kUsage) where a key
// has a range and `trials` is missing, where a key is given twice, and where there are fewer
// combinations than trials.
[[nodiscard]] std::vector<std::vector<std::string>> combinations(const std::vector<Tune>& tunes,
                                                                 std::optional<std::int64_t> trials,
                                                                 std::uint64_t seed);

// What comparison.json has of it: the folder of the trials, the keys and, with successive halving,
// the rungs.
[[nodiscard]] Json tuning_json(const std::vector<Tune>& tunes,
                               const std::vector<scores::Rung>& rungs);

}  // namespace mneme::compare
