#include "host/base/progress.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>
#include <streambuf>
#include <string>
#include <vector>

namespace mneme {
namespace {

TEST(Progress, PlainLinesComeOncePerInterval) {
  ManualClock clock;
  std::ostringstream out;
  Progress progress(out, {.title = "train", .total_steps = 100, .line_seconds = 10}, clock);
  for (int step = 1; step <= 100; ++step) {
    clock.advance(1.0);
    progress.update({.step = step, .tokens = 1000 * step, .loss = 2.5});
  }
  progress.finish();
  std::istringstream lines(out.str());
  std::vector<std::string> all;
  for (std::string line; std::getline(lines, line);) all.push_back(line);
  ASSERT_EQ(all.size(), 11u);  // step 1, every tenth second after it, and the last step
  EXPECT_EQ(all[0], "train 1/100  loss 2.5000  1.00k tokens/s  1m39s left");
  EXPECT_EQ(all[1], "train 11/100  loss 2.5000  1.00k tokens/s  1m29s left");
  EXPECT_EQ(all[10], "train 100/100  loss 2.5000  1.00k tokens/s  in 1m40s");
  EXPECT_EQ(out.str().find('\r'), std::string::npos);
}

TEST(Progress, ShowsTheShareOfTheDevicesArithmetic) {
  ManualClock clock;
  std::ostringstream out;
  const Progress progress(out, {.title = "train", .total_steps = 4}, clock);
  clock.advance(1.0);
  EXPECT_EQ(progress.line({.step = 1, .tokens = 10, .mfu = 0.3456}),
            "train 1/4  10 tokens/s, MFU 34.6 %  3.00s left");
  EXPECT_EQ(progress.line({.step = 1, .tokens = 10, .mfu = 0.3456, .peak_bytes = 3LL << 29}),
            "train 1/4  10 tokens/s, MFU 34.6 %, GPU 1.5 GiB  3.00s left");
}

TEST(Progress, WorkAfterTheLastStepHasNoTime) {
  ManualClock clock;
  std::ostringstream out;
  const Progress progress(out, {.title = "train", .total_steps = 4}, clock);
  clock.advance(2.0);
  EXPECT_EQ(progress.line({.step = 2, .has_more_work = true}), "train 2/4  2.00s left");
  EXPECT_EQ(progress.line({.step = 4, .has_more_work = true}), "train 4/4");
  EXPECT_EQ(progress.line({.step = 4}), "train 4/4  in 2.00s");
}

TEST(Progress, TerminalRedrawsOneLine) {
  ManualClock clock;
  std::ostringstream out;
  Progress progress(
      out, {.total_steps = 4, .is_terminal = true, .redraw_seconds = 1, .bar_width = 8}, clock);
  clock.advance(2.0);
  progress.update({.step = 1, .tokens = 10});
  clock.advance(0.5);
  progress.update({.step = 2, .tokens = 20});  // too early to draw
  clock.advance(1.5);
  progress.update({.step = 4, .tokens = 40});
  progress.finish();
  progress.finish();
  EXPECT_EQ(out.str(),
            "\r[##......] 1/4  5 tokens/s  6.00s left"
            "\r[########] 4/4  10 tokens/s  in 4.00s "
            "\n");
}

TEST(Progress, FinishShowsTheLastStateOfABrokenOffRun) {
  ManualClock clock;
  std::ostringstream out;
  Progress progress(out, {.total_steps = 100}, clock);
  clock.advance(1.0);
  progress.update({.step = 1});
  clock.advance(1.0);
  progress.update({.step = 2});
  EXPECT_EQ(out.str(), "1/100  1m39s left\n");
  progress.finish();
  EXPECT_EQ(out.str(), "1/100  1m39s left\n2/100  1m38s left\n");
}

TEST(Progress, AResumedRunShowsItsOwnSpeed) {
  ManualClock clock;
  std::ostringstream out;
  Progress progress(out, {.total_steps = 100}, clock, {.step = 50, .tokens = 5000});
  clock.advance(10.0);
  EXPECT_EQ(progress.line({.step = 60, .tokens = 6000}), "60/100  100 tokens/s  40.0s left");
}

TEST(Progress, UnknownLengthHasNoTimeLeft) {
  ManualClock clock;
  std::ostringstream out;
  Progress progress(out, {.title = "eval", .is_terminal = true}, clock);
  clock.advance(1.0);
  progress.update({.step = 3, .tokens = 30, .learning_rate = 0.001});
  EXPECT_EQ(out.str(), "\reval 3  lr 0.001  30 tokens/s");
}

TEST(Progress, NotesDoNotDamageTheBar) {
  ManualClock clock;
  std::ostringstream out;
  Progress progress(out, {.title = "t", .is_terminal = true}, clock);
  progress.update({.step = 1});
  progress.note("saved");
  progress.finish();
  EXPECT_EQ(out.str(), "\rt 1\r   \rsaved\n\rt 1\n");
}

// What a terminal of so many columns shows in the middle of a training.
std::string shown_at(int columns, const ProgressRun& run = {}) {
  ManualClock clock;
  std::ostringstream out;
  Progress progress(out,
                    {.title = "train continuous_ltm (seed 1)",
                     .run = run,
                     .total_steps = 2000,
                     .is_terminal = true,
                     .terminal_width = columns},
                    clock);
  clock.advance(30.0);
  progress.update({.step = 500, .tokens = 369000, .loss = 2.5, .learning_rate = 0.0014});
  return out.str().substr(1);  // '\r'
}

TEST(Progress, ANarrowTerminalLosesWhatMattersLeast) {
  const std::string speed_and_time = "12.3k tokens/s  1m30s left";
  EXPECT_EQ(shown_at(0),
            "[######..................] train continuous_ltm (seed 1) 500/2000  loss "
            "2.5000  lr 0.0014  " +
                speed_and_time);
  EXPECT_EQ(shown_at(100),
            "[####.............] train continuous_ltm (seed 1) 500/2000  loss "
            "2.5000  " +
                speed_and_time);
  EXPECT_EQ(shown_at(82), "train continuous_ltm (seed 1) 500/2000  loss 2.5000  " + speed_and_time);
  EXPECT_EQ(shown_at(80), "train continuous_ltm (seed 1) 500/2000  loss 2.5000  " + speed_and_time);
  EXPECT_EQ(shown_at(70), "train continuous_.. 500/2000  loss 2.5000  " + speed_and_time);
  EXPECT_EQ(shown_at(55), "500/2000  loss 2.5000  " + speed_and_time);
  EXPECT_EQ(shown_at(40), "500/2000  " + speed_and_time);
  EXPECT_EQ(shown_at(30), "500/2000  1m30s left");
  EXPECT_EQ(shown_at(7), "500/20") << "nothing is left to go: the line is cut";
}

TEST(Progress, NoTerminalIsOverrun) {
  for (int columns = 2; columns < 140; ++columns) {
    EXPECT_LT(shown_at(columns, {.number = 3, .of = 15, .seconds = 100.0}).size(),
              static_cast<std::size_t>(columns));
  }
}

TEST(Progress, OneOfSeveralRunsShowsTheTimeOfAll) {
  // 90 s of this run and 12 runs of 100 s.
  EXPECT_EQ(shown_at(80, {.number = 3, .of = 15, .seconds = 100.0}),
            "run 3 of 15: 500/2000  loss 2.5000  12.3k tokens/s  1m30s of 21m30s left");
  // Without a run before it: the others take as long as this one, 120 s.
  EXPECT_THAT(shown_at(0, {.number = 1, .of = 3, .seconds = {}}),
              ::testing::EndsWith("run 1 of 3: 500/2000  loss 2.5000  lr 0.0014  12.3k tokens/s  "
                                  "1m30s of 5m30s left"));
  EXPECT_THAT(shown_at(0, {.number = 3, .of = 3, .seconds = 100.0}),
              ::testing::EndsWith("  1m30s left"));
}

TEST(Progress, TheEndOfARunSaysWhatTheOthersNeed) {
  ManualClock clock;
  std::ostringstream out;
  Progress progress(out, {.run = {.number = 1, .of = 3, .seconds = {}}, .total_steps = 4}, clock);
  clock.advance(20.0);
  EXPECT_EQ(progress.line({.step = 4}), "run 1 of 3: 4/4  in 20.0s, 40.0s left");
}

// A comparison is evaluated after its last step; each update was a line there.
TEST(Progress, TheLastStepIsShownOnce) {
  ManualClock clock;
  std::ostringstream out;
  Progress progress(out, {.total_steps = 2}, clock);
  for (int i = 0; i < 30; ++i) {
    clock.advance(0.1);
    progress.update({.step = 2});
  }
  progress.finish();
  EXPECT_EQ(out.str(), "2/2  in 0.10s\n2/2  in 3.00s\n");
}

// Keeps what each write to a stream consists of.
class Writes : public std::streambuf {
 public:
  std::vector<std::string> all;

