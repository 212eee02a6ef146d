#include "host/report/comparison/depths.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "host/base/file/file.hpp"
#include "host/report/comparison/load.hpp"
#include "host/report/report.hpp"
#include "host/scores/evaluation_files.hpp"
#include "host/scores/stored_evaluation.hpp"
#include "tests/base/temporary_folder.hpp"
#include "tests/report/fixture.hpp"

namespace mneme::report {
namespace {

namespace fs = std::filesystem;
using test::Data;
using test::Fixture;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

using Groups = std::map<std::string, std::string>;

class DepthsTest : public ::testing::Test {
 protected:
  // A run whose evaluation has 5 sequences of two targets each, with losses and groups given here.
  [[nodiscard]] fs::path write_run(const std::function<Groups(std::int64_t)>& groups) const {
    const Fixture fixture{.data = Data::kNeedle, .seeds = {1}, .documents = 2, .targets = 2};
    const fs::path run = root_ / "one";
    test::write_run(run, fixture, fixture.arms[0], 1);
    const fs::path folder = scores::list_evaluations(run).at(0);
    scores::Columns columns;
    columns.narrow_nll = {0.5F, 1.0F, 2.0F, 0.25F, 0.125F, 4.0F, 1.5F, 0.75F, 3.0F, 0.5F};
    columns.correct = {1, 1, 0, 1, 0, 0, 1, 1, 0, 0};
    for (std::int32_t i = 0; i < 10; ++i) {
      columns.target.push_back(i);
      columns.document.push_back(i / 2);
      columns.distance.push_back(i % 2);
      columns.lane.push_back(0);
      columns.place.push_back(i);
      columns.segment.push_back(0);
    }
    scores::EvaluationToStore evaluation{
        .name = {.split = "valid", .step = 2000, .settings = "0123abcd"},
        .info = scores::StoredEvaluation::open(folder).info(),
        .groups = groups};
    const scores::Sums total = columns.total();
    evaluation.info["result"].update(
        {{"tokens", total.targets}, {"nll", total.nll}, {"correct", total.correct}});
    scores::write_evaluation(run, evaluation, columns);
    return run;
  }
  [[nodiscard]] Report of(const Fixture& fixture) const {
    test::write_comparison(root_ / "runs", fixture);
    return make_report(load({root_ / "runs"}));
  }

