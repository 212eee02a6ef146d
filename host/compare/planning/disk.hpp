// The disk that a comparison needs.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "host/compare/runs.hpp"
#include "host/run/runtime.hpp"

namespace mneme::compare {

// Bytes that stay of one run: checkpoints, of a training of `steps` steps whose state has
// `state_bytes`, stored evaluations of the splits, and what else a run's folder holds.
[[nodiscard]] std::int64_t run_disk_bytes(const run::Runtime& runtime,
                                          const std::vector<data::Split>& splits,
                                          std::int64_t steps, std::int64_t state_bytes);

// Bytes that the runs of an arm will still write below the comparison's folder, each
// `run_bytes` in all.
[[nodiscard]] std::int64_t disk_left(const ArmRecord& arm, std::int64_t run_bytes,
                                     const std::filesystem::path& folder);

// Likewise of all arms, by their estimates from before the training.
[[nodiscard]] std::int64_t disk_left(const Record& record, const std::filesystem::path& folder);

// Free bytes where a folder is, or will be; -1 = not known.
[[nodiscard]] std::int64_t free_disk(std::filesystem::path folder);

// What is said before the first run begins when these bytes are more than are free; "" = they are
// not.
[[nodiscard]] std::string disk_warning(std::int64_t bytes, std::int64_t free);

}  // namespace mneme::compare
