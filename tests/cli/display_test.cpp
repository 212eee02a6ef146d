#include "host/cli/display.hpp"

#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "host/base/log.hpp"
#include "host/cli/streams.hpp"

namespace mneme::cli {
namespace {

class DisplayTest : public ::testing::Test {
 protected:
  // A phase of 10 segments that takes so long, and the line at `segments` of them.
  std::string line_of(const std::string& title, double seconds, std::int64_t segments) {
    display_.begin(title, 10);
    clock_.advance(seconds);
    display_.update(segments, 0);
    display_.end();
    std::string text = err_.str();
    err_.str("");
    return text;
  }

  ManualClock clock_;
  std::ostringstream out_, err_;
  Streams streams_{.out = out_, .err = err_};
  Display display_{streams_, false, clock_};
};

// The time of a run is estimated from the first run's progress, later from the finished runs.
TEST_F(DisplayTest, SaysWhichRunAndWhatAllStillNeed) {
  display_.count_runs(3);
  display_.next_run();
  EXPECT_EQ(line_of("train a", 20.0, 10), "train a run 1 of 3: 10/10  in 20.0s, 40.0s left\n");
  EXPECT_EQ(line_of("evaluate a", 5.0, 10), "evaluate a run 1 of 3: 10/10  in 5.00s, 40.0s left\n");
  display_.next_run();
  EXPECT_EQ(line_of("train b", 10.0, 5), "train b run 2 of 3: 5/10  10.0s of 35.0s left\n");
  display_.next_run();
  EXPECT_EQ(line_of("train c", 10.0, 5), "train c run 3 of 3: 5/10  10.0s left\n");
}

TEST_F(DisplayTest, ASingleRunIsNotCounted) {
  display_.count_runs(1);
  display_.next_run();
  EXPECT_EQ(line_of("evaluate a", 4.0, 5), "evaluate a 5/10  4.00s left\n");
}

TEST(Display, HushesTheLogBelowWarningsWhenQuiet) {
  std::vector<std::string> heard;
  set_log_sink([&](LogLevel, std::string_view message) { heard.emplace_back(message); });
  std::ostringstream out, err;
  const Streams streams{.out = out, .err = err};
  {
    const Display quiet(streams, true);
    log_info("spectral radius");
    log_warning("odd");
  }
  {
    const Display loud(streams, false);
    log_info("told");
  }
  set_log_sink({});
  EXPECT_EQ(heard, (std::vector<std::string>{"odd", "told"}));
}

TEST(FitLines, ContinuesInTheColumnWhereTextBegins) {
  EXPECT_EQ(fit_lines("ok  gpu   none is here, so\nshort\n", 20),
            "ok  gpu   none is\n          here, so\nshort\n");
}

TEST(FitLines, ContinuesFurtherInWithoutColumns) {
  EXPECT_EQ(fit_lines("  needs one, two, three", 14), "  needs one,\n      two,\n      three\n");
}

TEST(FitLines, BreaksNoWord) {
  EXPECT_EQ(fit_lines("    file /a/long/path.so", 10), "    file\n        /a/long/path.so\n");
  EXPECT_EQ(fit_lines("- /a/long/path.so: was changed", 14),
            "- /a/long/path.so:\n    was\n    changed\n");
}

}  // namespace
}  // namespace mneme::cli
