#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <ctime>
#include <nlohmann/json.hpp>

#include "host/base/file/file.hpp"
#include "host/base/text.hpp"
#include "host/run/record/metrics.hpp"
#include "tests/base/temporary_folder.hpp"
#include "tests/run/event_reader.hpp"

namespace mneme::train {
namespace {

namespace fs = std::filesystem;

using test::error_of;
using test::Event;
using test::read_events;
using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::Key;
using testing::Not;
using testing::StartsWith;

std::vector<fs::path> sorted_files(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder)) files.push_back(entry.path());
  std::ranges::sort(files);
  return files;
}

run::StepReport step_report(std::int64_t step) {
  run::StepReport report;
  report.step = step;
  report.loss = 4.0 - 0.25 * static_cast<double>(step);
  report.grad_norm = 0.5;
  report.lr = 1e-3;
  report.tokens = 100 * step;
  report.seconds = 0.5 * static_cast<double>(step);
  report.mfu = 0.25;
  report.peak_device_bytes = 3 << 20;
  report.losses = {{"0.memory.balance", 0.125}};
  report.metrics = {{"0.memory.gate", 0.75}};
  return report;
}

run::EvalReport eval_report(std::int64_t step) {
  run::EvalReport report;
  report.step = step;
  report.result.total = {.targets = 8, .nll = 16.0, .correct = 2};
  report.result.state_bytes = 4096;
  return report;
}

TEST(EventFile, HoldsWhatWasAdded) {
  const test::TemporaryFolder folder;
  run::EventFile file = run::EventFile::create(folder / "events", 0);
  file.add(1, {{"train/loss", 2.5}, {"lr", 1e-3}});
  file.add(std::int64_t{1} << 40, {{"train/loss", std::nan("")}});
  EXPECT_THAT(file.path().filename().string(), StartsWith("events.out.tfevents."));
  const std::vector<Event> events = read_events(read_file(file.path()));
  ASSERT_EQ(events.size(), 3U);
  EXPECT_EQ(events[0].file_version, "brain.Event:2");
  EXPECT_NEAR(events[0].wall_time, static_cast<double>(std::time(nullptr)), 60.0);
  EXPECT_EQ(events[1].step, 1);
  EXPECT_EQ(events[1].scalars, (std::map<std::string, float>{{"train/loss", 2.5F}, {"lr", 1e-3F}}));
  EXPECT_EQ(events[2].step, std::int64_t{1} << 40);
  EXPECT_TRUE(std::isnan(events[2].scalars.at("train/loss")));
}

TEST(EventFile, OfAResumedRunSortsBehindAndTellsWhereItBegins) {
  const test::TemporaryFolder folder;
  std::vector<fs::path> made;
  for (int i = 0; i < 4; ++i) made.push_back(run::EventFile::create(folder.path(), 10 * i).path());
  EXPECT_EQ(made, sorted_files(folder.path()));
  const std::vector<Event> events = read_events(read_file(made[3]));
  ASSERT_EQ(events.size(), 2U);
  EXPECT_EQ(events[1].session_status, 1);  // START
  EXPECT_EQ(events[1].step, 30);
  EXPECT_EQ(read_events(read_file(made[0])).size(), 1U);
}

TEST(EventFile, NamesAFolderThatCannotBeMade) {
  const test::TemporaryFolder folder;
  folder.write("file", "");
  EXPECT_THAT(
      error_of([&] { static_cast<void>(run::EventFile::create(folder / "file/events", 0)); }),
      AllOf(StartsWith("1: "), HasSubstr("file/events"), HasSubstr("cannot be made")));
}

