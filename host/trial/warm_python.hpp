// Python in a process that others are forked from.
#pragma once

#include <string>
#include <vector>

namespace mneme::trial {

// Starts the interpreter of memories in Python and imports torch, which takes seconds, where one of
// these words of a command is such a memory's file. Does so once; runs no code of a memory. What
// goes wrong is left to the command.
void warm_python(const std::vector<std::string>& words);

}  // namespace mneme::trial
