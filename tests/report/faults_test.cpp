// What the checks of memories and learning curves do to verdict, tables and figures.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <tuple>

#include "host/base/file/file.hpp"
#include "host/report/comparison/load.hpp"
#include "host/report/differences/soundness.hpp"
#include "host/report/report.hpp"
#include "host/report/suite/suite_report.hpp"
#include "tests/base/temporary_folder.hpp"
#include "tests/report/fixture.hpp"

namespace mneme::report {
namespace {

using test::Fixture;
using testing::AllOf;
using testing::Contains;
using testing::Each;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

Report report_of(const Fixture& fixture) {
  const mneme::test::TemporaryFolder folder;
  test::write_comparison(folder.path(), fixture);
  return make_report(load({folder.path()}));
}

Fixture two_arms(const std::string& fault) {
  Fixture fixture;
  fixture.arms = {{.name = "none"}, {.name = "leaky", .shift = -1.0, .rows = 16, .fault = fault}};
  fixture.seeds = {1, 2};
  return fixture;
}

TEST(Faults, StandInVerdictTablesAndReport) {
  for (const auto& [fault, words, sentence] :
       {std::tuple("causality", "not causal", "leaky is not causal: "),
        std::tuple("reset", "keeps state over a reset", "leaky keeps state over a reset: "),
        std::tuple("lanes", "lanes touch", "leaky has lanes that touch: ")}) {
    SCOPED_TRACE(fault);
    const Report report = report_of(two_arms(fault));
    EXPECT_TRUE(has_faults(report.comparison));
    EXPECT_EQ(faults_of(report.comparison.arms[1]), words);
    EXPECT_EQ(report.differences.front().verdict, Verdict::kFaulty);
    const std::vector<std::string> verdict = sentences_of(report.verdict);
    EXPECT_THAT(verdict.front(), AllOf(StartsWith(sentence),
                                       HasSubstr("after training from seed 1, in evaluation")));
    EXPECT_THAT(verdict, Each(Not(HasSubstr("better"))));
    EXPECT_THAT(verdict, Each(Not(HasSubstr("p < 0.0001"))));
    EXPECT_THAT(verdict, Contains(HasSubstr("of 1 arm against none: 1 with a faulty memory.")));
    for (const std::string& tables :
         {write_sheets(report.sheets, Format::kText),
          write_sheets(report.sheets, Format::kMarkdown), report.latex()}) {
      EXPECT_THAT(tables, HasSubstr(words));
      EXPECT_THAT(tables, HasSubstr("leaky is faulty"));
    }
    const auto sheet = std::ranges::find(report.sheets, std::string("differences"), &Sheet::key);
    EXPECT_THAT(write_sheet(*sheet, Format::kCsv), HasSubstr(words));
    const Json json = report.json();
    EXPECT_EQ(json["differences"][0]["verdict"], words);
    EXPECT_EQ(json["arms"][1]["runs"][0]["checks"]["step"], 2000);
    const auto figure = std::ranges::find(report.figures, "difference-valid-loss", &Figure::key);
    ASSERT_NE(figure, report.figures.end());
    EXPECT_THAT(figure->spec.dump(), HasSubstr("faulty memory"));
  }
}

TEST(Faults, OfTheFirstArmMakeEveryDifferenceVoid) {
  Fixture fixture = two_arms("");
  fixture.arms[0] = {.name = "first", .rows = 8, .fault = "reset"};
  const Report report = report_of(fixture);
  EXPECT_EQ(verdict_word(report.differences.front()), "first: keeps state over a reset");
}

TEST(Faults, AreNotClaimedOfMemoriesThatPass) {
  const Report report = report_of(two_arms(""));
  EXPECT_FALSE(has_faults(report.comparison));
  EXPECT_EQ(report.differences.front().verdict, Verdict::kBetter);
  EXPECT_THAT(sentences_of(report.verdict), Each(Not(HasSubstr("checked"))));
}

TEST(Faults, OfAnArmThatWasNotCheckedAreSaidToBeUnknown) {
  Fixture fixture = two_arms("");
  fixture.has_checks = false;
  EXPECT_THAT(sentences_of(report_of(fixture).verdict),
              Contains(AllOf(HasSubstr("Not checked for causality, resets and lanes: none before "
                                       "training (no checks are stored), leaky before training"))));
  // Checks of weights that are not the last ones are none.
  const mneme::test::TemporaryFolder folder;
  test::write_comparison(folder.path(), two_arms(""));
  scores::RunChecks checks = scores::read_run_checks(folder / "leaky-seed2");
  checks.after->step = 1000;
  scores::write_run_checks(folder / "leaky-seed2", checks);
  EXPECT_THAT(sentences_of(make_report(load({folder.path()})).verdict),
              Contains(HasSubstr("lanes: leaky after training from seed 2 (no checks")));
}

TEST(Faults, AreReadFromRunFolders) {
  const mneme::test::TemporaryFolder folder;
  const Fixture fixture = two_arms("causality");
  for (const auto& arm : fixture.arms) test::write_run(folder / arm.name, fixture, arm, 1);
  const Report report = make_report(load({folder / "none", folder / "leaky"}));
  EXPECT_EQ(faults_of(report.comparison.arms[1]), "not causal");
}

// comparison.json alone holds the checks before the training.
TEST(Faults, OfRunsInTheFolderOfAComparisonAreReadFromIt) {
  const mneme::test::TemporaryFolder folder;
  test::write_comparison(folder.path(), two_arms(""));
  for (const char* const run : {"none-seed1", "leaky-seed1"}) {
    scores::RunChecks checks = scores::read_run_checks(folder / run);
    checks.before.reset();
    scores::write_run_checks(folder / run, checks);
  }
  const auto read = [&] { return load({folder / "none-seed1", folder / "leaky-seed1/"}); };
  const auto verdict = [&] { return sentences_of(make_report(read()).verdict); };
  EXPECT_THAT(verdict(), Each(Not(HasSubstr("checked"))));
  EXPECT_EQ(read().arms[1].training_flops, 3.16e6);
  const std::filesystem::path file = folder / "comparison.json";
  const std::string whole = read_file(file);
  Json json = Json::parse(whole);
  json["arms"][1]["checks"]["checks"][1]["result"] = "fails";
  write_file_atomic(file, json.dump());
  EXPECT_EQ(faults_of(read().arms[1]), "keeps state over a reset");
  // Of other plugins it says nothing; a damaged one neither.
  json["arms"][1]["plugins"][0]["sha256"] = "other";
  for (const std::string& text : {json.dump(), std::string("{"), std::string("{\"arms\": 3}")}) {
    write_file_atomic(file, text);
    EXPECT_EQ(faults_of(read().arms[1]), "");
    EXPECT_THAT(verdict(), Contains(HasSubstr("leaky before training (no checks are stored)")));
  }
}

TEST(Faults, StandBelowTheTableOfASuite) {
  const mneme::test::TemporaryFolder folder;
  Fixture fixture = two_arms("causality");
  fixture.data = test::Data::kSequence;
  test::write_comparison(folder / "task", fixture);
  const SuiteRecord record{
      .command = "",
      .file = "s.toml",
      .tasks = {{"task", "task", "accuracy"}, {"again", "task", "outside_accuracy"}}};
  const SuiteReport report = suite_report(folder.path(), record);
  EXPECT_THAT(report.sheets.front().notes,
              Contains("task: leaky is faulty (not causal): its numbers say nothing."));
  EXPECT_THAT(report.sheets.at(1).notes, Contains("leaky is left out: its memory is faulty."));
}

// --- Learning curves ---

TEST(LearningCurves, AreAFigure) {
  Fixture fixture = two_arms("");
  for (auto& arm : fixture.arms) arm.fall = 0.001;
  const Report report = report_of(fixture);
  const auto found = std::ranges::find(report.figures, "learning-curves", &Figure::key);
  ASSERT_NE(found, report.figures.end());
  EXPECT_THAT(found->caption, HasSubstr("The first 512 targets of valid"));
  EXPECT_THAT(found->caption, HasSubstr("means of 2 seeds"));
  EXPECT_EQ(report.json()["arms"][0]["runs"][0]["curve"].size(), 10U);
  EXPECT_TRUE(std::ranges::none_of(report_of(two_arms("")).figures, [](const Figure& figure) {
    return figure.key == "learning-curves";
  }));
}

TEST(LearningCurves, SayThatATrainingHadNotConverged) {
  Fixture fixture = two_arms("");
  fixture.arms[0].fall = 0.001;
  fixture.arms[1].fall = 0.2;  // the difference is 1
  const Report report = report_of(fixture);
  EXPECT_NEAR(last_fall(report.comparison.arms[1]), 0.2, 1e-9);
  EXPECT_THAT(sentences_of(report.verdict),
              Contains(HasSubstr("The training had not converged: over its last tenth the loss on "
                                 "held-out data still fell, of leaky by 0.2000 nats a token")));
  fixture.arms[1].fall = 0.09;
  EXPECT_THAT(sentences_of(report_of(fixture).verdict), Each(Not(HasSubstr("converged"))));
}

// Three points: the last tenth begins between two of them.
TEST(LearningCurves, FallAsALineBetweenTwoPoints) {
  Arm arm;
  EXPECT_TRUE(std::isnan(last_fall(arm)));
  report::Run& run = arm.runs.emplace_back();
  run.curve = {{.step = 40, .loss = 3.0}, {.step = 80, .loss = 2.0}, {.step = 100, .loss = 1.0}};
  EXPECT_NEAR(last_fall(arm), 0.5, 1e-12);
  run.curve = {{.step = 96, .loss = 2.0}, {.step = 100, .loss = 1.0}};  // as far as it is known
  EXPECT_NEAR(last_fall(arm), 1.0, 1e-12);
}

}  // namespace
}  // namespace mneme::report