 private:
  mneme::test::TemporaryFolder root_;
};

const Groups kShallow = {{"depth", "0.0-0.1"}, {"length", "46"}};
const Groups kDeep = {{"depth", "0.9-1.0"}, {"length", "46"}};

TEST_F(DepthsTest, SumTheSequencesOfADepth) {
  const Comparison comparison =
      load({write_run([](std::int64_t i) { return i < 3 ? kShallow : kDeep; })});
  const std::vector<DepthCell> cells = depth_cells(comparison);
  ASSERT_THAT(cells, SizeIs(2));
  EXPECT_EQ(cells[0].depth, "0.0-0.1");
  EXPECT_EQ(cells[0].length, 46);
  EXPECT_EQ(cells[0].seeds, 1);
  EXPECT_EQ(cells[0].sums.targets, 6);
  EXPECT_EQ(cells[0].sums.correct, 3);
  EXPECT_EQ(cells[0].sums.nll, 7.875);
  EXPECT_EQ(cells[0].sums.accuracy(), 0.5);
  EXPECT_EQ(cells[1].depth, "0.9-1.0");
  EXPECT_EQ(cells[1].sums.targets, 4);
  EXPECT_EQ(cells[1].sums.correct, 2);
  EXPECT_EQ(cells[1].sums.nll, 5.75);
}

// A run counts once in a cell, whatever other groups its sequences have.
TEST_F(DepthsTest, OfSeveralTasksArePooled) {
  const Report report = make_report(load({write_run([](std::int64_t i) {
    Groups out = kShallow;
    out["task"] = i < 3 ? "single" : "multi";
    out["facts"] = "1";
    return out;
  })}));
  const std::vector<DepthCell> cells = depth_cells(report.comparison);
  ASSERT_THAT(cells, SizeIs(1));
  EXPECT_EQ(cells[0].seeds, 1);
  EXPECT_EQ(cells[0].sums.targets, 10);
  EXPECT_EQ(pooled_words(report.comparison, "valid"), "pooled over task");
  const auto sheet = std::ranges::find(report.sheets, "depths", &Sheet::key);
  ASSERT_NE(sheet, report.sheets.end());
  EXPECT_THAT(sheet->notes, ElementsAre("Rows on valid are pooled over task."));
}

TEST_F(DepthsTest, AreLeftOutWhenTheEvaluationIsDamaged) {
  for (const auto& one :
       {std::pair(Groups{{"depth", "deep"}, {"length", "46"}}, "got deep and 46"),
        std::pair(Groups{{"depth", "0.2-0.3"}, {"length", "-4"}}, "got 0.2-0.3 and -4"),
        std::pair(Groups{{"depth", "0.2-0.3"}}, "got 0.2-0.3 and none")}) {
    const Comparison comparison = load({write_run([&](std::int64_t) { return one.first; })});
    EXPECT_THAT(depth_cells(comparison), IsEmpty());
    EXPECT_THAT(comparison.notes, Contains(HasSubstr(one.second)));
  }
}

// The task retention's forgetting curve.
TEST_F(DepthsTest, ADelayIsACurve) {
  const auto values_of = [&](const std::function<Groups(std::int64_t)>& groups) {
    const Report report = make_report(load({write_run(groups)}));
    const auto figure = std::ranges::find(report.figures, "delay-valid", &Figure::key);
    return figure == report.figures.end() ? Json() : figure->spec.at("data").at("values");
  };
  const Json values = values_of([](std::int64_t i) {
    return Groups{{"delay", i < 2 ? "0" : "16"}, {"part", std::to_string(i)}};
  });
  ASSERT_THAT(values, SizeIs(2));
  EXPECT_EQ(values[0].at("x"), 0);
  EXPECT_EQ(values[0].at("mean"), 0.75);
  EXPECT_EQ(values[1].at("x"), 16);
  EXPECT_EQ(values[1].at("mean"), 1.0 / 3.0);
  EXPECT_THAT(values_of([](std::int64_t) { return Groups{{"delay", "4"}}; }), IsEmpty());
  EXPECT_THAT(values_of([](std::int64_t i) {
                return Groups{{"delay", i < 2 ? "soon" : "-1"}};
              }),
              IsEmpty());
}

TEST_F(DepthsTest, OfAllSeedsAddUpToTheEvaluations) {
  const Report report = of({.data = Data::kNeedle, .seeds = {1, 2}});
  const Comparison& comparison = report.comparison;
  const std::vector<DepthCell> cells = depth_cells(comparison);
  ASSERT_THAT(cells, SizeIs(3 * 10));
  for (std::size_t arm = 0; arm < comparison.arms.size(); ++arm) {
    std::int64_t targets = 0, correct = 0;
    for (const DepthCell& cell : cells) {
      if (cell.arm != arm) continue;
      EXPECT_EQ(cell.seeds, 2);
      targets += cell.sums.targets;
      correct += cell.sums.correct;
    }
    std::int64_t expected_targets = 0, expected_correct = 0;
    for (const report::Run& run : comparison.arms[arm].runs) {
      expected_targets += run.find("valid")->total.targets;
      expected_correct += run.find("valid")->total.correct;
    }
    EXPECT_EQ(targets, expected_targets);
    EXPECT_EQ(correct, expected_correct);
  }
}

TEST_F(DepthsTest, AreDrawnAndListed) {
  const Report report = of({.data = Data::kNeedle, .seeds = {1}});
  EXPECT_EQ(pooled_words(report.comparison, "valid"), "");
  const auto figure = std::ranges::find(report.figures, "depth-valid", &Figure::key);
  ASSERT_NE(figure, report.figures.end());
  EXPECT_EQ(figure->title, "Accuracy on valid by the needle's depth, haystack of 20 tokens");
  const Json& values = figure->spec.at("data").at("values");
  ASSERT_THAT(values, SizeIs(3 * 10));
  EXPECT_EQ(values[0].at("arm"), "none");
  EXPECT_EQ(values[0].at("depth"), "0.0-0.1");
  const DepthCell first = depth_cells(report.comparison).front();
  EXPECT_EQ(values[0].at("accuracy").get<double>(), 100.0 * first.sums.accuracy());

  const auto sheet = std::ranges::find(report.sheets, "depths", &Sheet::key);
  ASSERT_NE(sheet, report.sheets.end());
  EXPECT_THAT(write_sheet(*sheet, Format::kCsv),
              HasSubstr("\nvalid,none,20,0.0-0.1," + format_exact(first.sums.accuracy()) + ","));
  const Json evaluation = report.json().at("arms").at(0).at("runs").at(0).at("evaluations").at(0);
  EXPECT_EQ(evaluation.at("groups").at(0).at("groups"),
            Json({{"depth", "0.0-0.1"}, {"length", "20"}}));
  EXPECT_EQ(evaluation.at("groups").at(0).at("correct"), first.sums.correct);
}

TEST_F(DepthsTest, OfOtherLengthsAreRowsOfAnArmsFigure) {
  const Report report = of({.data = Data::kNeedle, .seeds = {1, 2}, .other_lengths = {160, 40}});
  const std::vector<DepthCell> cells = depth_cells(report.comparison);
  ASSERT_THAT(cells, SizeIs(3 * 10 * 3));
  EXPECT_EQ(cells[0].length, 20);
  EXPECT_EQ(cells[10].length, 40);
  EXPECT_EQ(cells[20].length, 160);
  EXPECT_EQ(cells[20].seeds, 2);
  std::vector<std::string> keys;
  for (const Figure& figure : report.figures) {
    if (figure.key.starts_with("depth-")) keys.push_back(figure.key);
  }
  EXPECT_THAT(keys, ElementsAre("depth-valid-1", "depth-valid-2", "depth-valid-3"));
  // The numbers of the comparison stay those of the trained length.
  const Report alone = of({.data = Data::kNeedle, .seeds = {1, 2}});
  EXPECT_EQ(report.differences[0].mean, alone.differences[0].mean);
  const Json run = report.json().at("arms").at(0).at("runs").at(0);
  EXPECT_THAT(run.at("evaluations"), SizeIs(1));
  EXPECT_THAT(run.at("other_lengths"), SizeIs(2));
}

TEST_F(DepthsTest, AreNothingOfOtherTasks) {
  const Report report = of({.data = Data::kSequence, .seeds = {1}});
  EXPECT_THAT(depth_cells(report.comparison), IsEmpty());
  EXPECT_EQ(std::ranges::find(report.sheets, "depths", &Sheet::key), report.sheets.end());
}

// Their file names the groups as it likes.
TEST_F(DepthsTest, AreNothingOfQuestionsWithOtherGroups) {
  const Report report = of({.data = Data::kQuestion, .seeds = {1}});
  EXPECT_THAT(depth_cells(report.comparison), IsEmpty());
  const Json evaluation = report.json()["arms"][0]["runs"][0]["evaluations"][0];
  ASSERT_THAT(evaluation.at("groups"), SizeIs(2));
  EXPECT_EQ(evaluation.at("groups")[0].at("groups").at("depth"), "deep");
  EXPECT_EQ(evaluation.at("groups")[0].at("questions"), 12);
  EXPECT_EQ(evaluation.at("questions"), 24);
}

}  // namespace
}  // namespace mneme::report
