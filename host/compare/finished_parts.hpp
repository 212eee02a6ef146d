// What a run of a comparison has stored already.
#pragma once

#include <filesystem>
#include <string>

#include "host/compare/runs.hpp"
#include "host/data/corpus.hpp"

namespace mneme::compare {

// The name of the run's latest finished evaluation of a split with its own memory and settings; ""
// when there is none. Damaged ones do not count.
[[nodiscard]] std::string find_evaluation(const std::filesystem::path& run_folder,
                                          data::Split split);

// Whether a file holds the samples that the comparison asks for; false when it is damaged.
[[nodiscard]] bool has_samples(const std::filesystem::path& file, const Record& record);

// Likewise the diagnostics.
[[nodiscard]] bool has_diagnostics(const std::filesystem::path& file, const Record& record);

}  // namespace mneme::compare
