// Which rank and which GPU gets which run.
#include "host/compare/rank_schedule.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>

namespace mneme::compare {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Start = RankSchedule::Start;

TEST(RankSchedule, GivesRunsToTheFreestRankInTheQueuesOrder) {
  RankSchedule schedule(7, 2, 2);
  EXPECT_THAT(schedule.hand_out(), ElementsAre(Start{0, 0}, Start{1, 1}, Start{2, 0}, Start{3, 1}));
  EXPECT_EQ(schedule.active(), 4);
  EXPECT_EQ(schedule.waiting(), 3U);
  EXPECT_THAT(schedule.hand_out(), IsEmpty());
  schedule.end(3);
  schedule.end(1);
  EXPECT_THAT(schedule.hand_out(), ElementsAre(Start{4, 1}, Start{5, 1}));
  schedule.end(2);
  EXPECT_THAT(schedule.hand_out(), ElementsAre(Start{6, 0}));
  for (const std::size_t run : {0, 4, 5, 6}) schedule.end(run);
  EXPECT_EQ(schedule.active(), 0);
  EXPECT_EQ(schedule.waiting(), 0U);
}

TEST(RankSchedule, HasMoreRanksThanRuns) {
  RankSchedule schedule(2, 4, 8);
  EXPECT_THAT(schedule.hand_out(), ElementsAre(Start{0, 0}, Start{1, 1}));
}

TEST(RankSchedule, RefusesEndsOfRunsThatAreNotAtWork) {
  RankSchedule schedule(2, 1, 1);
  EXPECT_THROW(schedule.end(0), std::logic_error);
  static_cast<void>(schedule.hand_out());
  schedule.end(0);
  EXPECT_THROW(schedule.end(0), std::logic_error);
  EXPECT_THROW(schedule.end(1), std::logic_error);
}

TEST(Freest, IsTheFirstWithTheLeastWork) {
  const std::vector<std::int64_t> one{3}, equal{1, 1, 1}, later{2, 1, 0, 0};
  EXPECT_EQ(freest(one), 0U);
  EXPECT_EQ(freest(equal), 0U);
  EXPECT_EQ(freest(later), 2U);
  EXPECT_THROW(static_cast<void>(freest({})), std::logic_error);
}

TEST(GpusOf, ShareTheGpusOfAMachine) {
  EXPECT_THAT(gpus_of(0, 1, 4), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(gpus_of(0, 2, 4), ElementsAre(0, 2));
  EXPECT_THAT(gpus_of(1, 2, 4), ElementsAre(1, 3));
  EXPECT_THAT(gpus_of(0, 2, 3), ElementsAre(0, 2));
  EXPECT_THAT(gpus_of(1, 2, 3), ElementsAre(1));
  EXPECT_THAT(gpus_of(3, 4, 4), ElementsAre(3));
  // Fewer GPUs than ranks.
  EXPECT_THAT(gpus_of(2, 4, 2), ElementsAre(0));
  EXPECT_THAT(gpus_of(3, 4, 2), ElementsAre(1));
  EXPECT_THAT(gpus_of(5, 8, 1), ElementsAre(0));
}

TEST(RankNews, IsReadAsItWasWritten) {
  RankNews news{.signal = 15, .failure = "no room"};
  news.runs.push_back({.run = 3,
                       .state = RunRecord::State::kFailed,
                       .initial_sha256 = "0123",
                       .error = "two\nlines, and \xe9",
                       .exit_code = 139,
                       .loss = 2.2339645372629167,
                       .activity = {.run = "a-seed1", .phase = "train", .step = 5, .of = 9},
                       .steps = 5,
                       .total_steps = 9,
                       .lines = {"\"quoted\"", ""}});
  news.runs.push_back({.run = 4});
  const RankNews read = read_news(write_news(news));
  EXPECT_EQ(read.signal, 15);
  EXPECT_EQ(read.failure, "no room");
  ASSERT_EQ(read.runs.size(), 2U);
  const RunNews& run = read.runs.front();
  EXPECT_EQ(run.run, 3U);
  EXPECT_EQ(run.state, RunRecord::State::kFailed);
  EXPECT_EQ(run.initial_sha256, "0123");
  EXPECT_EQ(run.error, "two\nlines, and \ufffd");
  EXPECT_EQ(run.exit_code, 139);
  EXPECT_EQ(run.loss, 2.2339645372629167);
  EXPECT_EQ(read.runs.back().loss, std::nullopt);
  EXPECT_EQ(run.activity.run, "a-seed1");
  EXPECT_EQ(run.activity.phase, "train");
  EXPECT_EQ(run.activity.step, 5);
  EXPECT_EQ(run.activity.of, 9);
  EXPECT_EQ(run.steps, 5);
  EXPECT_EQ(run.total_steps, 9);
  EXPECT_THAT(run.lines, ElementsAre("\"quoted\"", ""));
  EXPECT_EQ(read.runs.back().run, 4U);
  EXPECT_EQ(read.runs.back().state, RunRecord::State::kRunning);
  EXPECT_THROW(static_cast<void>(read_news("{}")), std::logic_error);
  EXPECT_THROW(static_cast<void>(read_news("")), std::logic_error);
}

}  // namespace
}  // namespace mneme::compare
