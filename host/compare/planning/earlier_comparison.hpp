// What the folder of a comparison holds of earlier commands.
#pragma once

#include <vector>

#include "host/compare/arms.hpp"
#include "host/compare/runs.hpp"

namespace mneme::compare {

// A comparison grows: arms, seeds and trials may be added to its folder. Error (kUsage) where
// comparison.json in options.folder has runs that are done and that a comparison of these arms
// would leave out, with what is there, what was asked for, and the command that continues it:
// arms, seeds or trials are missing, the arms were tuned, or an arm was trained with other
// settings or from other initial weights. Likewise for another plan of looks, whose error rates
// would not hold. Runs by another program, other plugin files, or another device, with what it
// chooses for precision = "auto", or number of threads, and on other contents of the data's files,
// may be made anew. A run whose folder is gone is none, and a record that cannot be read holds
// nothing. A dry run, which writes nothing, gets the error as a warning.
void check_grows(const std::vector<ArmSetup>& arms, const Options& options);

}  // namespace mneme::compare
