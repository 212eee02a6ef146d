// Commands that SIGINT, SIGTERM or SIGHUP stops at random moments end with their status and their
// message, leave nothing in the way, and a training that is resumed, or a conversation that is
// continued, ends as one that never stopped, bit for bit. And trainings that a timer interrupts a
// thousand times a second end like others.
//
// MNEME_STOPS: how often (default 8; scripts/check/check_kills.sh: 300). MNEME_TIMERS: how many trainings
// (default 2; 20). MNEME_SEED: of the moments.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <fstream>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>

#include "host/base/file/file.hpp"
#include "host/base/text.hpp"
#include "tests/base/temporary_folder.hpp"
#include "tests/integration/process.hpp"
#include "tests/run/run_compare.hpp"

namespace mneme::test {
namespace {

namespace fs = std::filesystem;
using Milliseconds = std::chrono::duration<double, std::milli>;

constexpr std::array kSignals = {SIGINT, SIGTERM, SIGHUP};
constexpr std::int64_t kTokens = 300;

std::string name_of(int signal) {
  return signal == SIGINT ? "SIGINT" : signal == SIGHUP ? "SIGHUP" : "SIGTERM";
}

// Whether a thread, or a process's main one, has the signal blocked.
bool is_blocked(pid_t thread, int signal) {
  std::ifstream in(str("/proc/", thread, "/status"));
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with("SigBlk:")) continue;
    return (std::stoull(line.substr(7), nullptr, 16) >> (signal - 1) & 1) != 0;
  }
  return false;
}

// A JSON file's value without what a clock measured.
Json timeless(Json json) {
  const auto is_measured = [](const std::string& name) {
    return name.find("second") != std::string::npos || name.find("tokens/s") != std::string::npos ||
           name.find("peak") != std::string::npos || name == "speed" ||
           name.find("mfu") != std::string::npos || name.find("MFU") != std::string::npos ||
           name == "time";
  };
  const bool is_row = json.is_array() && std::ranges::any_of(json, [&](const Json& cell) {
                        return cell.is_string() && is_measured(cell);
                      });
  if (is_row) return nullptr;  // of a table
  if (json.is_array()) {
    for (Json& item : json) item = timeless(item);
  }
  if (!json.is_object()) return json;
  const std::string name = json.contains("name") ? json["name"].dump() : "";
  if (is_measured(name)) return nullptr;
  Json out = Json::object();
  for (const auto& [key, value] : json.items()) {
    if (!is_measured(key)) out[key] = timeless(value);
  }
  return out;
}

class Stops : public testing::Test {
 protected:
  void SetUp() override {
    seed_ = static_cast<std::uint64_t>(environment("MNEME_SEED", std::random_device{}()));
    random_.seed(seed_);
    std::cout << "MNEME_SEED=" << seed_ << '\n';
    file_ = folder_.write("experiment.toml", small_experiment(16));
    none_ = folder_.write("none.toml", "[memory]\n");
    cache_ = folder_.write("cache.toml", cache_memory());
    run_whole("train", {"train", file_, "--run", (folder_ / "whole").string(), "--quiet"});
    for (const char* const command : {"compare", "eval", "generate"}) {
      run_whole(command, arguments(command));
      whole_[command] = result();
    }
    fs::remove_all(comparison());
  }

  void run_whole(const std::string& command, const std::vector<std::string>& arguments) {
    const auto start = std::chrono::steady_clock::now();
    Process process(arguments, log());
    ASSERT_EQ(process.wait(), 0) << read_file(log());
    durations_[command] = std::chrono::steady_clock::now() - start;
  }

  fs::path log() const { return folder_ / "log"; }
  fs::path run() const { return folder_ / "run"; }
  std::string json() const { return (folder_ / "result.json").string(); }
  std::string state() const { return (folder_ / "state").string(); }
  std::string comparison() const { return (folder_ / "comparison").string(); }
  Json result() const { return timeless(Json::parse(read_file(json()))); }
  double draw(double from, double to) { return std::uniform_real_distribution(from, to)(random_); }
  std::size_t choose(std::size_t count) { return static_cast<std::size_t>(random_() % count); }

  std::vector<std::string> arguments(const std::string& command) const {
    const std::string whole = (folder_ / "whole").string();
    if (command == "compare") {
      return {"compare",    file_,       "--memory", none_,     "--memory", cache_, "--run",
              comparison(), "--threads", "1",        "--quiet", "--json",   json()};
    }
    if (command == "eval") return {"eval", whole, "--quiet", "--json", json()};
    if (command == "generate") {
      return {"generate", whole, "--prompt-ids", "1,2,3", "--tokens", std::to_string(kTokens),
              "--seed",   "5",   "--save-state", state(), "--json",   json(),
              "--quiet"};
    }
    if (fs::exists(run() / "experiment.toml")) {
      return {"train", "--resume", run().string(), "--quiet"};
    }
    return {"train", file_, "--run", run().string(), "--quiet"};
  }

