// Which rank has which runs of a comparison, and what ranks tell one another of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "host/compare/runs.hpp"

namespace mneme::compare {

// How far a run is, as the rank knows that has it.
struct RunNews {
  std::size_t run = 0;  // its place in the queue
  RunRecord::State state = RunRecord::State::kRunning;
  std::string initial_sha256 = {};  // as in RunRecord, likewise the next three
  std::string error = {};
  int exit_code = 0;
  std::optional<double> loss = {};
  Activity activity = {};
  // Steps of its training: done, and in all (0 = not known yet).
  std::int64_t steps = 0;
  std::int64_t total_steps = 0;
  std::vector<std::string> lines = {};  // that its process printed beside progress, since the last
};

// What a rank tells the others several times a second.
struct RankNews {
  int signal = 0;            // that asked this rank to stop; 0 = none
  std::string failure = {};  // why it cannot continue; "" = it can
  std::vector<RunNews> runs = {};
};

// As a JSON text and back; bytes that are no UTF-8 become U+FFFD. std::logic_error for a text that
// write_news did not make.
[[nodiscard]] std::string write_news(const RankNews& news);
[[nodiscard]] RankNews read_news(std::string_view text);

// The index of the least work, the first one of equals. std::logic_error for none.
[[nodiscard]] std::size_t freest(std::span<const std::int64_t> work);

// The GPUs of a rank among the ranks of its machine, as indices: every ranks_on_host-th one, so
// that a rank alone has all. Ranks share GPUs where there are fewer of them.
[[nodiscard]] std::vector<std::int64_t> gpus_of(std::int64_t place_on_host,
                                                std::int64_t ranks_on_host, std::int64_t gpus);

// Hands a queue of runs out to ranks, each of which works at `jobs` side by side. All ranks have a
// schedule that they tell the same ends, and so know what the others do.
class RankSchedule {
 public:
  RankSchedule(std::size_t runs, std::size_t ranks, std::int64_t jobs);

  struct Start {
    std::size_t run = 0;
    std::size_t rank = 0;
    bool operator==(const Start&) const = default;
  };
  // The next runs of the queue, as long as places are free: each goes to the freest rank.
  [[nodiscard]] std::vector<Start> hand_out();
  // The run is at work no more. std::logic_error when it was not.
  void end(std::size_t run);

  [[nodiscard]] std::size_t waiting() const { return owners_.size() - next_; }
  [[nodiscard]] std::int64_t active() const;

 private:
  std::int64_t jobs_;
  std::size_t next_ = 0;              // run that is handed out next
  std::vector<std::int64_t> active_;  // runs of each rank
  std::vector<std::int64_t> owners_;  // of each run; -1 = it waits or has ended
};

}  // namespace mneme::compare
