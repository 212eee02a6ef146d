// How this process was started: alone, or by a launcher of parallel programs (mpirun, srun).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "host/ranks/communicator.hpp"

namespace mneme::ranks {

// What the environment says of a launcher.
struct Launch {
  std::int64_t processes = 0;  // that it started
  std::string sign;            // the variable that says so
};

// Absent when this process was started alone, and for processes that mneme itself starts
// (kStartedAlone).
[[nodiscard]] std::optional<Launch> find_launch();

// In the environment of a program that a rank starts: it is no rank itself. "NAME=VALUE".
inline constexpr const char* kStartedAlone = "MNEME_STARTED_ALONE=1";

// True when the program was built with MPI.
[[nodiscard]] bool has_mpi();
// The MPI library's own name and version; "" without.
[[nodiscard]] std::string mpi_version();

struct OpenOptions {
  double time_limit = 1800.0;  // seconds that ranks wait for one that does not come
  // Called then on the thread that waits: on one of the ranks that wait with the message for
  // people, and on the others a while later with "". It must not return, because the run cannot
  // continue.
  std::function<void(const std::string& message)> on_absence = nullptr;
};

// The ranks that the launcher started, this process among them; nullptr when it was started alone.
// To be called once, on the main thread. Errors: Error (kUsage) when the program has no MPI, or its
// MPI sees another number of processes than the launcher started.
[[nodiscard]] std::unique_ptr<Communicator> open_ranks(const OpenOptions& options = {});

}  // namespace mneme::ranks