 protected:
  std::streamsize xsputn(const char* text, std::streamsize size) override {
    all.emplace_back(text, static_cast<std::size_t>(size));
    return size;
  }
  int_type overflow(int_type c) override {
    all.emplace_back(1, traits_type::to_char_type(c));
    return c;
  }
};

// Other threads write lines of their own, such as that of a signal, to the same place.
TEST(Progress, ALineIsOneWrite) {
  for (const bool is_json : {true, false}) {
    ManualClock clock;
    Writes writes;
    std::ostream out(&writes);
    Progress progress(out, {.title = "t", .total_steps = 2, .is_json = is_json}, clock);
    progress.note("said");
    progress.update({.step = 2});
    progress.finish();
    ASSERT_EQ(writes.all.size(), 2U);
    EXPECT_EQ(writes.all[0], is_json ? "{\"note\":\"said\"}\n" : "said\n");
    EXPECT_EQ(writes.all[1].find('\n'), writes.all[1].size() - 1);
  }
}

TEST(Progress, PlainLinesBecomeRare) {
  ManualClock clock;
  std::ostringstream out;
  Progress progress(out, {.total_steps = 100'000}, clock);
  std::int64_t hour = 0, day = 0;
  for (int second = 1; second <= 86'400; ++second) {
    clock.advance(1.0);
    progress.update({.step = second});
    const std::string text = out.str();
    out.str("");
    const auto lines = static_cast<std::int64_t>(std::ranges::count(text, '\n'));
    day += lines;
    if (second <= 3'600) hour += lines;
  }
  EXPECT_GE(hour, 60);
  EXPECT_LE(hour, 90);
  EXPECT_LE(day, 250);
}

}  // namespace
}  // namespace mneme
