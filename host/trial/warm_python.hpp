// Python in a process that others are forked from.
#pragma once

#include <string>
#include <vector>

#include "host/config/experiment.hpp"

namespace mneme::trial {

// Starts the interpreter of memories in Python and imports torch, which takes seconds, where one of
// these words of a command is such a memory's file. Does so once; runs no code of a memory. What
// goes wrong is left to the command.
void warm_python(const std::vector<std::string>& words);

// The same for a memory, and reads the declarations of those in Python, for which a process with a
// time limit of its own imports their files. Whether there is one. Error (kPlugin) as
// plugin::find_plugin and open_plugin.
bool warm_python(const config::MemoryConfig& memory);

// In messages about time: what warm_python does.
inline constexpr const char* kImportOfTorch = "the import of torch";
// After this time a process that does it is killed.
inline constexpr double kTorchSeconds = 600.0;

}  // namespace mneme::trial
