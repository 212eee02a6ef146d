#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include "host/base/file/file.hpp"
#include "tests/cli/program.hpp"
#include "tests/run/run_compare.hpp"

namespace mneme::test {
namespace {

namespace fs = std::filesystem;

using ::testing::HasSubstr;

class BadRunFolder : public CliTest {
 protected:
  fs::path checkpoint(int step) const {
    return folder_ / str("run/checkpoints/step_0000000", step, ".safetensors");
  }
  // A run of six steps with checkpoints of 4, 5 and 6.
  void train() const {
    expect_done(run_mneme({"train", experiment(tiny()), "--run", file("run"), "--quiet", "--set",
                           "train.save_every=1", "--set", "train.keep_checkpoints=3"}));
    ASSERT_TRUE(fs::exists(checkpoint(4)));
  }
  // Files that a write that failed would have left.
  std::vector<std::string> temporaries() const {
    std::vector<std::string> found;
    for (const auto& entry : fs::recursive_directory_iterator(folder_.path())) {
      if (entry.path().extension() == ".tmp") found.push_back(entry.path().string());
    }
    return found;
  }
};

TEST_F(BadRunFolder, FullDiskLeavesNothingHalfWritten) {
  train();
  const auto size = static_cast<std::int64_t>(fs::file_size(checkpoint(6)));
  fs::remove_all(folder_ / "run");
  expect_refusal(run_mneme({"train", experiment(tiny()), "--run", file("run"), "--quiet"},
                           {.file_size = size - 1000}),
                 1, {checkpoint(6).string(), "cannot write", "File too large"});
  EXPECT_THAT(temporaries(), ::testing::IsEmpty());
  EXPECT_FALSE(fs::exists(checkpoint(6)));
  // The run is intact: with free space it can be resumed.
  expect_done(run_mneme({"train", "--resume", file("run"), "--quiet"}));
  EXPECT_TRUE(fs::exists(checkpoint(6)));
}

TEST_F(BadRunFolder, FullDiskKeepsTheLastGoodCheckpoint) {
  train();
  const auto before = timeless_metrics(folder_ / "run");
  const auto size = static_cast<std::int64_t>(fs::file_size(checkpoint(4)));
  expect_refusal(run_mneme({"train", "--resume", file("run"), "--checkpoint", "4", "--quiet"},
                           {.file_size = size - 1000}),
                 1, {"cannot write"});
  EXPECT_TRUE(fs::exists(checkpoint(4)));
  EXPECT_THAT(temporaries(), ::testing::IsEmpty());
  expect_done(run_mneme({"train", "--resume", file("run"), "--quiet"}));
  EXPECT_EQ(timeless_metrics(folder_ / "run"), before);
}

TEST_F(BadRunFolder, FullDiskAtTheBeginning) {
  const std::string path = experiment(tiny());
  expect_refusal(run_mneme({"train", path, "--run", file("run"), "--quiet"}, {.file_size = 100}), 2,
                 {file("run"), "cannot write"});
  EXPECT_FALSE(fs::exists(folder_ / "run"));
  expect_done(run_mneme({"train", path, "--run", file("run"), "--quiet"}));
}

TEST_F(BadRunFolder, UnwritableFolder) {
  folder_.write("file", "");
  expect_refusal(run_mneme({"train", experiment(tiny()), "--run", file("file/run")}), 2,
                 {file("file/run"), "cannot be made"});
  expect_refusal(run_mneme({"train", experiment(tiny()), "--run", file("file")}), 2,
                 {file("file"), "got a file"});
  fs::create_directories(folder_ / "run/lock");
  expect_refusal(run_mneme({"train", experiment(tiny()), "--run", file("run")}), 2,
                 {file("run"), "cannot be locked: Is a directory"});
}

TEST_F(BadRunFolder, UnwritableCheckpoints) {
  train();
  fs::remove_all(folder_ / "run/checkpoints");
  folder_.write("run/checkpoints", "a file in the way");
  expect_refusal(run_mneme({"train", "--resume", file("run"), "--quiet"}), 2,
                 {"run/checkpoints", "got a file"});
}

TEST_F(BadRunFolder, InUseByAnotherProcess) {
  train();
  const fs::path lock = folder_ / "run/lock";
  const int descriptor = ::open(lock.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  ASSERT_EQ(::flock(descriptor, LOCK_EX), 0);
  const std::string who = "4711 other-machine\n";
  ASSERT_EQ(::write(descriptor, who.data(), who.size()), static_cast<ssize_t>(who.size()));
  expect_refusal(run_mneme({"train", "--resume", file("run")}), 2,
                 {file("run"), "in use", "process 4711 on other-machine"});
  expect_refusal(run_mneme({"train", experiment(tiny()), "--run", file("run")}), 2, {"in use"});
  expect_done(run_mneme({"eval", file("run"), "--quiet"}));  // reading is no harm
  ::close(descriptor);
  expect_done(run_mneme({"train", "--resume", file("run"), "--quiet"}));
}

TEST_F(BadRunFolder, DamagedCheckpointOffersTheOneBefore) {
  train();
  for (const int step : {6, 5}) {
    std::string bytes = read_file(checkpoint(step));
    bytes[bytes.size() - 100] = static_cast<char>(bytes[bytes.size() - 100] ^ 1);
    write_file_atomic(checkpoint(step), bytes);
  }
  const std::string offer = "mneme train --resume " + file("run") + " --checkpoint 4";
  expect_refusal(run_mneme({"train", "--resume", file("run")}), 2,
                 {"step_00000006.safetensors: tensor \"", "damaged after it was written", offer});
  expect_refusal(run_mneme({"eval", file("run")}), 2,
                 {"step_00000006", "mneme eval " + file("run") + " --checkpoint 4"});
  const ProgramResult resumed =
      run_mneme({"train", "--resume", file("run"), "--checkpoint", "4", "--quiet"});
  expect_done(resumed);
  EXPECT_THAT(resumed.err, HasSubstr("deleted the checkpoint of step 6"));
  expect_done(run_mneme({"eval", file("run"), "--quiet"}));
}

TEST_F(BadRunFolder, TruncatedMetricsGoOnAndDamagedOnesAreNamed) {
  train();
  const std::string metrics = read_file(folder_ / "run/metrics.jsonl");
  // As a process leaves it that is killed in the middle of a line.
  folder_.write("run/metrics.jsonl", metrics + metrics.substr(0, 20));
  expect_done(run_mneme({"train", "--resume", file("run"), "--quiet"}));
  EXPECT_EQ(read_file(folder_ / "run/metrics.jsonl"), metrics);
  std::string damaged = metrics;
  damaged.replace(damaged.find('\n') - 5, 5, "@@@@@");
  folder_.write("run/metrics.jsonl", damaged);
  expect_refusal(run_mneme({"train", "--resume", file("run")}), 2,
                 {"metrics.jsonl:1: the line is damaged"});
}

TEST_F(BadRunFolder, UnknownCheckpoints) {
  train();
  expect_refusal(run_mneme({"train", "--resume", file("run"), "--checkpoint", "3"}), 2,
                 {"the run has no checkpoint 3", "4, 5, 6"});
  expect_refusal(run_mneme({"eval", file("run"), "--checkpoint", "first"}), 2,
                 {"the run has no checkpoint first", "\"best\""});
  expect_refusal(run_mneme({"train", experiment(tiny()), "--checkpoint", "3"}), 2,
                 {"--checkpoint", "--resume"});
  expect_refusal(run_mneme({"train", experiment(tiny()), "--allow-changed-plugin"}), 2,
                 {"--allow-changed-plugin", "--resume"});
}

TEST_F(BadRunFolder, WhatStandsInItsPlaceIsNamed) {
  train();
  const std::string toml = experiment(tiny());
  expect_refusal(run_mneme({"eval", toml}), 2,
                 {"this is no run of mneme", "got an experiment or memory file",
                  "mneme train " + toml + " --run DIR makes a run"});
  expect_refusal(run_mneme({"eval", checkpoint(6).string()}), 2,
                 {"got one of a run's checkpoints", "name the run, " + file("run")});
  expect_refusal(run_mneme({"eval", file("absent")}), 2, {"got no such folder"});
  folder_.write("model", "");
  expect_refusal(run_mneme({"eval", file("model")}), 2, {"got a file"});
  fs::create_directory(folder_ / "hf");
  folder_.write("hf/config.json", "{}");
  expect_refusal(run_mneme({"generate", file("hf"), "--prompt-ids", "1"}), 2,
                 {"got a model folder of another program", "mneme import --from "});
  fs::create_directory(folder_ / "compared");
  folder_.write("compared/comparison.json", "{}");
  fs::rename(folder_ / "run", folder_ / "compared/none-seed1");
  expect_refusal(run_mneme({"train", "--resume", file("compared")}), 2,
                 {"got the folder of a comparison", "name one of its runs: ", "none-seed1"});
  expect_refusal(run_mneme({"train", file("compared/none-seed1")}), 2,
                 {"got the folder of a run", "mneme train --resume "});
}

}  // namespace
}  // namespace mneme::test
