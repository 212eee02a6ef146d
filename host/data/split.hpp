// The parts of an experiment's data.
#pragma once

#include <array>
#include <string>
#include <string_view>

namespace mneme::data {

enum class Split { kTrain, kValid, kTest };
inline constexpr std::array<Split, 3> kSplits = {Split::kTrain, Split::kValid, Split::kTest};

// "train", "valid", "test".
[[nodiscard]] std::string_view to_word(Split split);
// "data.train" and so on, for messages.
[[nodiscard]] std::string key_of(Split split);

}  // namespace mneme::data
