// A command that several processes run together (mpirun, srun).
#pragma once

#include <cstdint>
#include <ostream>
#include <string>

#include "host/cli/streams.hpp"
#include "host/ranks/communicator.hpp"

namespace mneme::cli {

// The ranks of this process while a command runs. Rank 0 speaks for all: the others print nothing
// but errors of their own, and log nothing but these. One at a time.
//
// When a command throws, the session ends all ranks once the message was printed (end_ranks).
class RankSession {
 public:
  // Programs that this process starts from now on are no ranks. Errors as ranks::open_ranks; Error
  // (kUsage) for a MNEME_RANK_TIMEOUT that is no number of seconds.
  explicit RankSession(const Streams& streams);
  // Waits for the other ranks, unless an exception is on its way.
  ~RankSession();
  RankSession(const RankSession&) = delete;
  RankSession& operator=(const RankSession&) = delete;

  // nullptr when this process was started alone.
  [[nodiscard]] ranks::Communicator* ranks() const;
  // True for rank 0 and for a process alone: it writes and shows the results.
  [[nodiscard]] bool is_first() const;
  // The command's streams; they lead nowhere on other ranks.
  [[nodiscard]] const Streams& streams() const { return streams_; }
  // The device for that of MachineArguments: `given`, but where it is "cuda" without a number, each
  // rank of a machine gets a GPU of its own.
  [[nodiscard]] std::string device(const std::string& given) const;
  // Sets the threads of MachineArguments. Where it names none, the ranks of a machine share the
  // cores that the launcher gives them, and `jobs` processes share those of a rank. Collective.
  void set_threads(std::int64_t given, std::int64_t jobs = 1) const;

 private:
  std::ostream nowhere_{nullptr};
  const Streams streams_;
};

// Error (kUsage) when a launcher started several processes of a command that runs in one.
void check_started_alone(const std::string& command);

// Called with a message before it is printed: puts the rank's name in front. A rank other than 0
// waits, because rank 0 often fails alike and ends all ranks with its own message.
[[nodiscard]] std::string message_of_rank(const std::string& message);
// Ends all ranks, if there are any, when a command of this process failed.
void end_ranks(int exit_code);

}  // namespace mneme::cli
