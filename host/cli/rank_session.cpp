#include "host/cli/rank_session.hpp"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <memory>
#include <string_view>

#include "host/base/error.hpp"
#include "host/base/integer.hpp"
#include "host/base/log.hpp"
#include "host/ranks/launcher.hpp"
#include "host/tensor/device.hpp"

namespace mneme::cli {
namespace {

constexpr const char* kTimeLimit = "MNEME_RANK_TIMEOUT";

// Outlives the session when an exception ends it: see end_ranks.
std::unique_ptr<ranks::Communicator>& open_ranks_of_process() {
  static std::unique_ptr<ranks::Communicator> one;
  return one;
}

// On whichever thread waits: the command cannot go on.
void end_for_absence(const std::string& message) {
  if (!message.empty()) {
    log_to_files(LogLevel::kError, message);
    const std::string line = str("mneme: error: ", message, '\n');
    [[maybe_unused]] const auto written = ::write(STDERR_FILENO, line.data(), line.size());
  }
  end_ranks(static_cast<int>(ErrorKind::kRun));
  std::_Exit(static_cast<int>(ErrorKind::kRun));  // ranks that are not open yet
}

ranks::OpenOptions options_of_environment() {
  ranks::OpenOptions options;
  options.on_absence = end_for_absence;
  const char* const text = std::getenv(kTimeLimit);
  if (text == nullptr || *text == '\0') return options;
  const std::string_view value = text;
  const std::int64_t seconds = integer_of<std::int64_t>(value).value_or(0);
  if (seconds < 1) {
    throw_usage({.where = str("environment variable ", kTimeLimit),
                 .failed = "wrong time that ranks wait for one another",
                 .expected = "seconds, at least 1",
                 .got = std::string(value)});
  }
  options.time_limit = static_cast<double>(seconds);
  return options;
}

// Opens the ranks; true for the one that speaks.
bool open_and_ask() {
  auto& open = open_ranks_of_process();
  open = ranks::open_ranks(options_of_environment());
  if (!open) return true;
  std::string alone = ranks::kStartedAlone;
  const std::size_t equals = alone.find('=');
  ::setenv(alone.substr(0, equals).c_str(), alone.substr(equals + 1).c_str(), 1);
  return open->is_first();
}

}  // namespace

RankSession::RankSession(const Streams& streams)
    : streams_(open_and_ask() ? streams : Streams{.out = nowhere_, .err = nowhere_}) {
  if (!is_first()) set_log_level(LogLevel::kError);
}

RankSession::~RankSession() {
  if (std::uncaught_exceptions() == 0) open_ranks_of_process().reset();
}

ranks::Communicator* RankSession::ranks() const { return open_ranks_of_process().get(); }

bool RankSession::is_first() const { return ranks() == nullptr || ranks()->is_first(); }

std::string RankSession::device(const std::string& given) const {
  if (ranks() == nullptr || given != "cuda") return given;
  return str("cuda:", ranks()->place_on_host());
}

void RankSession::set_threads(std::int64_t given, std::int64_t jobs) const {
  std::int64_t sharers = 1;
  // The ranks that a launcher has bound to the same cores share them.
  cpu_set_t cores;
  CPU_ZERO(&cores);
  if (ranks() != nullptr && ::sched_getaffinity(0, sizeof cores, &cores) == 0) {
    const std::string own = ranks()->host(ranks()->rank()) +
                            std::string(reinterpret_cast<const char*>(&cores), sizeof cores);
    sharers = std::ranges::count(ranks()->all_gather(own, "start"), own);
  }
  tensor::set_threads(given, sharers * jobs);
}

void check_started_alone(const std::string& command) {
  const auto launch = ranks::find_launch();
  if (!launch || launch->processes <= 1) return;
  // The others end without a word.
  for (const char* const name : {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"}) {
    const char* const rank = std::getenv(name);
    if (rank != nullptr && std::string_view(rank) != "0")
      std::_Exit(static_cast<int>(ErrorKind::kUsage));
  }
  throw_usage({.where = command,
               .failed = str("a launcher started ", launch->processes,
                             " processes, and this command runs in one"),
               .expected = "mneme train, eval or compare, or one process",
               .got = str(launch->sign, "=", launch->processes)});
}

std::string message_of_rank(const std::string& message) {
  const auto& ranks = open_ranks_of_process();
  if (!ranks || ranks->is_first()) return message;
  ::usleep(1'000'000 + 100'000 * static_cast<useconds_t>(std::min(ranks->rank(), 100)));
  const std::string name = name_of(*ranks, ranks->rank());
  return message.starts_with("rank ") ? message : name + ": " + message;
}

void end_ranks(int exit_code) {
  const auto& ranks = open_ranks_of_process();
  if (!ranks) return;
  ranks->end_all(exit_code);
  std::_Exit(exit_code);
}

}  // namespace mneme::cli
