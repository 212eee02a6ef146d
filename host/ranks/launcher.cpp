#include "host/ranks/launcher.hpp"

#include <array>
#include <cstdlib>
#include <string_view>

#include "host/base/error.hpp"
#include "host/base/integer.hpp"
#include "host/ranks/mpi_communicator.hpp"

namespace mneme::ranks {
namespace {

// Variables that hold the number of started processes: of Open MPI's mpirun, of launchers that
// speak PMI (MPICH, Intel MPI), of srun. sbatch's own script has SLURM_NTASKS, but not the last.
constexpr std::array kSizes = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"};

std::string value_of(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

}  // namespace

std::optional<Launch> find_launch() {
  const std::string_view alone = kStartedAlone;
  if (!value_of(std::string(alone.substr(0, alone.find('='))).c_str()).empty()) return {};
  for (const char* const name : kSizes) {
    const std::int64_t count = integer_of<std::int64_t>(value_of(name)).value_or(0);
    // One process of srun is a program that was started alone; one of mpirun has asked for MPI.
    const bool is_srun = std::string_view(name).starts_with("SLURM");
    if (count > 1 || (count == 1 && !is_srun)) return Launch{count, name};
  }
  return {};
}

std::unique_ptr<Communicator> open_ranks(const OpenOptions& options) {
  const std::optional<Launch> launch = find_launch();
  if (!launch) return nullptr;
  if (!has_mpi()) {
    if (launch->processes == 1) return nullptr;
    throw_usage({.where = str("environment variable ", launch->sign),
                 .failed = "a launcher started this program several times, but it was built "
                           "without MPI: each process would do the whole work",
                 .expected = "a program that was built with MPI, or one process",
                 .got = str(launch->processes, " processes"),
                 .hint = "install an MPI library (Debian: libopenmpi-dev) and build with "
                         "-DMNEME_MPI=ON, or start mneme without the launcher"});
  }
  std::unique_ptr<Communicator> ranks = open_mpi(options);
  if (ranks->size() != launch->processes) {
    throw_usage({.where = str("environment variable ", launch->sign),
                 .failed = "the launcher started another number of processes than MPI sees",
                 .expected = str(launch->processes),
                 .got = str(ranks->size()),
                 .hint = "the launcher belongs to another MPI library than the one that mneme was "
                         "built with (mneme doctor names it); with srun, name its interface, for "
                         "example srun --mpi=pmix"});
  }
  return ranks;
}

}  // namespace mneme::ranks
