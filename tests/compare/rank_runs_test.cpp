// Runs of a comparison that several ranks, here threads, share.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <functional>
#include <map>
#include <sstream>

#include "host/compare/rank_agreement.hpp"
#include "host/run/run_folder.hpp"
#include "tests/compare/runs_fixture.hpp"
#include "tests/ranks/thread_ranks.hpp"

namespace mneme::compare {
namespace {

namespace fs = std::filesystem;
using test::error_of;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;
using State = RunRecord::State;

// Asks to stop as soon as a test says so.
class StoppableListener final : public test::Listener {
 public:
  int stop_signal() override { return signal == nullptr ? 0 : signal(); }

  std::function<int()> signal;
};

class RankRuns : public test::CompareRuns {
 protected:
  // What each rank prepared; a test may change it.
  void share_among(std::size_t ranks) {
    records_ = std::vector<Record>(ranks, record_);
    listeners_ = std::vector<StoppableListener>(ranks);
    results_.assign(ranks, -1);
  }
  // Runs the comparison on all ranks. Their errors, "" for none.
  std::vector<std::string> run_all_ranks() {
    std::vector<std::string> errors(records_.size());
    test::run_ranks(static_cast<int>(records_.size()), [&](ranks::Communicator& ranks) {
      const auto rank = static_cast<std::size_t>(ranks.rank());
      Options options = options_;
      options.ranks = &ranks;
      try {
        results_[rank] = run_all(records_[rank], options, listeners_[rank]);
      } catch (const std::exception& error) {
        errors[rank] = error.what();
      }
    });
    return errors;
  }
  // Every rank knows what became of every run, as the record says that rank 0 has written.
  void expect_one_record() const {
    for (const Record& record : records_) EXPECT_EQ(to_json(record), written());
  }
  // A script's beginning: it writes its arguments into `calls` and gives itself a file busy.*
  [[nodiscard]] std::string logged() const {
    return "cd " + folder_.path().string() + "\necho \"$*\" >>calls\ntouch busy.$$\n";
  }
  [[nodiscard]] std::map<std::string, int> trainings() const {
    std::map<std::string, int> out;
    std::istringstream in(read_file(folder_ / "calls"));
    for (std::string line; std::getline(in, line);) {
      if (line.starts_with("train")) {
        ++out[line.substr(0, line.find(" --threads"))];
      }
    }
    return out;
  }
  [[nodiscard]] int busy() const {
    return static_cast<int>(std::ranges::count_if(
        fs::directory_iterator(folder_.path()), [](const fs::directory_entry& entry) {
          return entry.path().filename().string().starts_with("busy.");
        }));
  }