TEST(TensorBoard, ShowsTrainingAndEvaluations) {
  const test::TemporaryFolder folder;
  run::TensorBoard board(folder / "tensorboard", 0, 0, 0.0);
  EXPECT_FALSE(fs::exists(folder / "tensorboard"));  // nothing to show yet
  board.add(step_report(2));
  board.add(step_report(4));
  board.add(eval_report(4));
  const std::vector<Event> events =
      read_events(read_file(sorted_files(folder / "tensorboard").at(0)));
  ASSERT_EQ(events.size(), 4U);
  EXPECT_EQ(events[1].step, 2);
  EXPECT_FLOAT_EQ(events[1].scalars.at("train/loss"), 3.5F);
  EXPECT_FLOAT_EQ(events[1].scalars.at("train/grad_norm"), 0.5F);
  EXPECT_FLOAT_EQ(events[1].scalars.at("train/lr"), 1e-3F);
  EXPECT_FLOAT_EQ(events[2].scalars.at("train/tokens_per_second"), 200.0F);
  EXPECT_FLOAT_EQ(events[2].scalars.at("train/peak_device_bytes"), 3145728.0F);
  EXPECT_FLOAT_EQ(events[2].scalars.at("loss/0.memory.balance"), 0.125F);
  EXPECT_FLOAT_EQ(events[2].scalars.at("memory/0.memory.gate"), 0.75F);
  EXPECT_EQ(events[3].step, 4);
  EXPECT_FLOAT_EQ(events[3].scalars.at("valid/loss"), 2.0F);
  EXPECT_FLOAT_EQ(events[3].scalars.at("valid/perplexity"), std::exp(2.0F));
  EXPECT_FLOAT_EQ(events[3].scalars.at("valid/accuracy"), 0.25F);
  EXPECT_FLOAT_EQ(events[3].scalars.at("valid/state_bytes"), 4096.0F);
  EXPECT_THAT(events[3].scalars, Not(Contains(Key("valid/bits_per_character"))));
  EXPECT_THAT(events[3].scalars, Not(Contains(Key("valid/peak_device_bytes"))));
}

TEST(TensorBoard, MeasuresSpeedSinceTheRunContinued) {
  const test::TemporaryFolder folder;
  run::TensorBoard board(folder.path(), /*step=*/4, /*tokens=*/400, /*seconds=*/2.0);
  run::StepReport report = step_report(6);
  board.add(report);
  board.add(report);  // no time has passed
  const std::vector<Event> events = read_events(read_file(sorted_files(folder.path()).at(0)));
  EXPECT_EQ(events[1].step, 5);  // the first step to come
  EXPECT_FLOAT_EQ(events[2].scalars.at("train/tokens_per_second"), 200.0F);
  EXPECT_THAT(events[3].scalars, Not(Contains(Key("train/tokens_per_second"))));
}

// Killed before its first checkpoint: all its steps are done again.
TEST(TensorBoard, TellsThatARunBeginsAgainFromTheStart) {
  const test::TemporaryFolder folder;
  for (int process = 0; process < 2; ++process) {
    run::TensorBoard board(folder.path(), 0, 0, 0.0);
    board.add(step_report(1));
  }
  const std::vector<fs::path> files = sorted_files(folder.path());
  ASSERT_EQ(files.size(), 2U);
  EXPECT_EQ(read_events(read_file(files[0])).size(), 2U);
  const std::vector<Event> events = read_events(read_file(files[1]));
  ASSERT_EQ(events.size(), 3U);
  EXPECT_EQ(events[1].session_status, 1);  // START
  EXPECT_EQ(events[1].step, 1);
}

// TensorBoard's own reader. MNEME_PYTHON names a Python that has it; default python3.
TEST(TensorBoard, IsReadByTensorBoard) {
  const char* const chosen = std::getenv("MNEME_PYTHON");
  const std::string python = chosen == nullptr ? "python3" : chosen;
  if (std::system((python + " -c 'import tensorboard' 2>/dev/null").c_str()) != 0) {
    GTEST_SKIP() << python << " has no package tensorboard";
  }
  const test::TemporaryFolder folder;
  const std::string events = (folder / "events").string(), out = (folder / "out.json").string();
  {
    run::TensorBoard first(events, 0, 0, 0.0);
    for (const std::int64_t step : {1, 2, 3, 4}) first.add(step_report(step));
    run::TensorBoard resumed(events, 2, 200, 1.0);  // steps 3 and 4 are done again
    for (const std::int64_t step : {3, 4, 5}) resumed.add(step_report(step));
    resumed.add(eval_report(5));
  }
  const std::string command =
      str(python, " ", MNEME_SOURCE_DIR, "/tests/run/read_events.py ", events, " > ", out);
  ASSERT_EQ(std::system(command.c_str()), 0) << command;
  const Json read = Json::parse(read_file(out));
  Json losses = Json::array();
  for (const std::int64_t step : {1, 2, 3, 4, 5}) losses.push_back({step, step_report(step).loss});
  EXPECT_EQ(read.at("train/loss"), losses);
  EXPECT_EQ(read.at("valid/loss"), Json::parse("[[5, 2.0]]"));
  EXPECT_EQ(read.at("memory/0.memory.gate").size(), 5U);
}

}  // namespace
}  // namespace mneme::train
