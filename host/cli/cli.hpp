// The command line: the one place that prints, and that turns errors into exit codes.
#pragma once

#include "host/cli/streams.hpp"

namespace mneme::cli {

// Runs `mneme` with its arguments. Never throws: what fails is written to streams.err, and the
// result is the exit code: 0 done, 1 run failed, 2 wrong use or configuration, 3 plugin, 4 device.
[[nodiscard]] int main_entry(int argc, const char* const* argv, const Streams& streams) noexcept;

}  // namespace mneme::cli
