// Checks of a comparison whose arms have been read.
#pragma once

#include "host/report/comparison.hpp"

namespace mneme::report {

// Sorts runs by seed, fills `seeds` and `splits`, and adds notes: seeds that an arm lacks, runs
// that failed, are unfinished, or have no stored losses, and evaluations after different steps.
// Error (kUsage) naming both runs when their tasks, data or vocabularies differ, or when backbones
// of one seed and one [model] did not start from the same weights.
void complete(Comparison& comparison);

}  // namespace mneme::report