  std::vector<Record> records_;
  std::vector<StoppableListener> listeners_;
  std::vector<int> results_;
};

// Each training waits until there are as many as there are places, so that all of them are used.
TEST_F(RankRuns, AreSharedAndEndWithOneRecord) {
  prepare_arms(4);
  for (const std::size_t arm : {0, 1, 2, 3}) train(arm);
  for (const auto& [ranks, jobs] : {std::pair(2, 1), std::pair(2, 2), std::pair(3, 1)}) {
    fs::remove(folder_ / "calls");
    options_.jobs = jobs;
    share_among(static_cast<std::size_t>(ranks));
    write_program(logged() + str("until [ $(ls busy.* | wc -l) -ge ", ranks * jobs,
                                 " ]; do sleep 0.02; done\n"));
    EXPECT_THAT(run_all_ranks(), Each(""));
    for (const auto& entry : fs::directory_iterator(folder_.path())) {
      if (entry.path().filename().string().starts_with("busy.")) fs::remove(entry.path());
    }
    EXPECT_THAT(results_, Each(0));
    for (const ArmRecord& arm : records_.front().arms) {
      EXPECT_THAT(arm.runs, Each(::testing::Property(&RunRecord::is_done, true)));
    }
    expect_one_record();
    const auto counts = trainings();
    EXPECT_EQ(counts.size(), 4U);
    for (const auto& [command, count] : counts) EXPECT_EQ(count, 1) << command;
    EXPECT_THAT(listeners_[0].ended,
                UnorderedElementsAre("none-seed1", "none#2-seed1", "none#3-seed1", "none#4-seed1"));
    EXPECT_THAT(listeners_[1].ended, IsEmpty());
  }
}

// Rank 0 alone shows what processes say, and how they failed.
TEST_F(RankRuns, TellFailuresAndMessagesOnce) {
  prepare_arms(2);
  share_among(2);
  write_program(
      "echo 'the data are odd' >&2\n"
      "case \"$*\" in *'none#2'*) echo 'mneme: error: no room' >&2; exit 4;; esac\n"
      "kill -SEGV $$\n");
  EXPECT_THAT(run_all_ranks(), Each(""));
  expect_one_record();
  const RunRecord& first = records_[1].arms[0].runs[0];
  const RunRecord& second = records_[1].arms[1].runs[0];
  EXPECT_EQ(first.state, State::kFailed);
  EXPECT_EQ(first.error, "train: signal 11 (SIGSEGV)");
  EXPECT_EQ(first.exit_code, 139);
  EXPECT_EQ(second.error, "no room");
  EXPECT_EQ(second.exit_code, 4);
  EXPECT_THAT(listeners_[0].messages, ElementsAre(HasSubstr(": the data are odd")));
  EXPECT_EQ(listeners_[0].ended.size(), 2U);
  EXPECT_THAT(listeners_[1].messages, IsEmpty());
}

// The processes of all ranks save, whichever rank was asked to stop.
TEST_F(RankRuns, StopWhenAnyRankIsAskedTo) {
  prepare_arms(3);
  for (const std::size_t asked : {0, 1}) {
    share_among(2);
    write_program(logged() +
                  "trap 'touch saved.$$; exit 143' TERM\nwhile :; do sleep 0.02; done\n");
    listeners_[asked].signal = [&] { return busy() == 2 ? SIGTERM : 0; };
    EXPECT_THAT(run_all_ranks(), Each(""));
    EXPECT_THAT(results_, Each(SIGTERM));
    expect_one_record();
    int saved = 0;
    for (const auto& entry : fs::directory_iterator(folder_.path())) {
      const std::string name = entry.path().filename().string();
      saved += name.starts_with("saved.") ? 1 : 0;
      if (name.starts_with("saved.") || name.starts_with("busy.")) fs::remove(entry.path());
    }
    EXPECT_EQ(saved, 2);
    for (const ArmRecord& arm : records_[1].arms) EXPECT_EQ(arm.runs[0].state, State::kWaiting);
  }
}

// Rank 0 cannot write the record any more: the process of rank 1 saves before all leave.
TEST_F(RankRuns, SaveBeforeAnErrorOfRank0) {
  prepare_arms(2);
  share_among(2);
  write_program("cd " + folder_.path().string() + R"(
case "$*" in *none-seed1*)
  until [ -e ready ]; do sleep 0.02; done
  mv runs moved
  exit 0
esac
trap 'sleep 0.3; touch saved; exit 143' TERM
touch ready
while :; do sleep 0.02; done
)");
  EXPECT_THAT(run_all_ranks(), ElementsAre(HasSubstr("comparison.json"),
                                           AllOf(HasSubstr("rank 0 of 2 (host host0): "),
                                                 HasSubstr("comparison.json"))));
  EXPECT_TRUE(fs::exists(folder_ / "saved"));
}

TEST_F(RankRuns, SaveBeforeAnErrorOfAnotherRank) {
  prepare_arms(2);
  share_among(2);
  write_program(logged() + "trap 'touch saved.$$; exit 143' TERM\nwhile :; do sleep 0.02; done\n");
  listeners_[1].signal = [&]() -> int {
    if (busy() == 2) throw_usage("the rank is tired");
    return 0;
  };
  EXPECT_THAT(run_all_ranks(),
              ElementsAre("rank 1 of 2 (host host0): the rank is tired", "the rank is tired"));
  const auto saved = std::ranges::count_if(
      fs::directory_iterator(folder_.path()), [](const fs::directory_entry& entry) {
        return entry.path().filename().string().starts_with("saved.");
      });
  EXPECT_EQ(saved, 2);
}

// Whichever of the two is known first.
TEST_F(RankRuns, FailWhereTheFirstWeightsAreOthers) {
  prepare_arms(2);
  for (const std::size_t arm : {0, 1}) train(arm);
  edit_info(1, "initial_backbone_sha256", "0123");
  share_among(2);
  write_program("exit 0\n");
  EXPECT_THAT(run_all_ranks(), Each(""));
  expect_one_record();
  const RunRecord& first = records_[0].arms[0].runs[0];
  const RunRecord& second = records_[0].arms[1].runs[0];
  EXPECT_NE(first.state, second.state);
  EXPECT_THAT(first.error + second.error,
              HasSubstr("its backbone did not start from the weights of "));
}

TEST_F(RankRuns, RefuseRanksThatPreparedAnotherComparison) {
  prepare_arms(2);
  share_among(3);
  records_[2].arms[1].runs[0].folder = "none#2-seed1-2";
  EXPECT_THAT(
      run_all_ranks(),
      Each("rank 2 of 3 (host host1): it compares something else than rank 0: in comparison.json, "
           "/arms/1/runs/0/folder differs: expected \"none#2-seed1\", got \"none#2-seed1-2\"; the "
           "ranks do not see the same runs: put the comparison's folder on a file system that all "
           "hosts share"));
  records_[2] = record_;
  records_[1].machine["threads"] = 77;
  EXPECT_THAT(run_all_ranks(), Each(AllOf(HasSubstr("rank 1 of 3 (host host0)"),
                                          HasSubstr("/machine/threads differs"),
                                          HasSubstr("got 77; numbers depend on it"))));
  records_[1] = record_;
  memory::TierIdentity plugin;
  plugin.path = "a.so";
  plugin.sha256 = "1";
  for (Record& record : records_) record.arms[0].plugins = {plugin};
  records_[1].arms[0].plugins[0].sha256 = "2";
  EXPECT_THAT(run_all_ranks(), Each(AllOf(HasSubstr("/arms/0/plugins/0/sha256 differs"),
                                          HasSubstr("expected \"1\", got \"2\"; start the same"))));
  EXPECT_FALSE(fs::exists(options_.folder));
}

TEST_F(RankRuns, RefuseAFolderThatARankDoesNotSee) {
  fs::create_directories(options_.folder);
  const run::RunLock lock(options_.folder);
  // A folder of the same name on a disk of its own: with another lock, or none.
  const fs::path other = folder_ / "other";
  const auto check = [&] {
    test::run_ranks(3, [&](ranks::Communicator& ranks) {
      Options options = options_;
      if (ranks.rank() == 2) options.folder = other;
      check_folder_is_shared(ranks, options, 0.2);
    });
  };
  EXPECT_THAT(
      error_of(check),
      AllOf(HasSubstr("rank 2 of 3 (host host1): it does not see the comparison's folder as "
                      "rank 0 does: " +
                      options_.folder.string()),
            HasSubstr("put it on a file system that all hosts share")));
  fs::create_directories(other);
  folder_.write("other/lock", "17 elsewhere\n");
  EXPECT_THAT(error_of(check), HasSubstr("got another file, or none"));
  fs::copy_file(options_.folder / "lock", other / "lock", fs::copy_options::overwrite_existing);
  check();
  // With weights to begin with, their copy has to be there, too.
  options_.initial_weights = "given.safetensors";
  EXPECT_THAT(error_of(check), HasSubstr("rank 0 of 3"));
}

}  // namespace
}  // namespace mneme::compare
