// Whether the ranks of a comparison work at the same one, in the same folder.
#pragma once

#include "host/compare/runs.hpp"
#include "host/ranks/communicator.hpp"

namespace mneme::compare {

// Every rank has prepared its record by itself. Error (kUsage), on all ranks, naming the first rank
// whose record is not that of rank 0, and what differs: its program, plugins, data, device, or what
// its folder holds.
void check_alike(ranks::Communicator& ranks, const Record& record);

// Called when rank 0 has made the comparison's folder and locked it. Error (kUsage), on all ranks,
// naming the first one that does not see this within `seconds`; a file system of several machines
// may show new files late.
void check_folder_is_shared(ranks::Communicator& ranks, const Options& options, double seconds);

}  // namespace mneme::compare
