// The two things that `mneme inspect` looks into.
#pragma once

#include <filesystem>

#include "host/cli/arguments.hpp"
#include "host/cli/streams.hpp"

namespace mneme::cli {

// Prints a run's settings, origin, data, plugins, checkpoints and metrics. A damaged checkpoint is
// reported and does not end it. Error (kUsage | kRun) for a folder that holds no run.
int inspect_run(const std::filesystem::path& folder, const JsonArgument& json,
                const Streams& streams);

}  // namespace mneme::cli
