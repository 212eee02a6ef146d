#include "host/ranks/communicator.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>

#include "host/base/error.hpp"
#include "host/ranks/launcher.hpp"
#include "tests/ranks/thread_ranks.hpp"

namespace mneme::ranks {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

template <typename F>
std::string refusal_of(F f) {
  try {
    f();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    return error.what();
  }
  ADD_FAILURE() << "no error was thrown";
  return "";
}

TEST(Lanes, AreSplitIntoEqualContiguousPieces) {
  test::run_ranks(3, [](Communicator& ranks) {
    const LaneRange lanes = lanes_of(ranks, 12, "train.lanes");
    EXPECT_EQ(lanes.first, 4 * ranks.rank());
    EXPECT_EQ(lanes.count, 4);
  });
}

TEST(Lanes, ThatRanksDoNotDivideAreRefused) {
  test::run_ranks(4, [](Communicator& ranks) {
    EXPECT_THAT(refusal_of([&] { static_cast<void>(lanes_of(ranks, 6, "train.lanes")); }),
                AllOf(HasSubstr("train.lanes: the lanes cannot be split equally over the ranks"),
                      HasSubstr("expected a multiple of the 4 ranks, for example 8, got 6"),
                      HasSubstr("--set train.lanes=8")));
  });
}

TEST(ThreadRanks, DoWhatTheInterfaceSays) {
  test::run_ranks(3, [](Communicator& ranks) {
    EXPECT_EQ(name_of(ranks, 2), "rank 2 of 3 (host host1)");
    EXPECT_THAT(ranks.all_gather(std::string(static_cast<std::size_t>(ranks.rank()), 'x'), "test"),
                ElementsAre("", "x", "xx"));
    const std::vector<std::string> gathered = ranks.gather(std::to_string(ranks.rank()), "test");
    if (ranks.is_first()) {
      EXPECT_THAT(gathered, ElementsAre("0", "1", "2"));
    } else {
      EXPECT_THAT(gathered, IsEmpty());
    }
    std::vector<double> numbers = {1.0, static_cast<double>(ranks.rank())};
    sum(ranks, numbers, "test");
    EXPECT_THAT(numbers, ElementsAre(3.0, 3.0));
    int word = ranks.rank() == 1 ? 7 : 0;
    ranks.broadcast(1, &word, sizeof word, "test");
    EXPECT_EQ(word, 7);
    float single = 1.5F;
    ranks.sum_to(2, &single, 1, Number::kF32, "test");
    EXPECT_EQ(single, ranks.rank() == 2 ? 4.5F : 1.5F);
  });
}

// Sets variables of the environment while it lives.
class Environment {
 public:
  explicit Environment(const std::map<std::string, std::string>& values) {
    for (const char* const name :
         {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS", "MNEME_STARTED_ALONE"}) {
      ::unsetenv(name);
    }
    for (const auto& [name, value] : values) ::setenv(name.c_str(), value.c_str(), 1);
    names_ = values;
  }
  ~Environment() {
    for (const auto& [name, value] : names_) ::unsetenv(name.c_str());
  }

 private:
  std::map<std::string, std::string> names_;
};

TEST(Launch, IsSeenInTheEnvironment) {
  const auto processes = [](const std::map<std::string, std::string>& values) {
    const Environment environment(values);
    const auto launch = find_launch();
    return launch ? launch->processes : 0;
  };
  EXPECT_EQ(processes({}), 0);
  EXPECT_EQ(processes({{"OMPI_COMM_WORLD_SIZE", "4"}}), 4);
  EXPECT_EQ(processes({{"OMPI_COMM_WORLD_SIZE", "1"}}), 1);
  EXPECT_EQ(processes({{"PMI_SIZE", "2"}}), 2);
  EXPECT_EQ(processes({{"SLURM_STEP_NUM_TASKS", "8"}}), 8);
  EXPECT_EQ(processes({{"SLURM_STEP_NUM_TASKS", "1"}}), 0);  // a batch script of one task
  EXPECT_EQ(processes({{"OMPI_COMM_WORLD_SIZE", "many"}}), 0);
  EXPECT_EQ(processes({{"OMPI_COMM_WORLD_SIZE", "4"}, {"MNEME_STARTED_ALONE", "1"}}), 0);
}

TEST(Launch, OfSeveralProcessesIsRefusedWithoutMpi) {
  if (has_mpi()) GTEST_SKIP() << "this program has MPI";
  const std::map<std::string, std::string> values = {{"OMPI_COMM_WORLD_SIZE", "4"}};
  const Environment environment(values);
  EXPECT_THAT(refusal_of([] { static_cast<void>(open_ranks()); }),
              AllOf(HasSubstr("environment variable OMPI_COMM_WORLD_SIZE: a launcher started this "
                              "program several times, but it was built without MPI"),
                    HasSubstr("got 4 processes"), HasSubstr("-DMNEME_MPI=ON")));
  ::setenv("OMPI_COMM_WORLD_SIZE", "1", 1);
  EXPECT_EQ(open_ranks(), nullptr);
}

}  // namespace
}  // namespace mneme::ranks
