// The ranks of an MPI program.
#pragma once

#include <memory>

#include "host/ranks/communicator.hpp"
#include "host/ranks/launcher.hpp"

namespace mneme::ranks {

// Starts MPI. At the process's end MPI is shut down when the communicator was destroyed. Error
// (kRun) when MPI cannot serve several threads. std::logic_error in a program without MPI.
[[nodiscard]] std::unique_ptr<Communicator> open_mpi(const OpenOptions& options);

}  // namespace mneme::ranks