  // Sends a signal at some time of the command's, in a quarter of the cases with another one right
  // behind it, as launchers do. Returns the signals sent.
  std::vector<int> stop_at_some_time(const std::string& command, Process& process) {
    std::vector<int> signals{kSignals[choose(kSignals.size())]};
    if (draw(0.0, 1.0) < 0.25) signals.push_back(kSignals[choose(kSignals.size())]);
    // From then on a waiting thread takes them; before, nothing of mneme's has run.
    while (process.is_running() && !is_blocked(process.id(), SIGHUP)) {
      std::this_thread::sleep_for(Milliseconds(0.2));
    }
    const Milliseconds delay(draw(0.0, 1.0) * Milliseconds(durations_[command]).count());
    const auto end = std::chrono::steady_clock::now() + delay;
    while (process.is_running() && std::chrono::steady_clock::now() < end) {
      std::this_thread::sleep_for(Milliseconds(0.2));
    }
    for (const int signal : signals) process.send(signal);
    return signals;
  }

  // Whether the process was stopped by one of the signals: in order, with its status, or, where
  // there was nothing to be saved, as by that signal. In both cases with its message.
  bool is_stop(int status, const std::vector<int>& signals) {
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return false;
    const std::string said = read_file(log());
    bool is_told = false;
    for (const int signal : signals) {
      const bool is_named = said.find("mneme: stopped by " + name_of(signal)) != std::string::npos;
      const bool is_right =
          WIFEXITED(status) ? WEXITSTATUS(status) == 128 + signal : WTERMSIG(status) == signal;
      is_told = is_told || (is_named && is_right);
    }
    EXPECT_TRUE(is_told) << "status " << status << " after " << name_of(signals[0]) << ": " << said;
    ++(WIFEXITED(status) ? ordered_ : sudden_);
    return true;
  }

  // The files of a stopped command are usable: the training is resumed, the text is continued.
  void expect_usable(const std::string& command, int status) {
    if (command == "train" && WIFEXITED(status)) {
      EXPECT_NE(read_file(log()).find("saved; continue with mneme train --resume"),
                std::string::npos);
    }
    if (command != "generate" || !WIFEXITED(status)) return;
    Json text = result().at("samples").at(0).at("ids");
    const std::int64_t left = kTokens - static_cast<std::int64_t>(text.size());
    Process next({"generate", (folder_ / "whole").string(), "--state", state(), "--tokens",
                  std::to_string(left), "--json", json(), "--quiet"},
                 log());
    ASSERT_EQ(next.wait(), 0) << read_file(log());
    const Json more = result().at("samples").at(0).at("ids");
    text.insert(text.end(), more.begin(), more.end());
    EXPECT_EQ(text, whole_["generate"].at("samples").at(0).at("ids"));
  }

  // The result of an uninterrupted command.
  void expect_whole(const std::string& command) {
    if (command == "train") {
      expect_same_runs(folder_ / "whole", run());
      fs::remove_all(run());
    } else if (command == "compare") {
      EXPECT_EQ(result(), whole_[command]);  // after any number of stops and continuations
      fs::remove_all(comparison());
    } else {
      EXPECT_EQ(result(), whole_[command]);
    }
  }

  TemporaryFolder folder_;
  std::uint64_t seed_ = 0;
  std::mt19937_64 random_;
  std::string file_, none_, cache_;
  std::map<std::string, std::chrono::steady_clock::duration> durations_;
  std::map<std::string, Json> whole_;
  std::int64_t ordered_ = 0, sudden_ = 0;  // stops: in order, as by the signal
};

TEST_F(Stops, EndWithTheirStatusAndLoseNothing) {
  const std::int64_t wanted = environment("MNEME_STOPS", 8);
  const std::array<std::string, 4> commands = {"train", "compare", "eval", "generate"};
  std::map<std::string, std::int64_t> stops, ends;
  for (std::int64_t done = 0; done < wanted && !HasFailure();) {
    const std::string& command = commands[choose(commands.size())];
    SCOPED_TRACE(command);
    fs::remove(json());
    fs::remove(state());
    Process process(arguments(command), log());
    const std::vector<int> signals = stop_at_some_time(command, process);
    const int status = process.wait();
    if (is_stop(status, signals)) {
      ++done;
      ++stops[command];
      expect_usable(command, status);
    } else {
      ++ends[command];
      expect_whole(command);
    }
  }
  for (const std::string& command : commands) {  // after all the stops, once to its end
    if (HasFailure()) break;
    fs::remove(json());
    fs::remove(state());
    Process process(arguments(command), log());
    ASSERT_EQ(process.wait(), 0) << command << ": " << read_file(log());
    expect_whole(command);
    std::cout << command << ": " << stops[command] << " stops, " << ends[command] + 1 << " ends\n";
  }
  std::cout << ordered_ << " stops in order, " << sudden_ << " as by their signal\n";
}

