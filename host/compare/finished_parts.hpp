// What a run of a comparison has stored already.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "host/compare/runs.hpp"
#include "host/data/corpus.hpp"
#include "host/memory/stack.hpp"

namespace mneme::compare {

// The name of the run's finished evaluation of a split with its last weights, its own memory and
// settings, and these plugins; "" when there is none. `others` gets those of the split that cannot
// be used, damaged ones too, with the reason.
[[nodiscard]] std::string find_evaluation(const std::filesystem::path& run_folder,
                                          data::Split split, std::int64_t last_step,
                                          const std::vector<memory::TierIdentity>& plugins,
                                          std::vector<std::string>& others);

// Whether a file holds the samples that the comparison asks for; false when it is damaged.
[[nodiscard]] bool has_samples(const std::filesystem::path& file, const Record& record);

// Likewise the diagnostics.
[[nodiscard]] bool has_diagnostics(const std::filesystem::path& file, const Record& record);

}  // namespace mneme::compare
