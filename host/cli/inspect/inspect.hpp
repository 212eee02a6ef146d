// The two modes of `mneme inspect`: a file or a run.
#pragma once

#include <filesystem>

#include "host/cli/arguments.hpp"
#include "host/cli/streams.hpp"

namespace mneme::cli {

// Prints a run's settings, origin, data, plugins, checkpoints, vocabulary and metrics, all that can
// be read of them. Error (kUsage) for a folder that holds no run; Error (kRun) at the end, naming
// the parts, when some are damaged.
void inspect_run(const std::filesystem::path& folder, const JsonArgument& json,
                 const Streams& streams);

}  // namespace mneme::cli