// The pipe's other end is never opened, so mneme waits in open(2).
TEST(Loading, ASignalEndsItAtOnce) {
  const TemporaryFolder folder;
  const std::string pipe = (folder / "experiment.toml").string();
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  Process process({"train", pipe}, folder / "log");
  while (process.is_running() && !is_blocked(process.id(), SIGTERM)) {
    std::this_thread::sleep_for(Milliseconds(0.2));
  }
  process.send(SIGTERM);
  const int status = process.wait();
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM) << status;
  EXPECT_EQ(read_file(folder / "log"), "mneme: stopped by SIGTERM\n");
}

// OpenMP's threads take part in products that no handler may interrupt.
TEST(Threads, OfLibrariesTakeNoSignals) {
  const TemporaryFolder folder;
  const std::string file = folder.write("experiment.toml", small_experiment(1000000)).string();
  Process process({"train", file, "--run", (folder / "run").string(), "--quiet", "--threads", "2"},
                  folder / "log");
  const fs::path tasks = str("/proc/", process.id(), "/task");
  std::vector<pid_t> others;
  while (others.size() < 2 && process.is_running()) {  // the waiting thread and OpenMP's
    std::this_thread::sleep_for(Milliseconds(1));
    others.clear();
    for (const auto& entry : fs::directory_iterator(tasks)) {
      const pid_t task = std::stoi(entry.path().filename());
      if (task != process.id()) others.push_back(task);
    }
  }
  ASSERT_TRUE(process.is_running()) << read_file(folder / "log");
  for (const pid_t task : others) {
    // The C library starts a thread with every signal blocked, for a moment.
    while (process.is_running() && is_blocked(task, SIGSEGV)) {
      std::this_thread::sleep_for(Milliseconds(1));
    }
    for (const int signal : {SIGPROF, SIGALRM, SIGUSR1}) {
      EXPECT_TRUE(is_blocked(task, signal)) << task << ' ' << signal;
    }
    for (const int fault : {SIGSEGV, SIGABRT}) EXPECT_FALSE(is_blocked(task, fault));
  }
}

// Products large enough for oneDNN's, which the small experiment lacks.
std::string wide_experiment() {
  return R"(
[model]
layers = 2
heads = 2
width = 128
dropout = 0.0
[data]
task = "motif"
alphabet = 16
period_min = 4
period_max = 24
[memory]
[train]
segment = 64
lanes = 16
steps = 3
lr = 1e-3
log_every = 1
[eval]
steps = 1
)";
}

TEST(TimerSignal, DoesNotDisturbATraining) {
  const std::int64_t wanted = environment("MNEME_TIMERS", 2);
  const TemporaryFolder folder;
  const std::string file = folder.write("experiment.toml", wide_experiment()).string();
  const auto train = [&](const std::string& run, std::int64_t threads,
                         const std::vector<std::string>& environment) {
    Process process({"train", file, "--run", (folder / run).string(), "--quiet", "--threads",
                     std::to_string(threads)},
                    folder / "log", environment);
    ASSERT_EQ(process.wait(), 0) << read_file(folder / "log");
  };
  for (const std::int64_t threads : {1, 2}) train(str("whole", threads), threads, {});
  std::int64_t signals = 0;
  for (std::int64_t i = 0; i < wanted && !testing::Test::HasFailure(); ++i) {
    const std::int64_t threads = i % 2 + 1;
    const std::string count = (folder / "signals").string();
    train("timed", threads, {"LD_PRELOAD=" MNEME_TIMER_LIBRARY, "MNEME_TEST_SIGNALS=" + count});
    if (HasFatalFailure()) break;
    expect_same_runs(folder / str("whole", threads), folder / "timed");
    fs::remove_all(folder / "timed");
    EXPECT_GT(std::stoll(read_file(count)), 20);
    signals += std::stoll(read_file(count));
  }
  std::cout << wanted << " trainings, " << signals << " signals\n";
}

}  // namespace
}  // namespace mneme::test
