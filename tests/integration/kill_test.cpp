// Runs that are killed (SIGKILL) at random moments and resumed until they end: no kill leaves an
// unreadable run, and the ends equal an uninterrupted run's, bit for bit.
//
// MNEME_KILLS: how often (default 6; scripts/check/check_kills.sh: 200). MNEME_SEED: of the moments.
#include <gtest/gtest.h>
#include <sys/inotify.h>
#include <sys/poll.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <iostream>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>
#include <thread>

#include "host/base/file/file.hpp"
#include "host/base/text.hpp"
#include "host/run/run_folder.hpp"
#include "host/tensor/torch.hpp"
#include "tests/base/temporary_folder.hpp"
#include "tests/integration/process.hpp"
#include "tests/run/run_compare.hpp"

namespace mneme::test {
namespace {

namespace fs = std::filesystem;

using KillMilliseconds = std::chrono::duration<double, std::milli>;

constexpr int kSteps = 40;

// Tells when files of a folder are made.
class FolderWatch {
 public:
  explicit FolderWatch(const fs::path& folder) : descriptor_(::inotify_init1(IN_CLOEXEC)) {
    ::inotify_add_watch(descriptor_, folder.c_str(), IN_CREATE);
  }
  ~FolderWatch() { ::close(descriptor_); }
  FolderWatch(const FolderWatch&) = delete;
  FolderWatch& operator=(const FolderWatch&) = delete;

  // Waits for the next events; false when none came for a while.
  bool wait() const {
    pollfd waiting{descriptor_, POLLIN, 0};
    if (::poll(&waiting, 1, /*milliseconds=*/50) <= 0) return false;
    alignas(inotify_event) char events[4096];
    return ::read(descriptor_, events, sizeof events) > 0;
  }

 private:
  int descriptor_;
};

class Kills : public testing::Test {
 protected:
  void SetUp() override {
    seed_ = static_cast<std::uint64_t>(environment("MNEME_SEED", std::random_device{}()));
    random_.seed(seed_);
    std::cout << "MNEME_SEED=" << seed_ << '\n';
    file_ = folder_.write("experiment.toml", small_experiment(kSteps));
    const auto start = std::chrono::steady_clock::now();
    Process whole({"train", file_, "--run", (folder_ / "whole").string(), "--quiet"}, log());
    ASSERT_EQ(whole.wait(), 0) << read_file(log());
    duration_ = std::chrono::steady_clock::now() - start;
  }

  fs::path log() const { return folder_ / "log"; }
  fs::path run() const { return folder_ / "run"; }
  double draw(double from, double to) { return std::uniform_real_distribution(from, to)(random_); }
  bool is_run() const { return fs::exists(run() / "experiment.toml"); }

  // Starts the run, or resumes it once there is one.
  std::vector<std::string> command() const {
    if (is_run()) return {"train", "--resume", run().string(), "--quiet"};
    return {"train", file_, "--run", run().string(), "--quiet"};
  }

  // Kills in the middle of everything: start, training, evaluation, end.
  void kill_at_some_time(Process& process) {
    const KillMilliseconds delay(draw(0.0, 1.1) * KillMilliseconds(duration_).count());
    const auto end = std::chrono::steady_clock::now() + delay;
    while (process.is_running() && std::chrono::steady_clock::now() < end) {
      std::this_thread::sleep_for(KillMilliseconds(0.2));
    }
    if (process.is_running()) process.kill();
  }

  // Kills while a checkpoint is written, synced, renamed or pruned.
  void kill_at_a_checkpoint(Process& process) {
    while (process.is_running() && !fs::exists(run() / "checkpoints")) {
      std::this_thread::sleep_for(KillMilliseconds(0.2));
    }
    const FolderWatch watch(run() / "checkpoints");
    for (int left = static_cast<int>(draw(1.0, 8.0)); left > 0 && process.is_running();) {
      left -= watch.wait() ? 1 : 0;
    }
    std::this_thread::sleep_for(KillMilliseconds(draw(0.0, 1.0) < 0.5 ? 0.0 : draw(0.0, 4.0)));
    if (process.is_running()) process.kill();
  }

  // The files of a killed process can be read: checkpoints are whole, and so are all lines but
  // perhaps the last.
  void expect_readable() {
    if (!is_run()) return;
    EXPECT_NO_THROW(static_cast<void>(run::RunFolder::open(run()).info()));
    const run::CheckpointFiles files = run::RunFolder::open(run()).checkpoints();
    for (const std::int64_t step : files.steps()) {
      EXPECT_NO_THROW(EXPECT_EQ(run::Checkpoint::open(files.path_of(step)).progress().step, step))
          << step;
    }
    const std::string text = read_file(run() / "metrics.jsonl");
    std::istringstream in(text.substr(0, text.rfind('\n') + 1));
    for (std::string line; std::getline(in, line);) EXPECT_TRUE(Json::accept(line)) << line;
    leftovers_ += count_temporaries();
  }

  std::int64_t count_temporaries() const {
    std::int64_t count = 0;
    for (const auto& entry : fs::recursive_directory_iterator(run())) {
      count += entry.path().extension() == ".tmp" ? 1 : 0;
    }
    return count;
  }

  TemporaryFolder folder_;
  std::uint64_t seed_ = 0;
  std::mt19937_64 random_;
  std::string file_;
  std::chrono::steady_clock::duration duration_{};
  std::int64_t leftovers_ = 0;  // temporary files that kills left behind
};

TEST_F(Kills, NeverLeaveAnUnreadableRunAndEndEqual) {
  const std::int64_t wanted = environment("MNEME_KILLS", 6);
  std::int64_t kills = 0, ends = 0;
  for (bool is_last = false; !is_last && !HasFailure();) {
    is_last = kills >= wanted;
    Process process(command(), log());
    if (!is_last) draw(0.0, 1.0) < 0.4 ? kill_at_some_time(process) : kill_at_a_checkpoint(process);
    const int status = process.wait();
    if (WIFSIGNALED(status)) {
      ++kills;
      expect_readable();
      continue;
    }
    ASSERT_EQ(status, 0) << read_file(log());
    expect_same_runs(folder_ / "whole", run());
    EXPECT_EQ(count_temporaries(), 0);
    ++ends;
    fs::remove_all(run());
  }
  std::cout << kills << " kills, " << ends << " runs brought to their end, " << leftovers_
            << " temporary files left by kills and cleared\n";
  EXPECT_GE(kills, wanted);
  EXPECT_GE(ends, 1);
}

}  // namespace
}  // namespace mneme::test
