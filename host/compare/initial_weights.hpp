// The weights with which every arm begins.
#pragma once

#include <filesystem>

namespace mneme::compare {

struct Options;  // runs.hpp

// Where a comparison keeps them.
[[nodiscard]] std::filesystem::path kept_weights(const std::filesystem::path& folder);

// Puts the options' weights there, unless they are. Error (kRun) when that fails.
void keep_initial_weights(const Options& options);

}  // namespace mneme::compare
