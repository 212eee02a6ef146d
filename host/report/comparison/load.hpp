// Reads a comparison from the files of its runs.
#pragma once

#include <filesystem>
#include <vector>

#include "host/report/comparison/comparison.hpp"

namespace mneme::report {

// Reads one folder that `mneme compare` wrote, or run folders. Runs are grouped into arms by their
// experiment without train.seed; an arm is named after its first run's folder, without "-seed<N>".
// The first arm is that of the first folder given. Of every run and split, the stored evaluation of
// the latest step counts, and of several of one step that with the run's own plugins and [eval].
// Runs that cannot be read are left out and named in `notes`; so are runs without stored losses,
// with the command that makes them; so are runs that are not trained to the end. Nothing but such
// commands depends on the folder's place, and nothing on the time.
// Errors: Error (kUsage) naming the folders when there is nothing to read, when a path holds no run,
// when no run can be read, when arms have another task, other data or another vocabulary, when the
// initial weights of one seed differ between arms, and for a folder of a comparison together with
// others; Error (kRun) for a comparison.json that is damaged.
[[nodiscard]] Comparison load(const std::vector<std::filesystem::path>& paths);

}  // namespace mneme::report
