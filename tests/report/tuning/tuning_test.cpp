// What reports say of tuned arms and of their trials.
#include "host/report/tuning/tuning.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "host/report/bundle.hpp"
#include "host/report/pilot.hpp"
#include "host/report/setup/baseline.hpp"
#include "tests/report/report_folders.hpp"

namespace mneme::report {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

// Rates that were tried, in the order of FixtureArm::shift of a trial.
const std::vector<std::string> kRates = {"0.001", "0.003", "0.01"};

// Two arms, each with a tuned form, and three trials of each: none takes the rate in the middle, cache
// the highest one.
class TunedReport : public test::ReportFolders {
 protected:
  TunedReport() {
    small_.split = "test";
    small_.arms = {{.name = "none"},
                   {.name = "cache", .shift = -0.3, .rows = 16},
                   {.name = "none,tuned", .shift = -0.3, .train = "lr = 0.003\n"},
                   {.name = "cache,tuned", .shift = -0.8, .rows = 16, .train = "lr = 0.01\n"}};
    trials_ = small_;
    trials_.split = "valid";
    trials_.seeds = {1001};
    trials_.arms.clear();
    add_trials("none", 0, {0.0, -0.3, 0.3});
    add_trials("cache", 16, {0.3, 0.0, -0.5});
  }
  void SetUp() override { write(); }

  void add_trials(const std::string& arm, std::int64_t rows, const std::vector<double>& shifts) {
    for (std::size_t i = 0; i < kRates.size(); ++i) {
      trials_.arms.push_back({.name = str(arm, ",lr=", kRates[i]),
                              .shift = shifts[i],
                              .rows = rows,
                              .train = str("lr = ", kRates[i], '\n')});
    }
  }
  void write() const {
    fs::remove_all(folder("runs"));
    test::write_comparison(folder("runs"), small_);
    test::write_comparison(folder("runs") / "tuning", trials_);
    edit(folder("runs") / "comparison.json", [](Json& json) {
      json["tuning"] = {
          {"folder", "tuning"},
          {"keys", {{{"key", "train.lr"}, {"values", "0.001,0.003,0.01"}, {"together", false}}}}};
      for (Json& arm : json["arms"]) {
        const auto name = arm["name"].get<std::string>();
        if (!name.ends_with(",tuned")) continue;
        arm["variant_of"] = name.substr(0, name.find(','));
        arm["overrides"] = {name.starts_with("none") ? "train.lr=0.003" : "train.lr=0.01"};
      }
    });
    edit(trial_record(), [](Json& json) {
      for (Json& arm : json["arms"]) {
        const auto name = arm["name"].get<std::string>();
        arm["variant_of"] = name.substr(0, name.find(','));
        arm["overrides"] = {"train." + name.substr(name.find(',') + 1)};
      }
    });
  }
  [[nodiscard]] fs::path trial_record() const {
    return folder("runs") / "tuning" / "comparison.json";
  }
  void swap_folders(const std::string& a, const std::string& b) const {
    const fs::path trials = folder("runs") / "tuning", aside = folder("aside");
    fs::rename(trials / a, aside);
    fs::rename(trials / b, trials / a);
    fs::rename(aside, trials / b);
  }
  // Lets trials fail, by their places.
  void fail(const std::vector<std::size_t>& places) const {
    edit(trial_record(), [&](Json& json) {
      for (const std::size_t place : places) {
        Json& run = json["arms"][place]["runs"][0];
        run["folder"] = "";  // as one that could not be made
        run["state"] = "failed";
        run["error"] = {{"message", str("refused in /home/someone/", place)}};
      }
    });
  }
  // Leaves an arm out, as one without a choice.
  void erase_arm(const std::string& name) const {
    edit(folder("runs") / "comparison.json", [&](Json& json) {
      Json kept = Json::array();
      for (const Json& arm : json["arms"]) {
        if (arm["name"] != name) kept.push_back(arm);
      }
      json["arms"] = kept;
    });
  }
  [[nodiscard]] Report report() const { return make_report(load({folder("runs")})); }
  [[nodiscard]] static std::string verdict(const Report& report) {
    return join(sentences_of(report.verdict), "\n");
  }

  test::Fixture trials_;
};

TEST_F(TunedReport, ComparesTunedArmsWithTheTunedBaseline) {
  const Report result = report();
  ASSERT_EQ(result.differences.size(), 2U);
  EXPECT_EQ(result.differences[0].arm, 1U);
  EXPECT_EQ(result.differences[0].baseline, 0U);
  EXPECT_EQ(result.differences[1].arm, 3U);
  EXPECT_EQ(result.differences[1].baseline, 2U);
  EXPECT_NEAR(result.differences[1].mean, -0.5, 0.05);
  EXPECT_EQ(result.differences[1].family_size, 1U);  // each family has a correction of its own
  EXPECT_THAT(verdict(result), HasSubstr("On test by loss, of 1 arm against none: 1 better."));
  EXPECT_THAT(verdict(result),
              HasSubstr("On test by loss, of 1 arm against none,tuned: 1 better."));
  EXPECT_THAT(sheet_of(result, "results").headings,
              ElementsAre("", "none", "cache", "none,tuned", "cache,tuned", "cache against none",
                          "cache,tuned against none,tuned"));
  EXPECT_EQ(sheet_of(result, "differences").title,
            "Differences to none (tuned arms: to none,tuned)");
  EXPECT_THAT(sheet_of(result, "differences").notes,
              Contains(HasSubstr("arm minus its baseline, on equal targets")));
  for (const std::vector<Json>& row : sheet_of(result, "results").records.rows) {
    if (row[1] != "loss") continue;
    EXPECT_EQ(row[6], row[2] == "cache,tuned" ? Json("none,tuned")
                      : row[2] == "cache"     ? Json("none")
                                              : Json());
  }
}

// Reference: the differences of the report, whose families have one arm each.
TEST_F(TunedReport, IsPlannedInTheFamiliesOfTheReport) {
  const Report result = report();
  const PilotReport plan = read_pilot(result.comparison, "", 0.0);
  ASSERT_EQ(plan.arms.size(), result.differences.size());
  for (std::size_t i = 0; i < plan.arms.size(); ++i) {
    const Difference& one = result.differences[i];
    EXPECT_EQ(plan.arms[i].name, result.comparison.arms[one.arm].name);
    EXPECT_EQ(plan.arms[i].baseline, result.comparison.arms[one.baseline].name);
    EXPECT_EQ(plan.arms[i].family, one.family_size);
    const stats::PilotPlan own(*one.statistics, {.arms = one.family_size});
    EXPECT_DOUBLE_EQ(plan.arms[i].detectable[1],
                     own.detectable(plan.extents[1].seeds, plan.extents[1].units));
  }
  EXPECT_THAT(plan.text(), AllOf(HasSubstr("of an arm that is truly lower than its baseline, none "
                                           "(1 arm) or none,tuned (1 arm). 80 % is the mean"),
                                 HasSubstr("evaluations, without trials. Checks, "),
                                 Not(HasSubstr("Holm")), Not(HasSubstr("--split test"))));
  const Json arm = plan.json().at("arms").at(1);
  EXPECT_EQ(arm.at("baseline"), "none,tuned");
  EXPECT_EQ(arm.at("family"), 1);
}

TEST_F(TunedReport, IsPlannedWithTheCorrectionOfEachFamily) {
  small_.split = "valid";
  small_.arms.insert(small_.arms.begin() + 2, {.name = "other", .shift = 0.1, .rows = 32});
  write();
  const PilotReport plan = read_pilot(load({folder("runs")}), "", 0.0);
  EXPECT_THAT(plan.text(),
              AllOf(HasSubstr("than its baseline, none (2 arms, with Holm's correction over these) "
                              "or none,tuned (1 arm)."),
                    HasSubstr("chosen on valid: their differences on test count")));
}

// Of 40 seconds of training and 1.5 of evaluation each.
TEST_F(TunedReport, IsPlannedWithoutRunsThatTwoArmsShare) {
  EXPECT_NEAR(read_pilot(load({folder("runs")}), "", 0.0).seconds({1, 12}), 4 * 41.5, 1e-6);
  edit(folder("runs") / "comparison.json",
       [](Json& json) { json["arms"][2]["runs"] = json["arms"][0]["runs"]; });
  EXPECT_NEAR(read_pilot(load({folder("runs")}), "", 0.0).seconds({1, 12}), 3 * 41.5, 1e-6);
}

TEST_F(TunedReport, OfOneMemorySaysWhyNothingIsCompared) {
  erase_arm("cache");
  erase_arm("cache,tuned");
  const Report result = report();
  EXPECT_TRUE(result.differences.empty());
  EXPECT_THAT(verdict(result),
              AllOf(HasSubstr("No arm is compared: arms as they are stand against"),
                    HasSubstr("none took train.lr = 0.003"), Not(HasSubstr("No losses"))));
  const Report paired = make_report(load({folder("runs")}), /*has_pairs=*/true);
  EXPECT_THAT(verdict(paired), AllOf(HasSubstr("On test by loss, of 1 pair of other arms: "),
                                     Not(HasSubstr("No arm is compared"))));
  try {
    static_cast<void>(read_pilot(result.comparison, "", 0.0));
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    EXPECT_THAT(error.what(), HasSubstr("expected a second arm as it is, or a second tuned one, "
                                        "got one of each kind"));
  }
}

TEST_F(TunedReport, ComparesWithAnotherBaselineTunedOrNot) {
  Comparison comparison = load({folder("runs")});
  set_baseline(comparison, "cache,tuned");
  const Report result = make_report(std::move(comparison));
  ASSERT_EQ(result.differences.size(), 2U);
  EXPECT_THAT(verdict(result), HasSubstr("of 1 arm against cache,tuned: 1 worse."));
  EXPECT_THAT(verdict(result), HasSubstr("of 1 arm against cache: 1 worse."));
  EXPECT_EQ(baseline_words(result.comparison), "cache,tuned (arms as they are: to cache)");
}

TEST_F(TunedReport, SaysWhatWasChosenAndWhatLiesAtTheBorder) {
  const std::string text = verdict(report());
  EXPECT_THAT(text, HasSubstr("Tuned: every arm had 3 trials of train.lr (0.001,0.003,0.01), with "
                              "seed 1001, and took the values of the lowest loss on valid."));
  EXPECT_THAT(text, HasSubstr("none took train.lr = 0.003, with a loss of "));
  EXPECT_THAT(text, HasSubstr("Border: cache took the highest value of train.lr that was tried, "
                              "0.01. A better one may lie beyond: its tuning is not done until "
                              "higher values were tried."));
  EXPECT_THAT(text, Not(HasSubstr("Border: none")));
  EXPECT_THAT(text, HasSubstr("Values were chosen on valid: between tuned arms the difference on "
                              "test counts, which no choice has seen."));
}

TEST_F(TunedReport, SaysWhichTunedArmsHaveTheRunsOfTheirArms) {
  small_.arms[0].train = small_.arms[2].train;
  write();
  EXPECT_THAT(verdict(report()), Not(HasSubstr("own values")));
  edit(folder("runs") / "comparison.json",
       [](Json& json) { json["arms"][2]["runs"] = json["arms"][0]["runs"]; });
  const Report result = report();
  EXPECT_THAT(verdict(result), HasSubstr(" on valid. These are its own values: the runs of "
                                         "none,tuned are those of none."));
  EXPECT_EQ(result.json().at("tuning").at("arms").at(0).at("shares_runs"), true);
  EXPECT_EQ(result.json().at("tuning").at("arms").at(1).at("shares_runs"), false);
  // Of 40 seconds each, with an evaluation of 1.5.
  EXPECT_THAT(result.text(0),
              HasSubstr("4.0 minutes in all (6 runs, a processor, cpu); training of "
                        "the trials 4.0 minutes; stored evaluations 9.0 seconds;"));
  const fs::path file = folder("a.tar");
  write_bundle(file, {folder("runs")}, {});
  const Verification verified = verify_bundle(file);
  EXPECT_EQ(join(verified.findings, "\n"), "");
  EXPECT_EQ(verified.runs, 6U + 6U);
}

TEST_F(TunedReport, ShowsEveryTrial) {
  const Report result = report();
  const Sheet& sheet = sheet_of(result, "trials");
  EXPECT_THAT(sheet.headings, ElementsAre("arm", "train.lr", "valid loss", ""));
  ASSERT_EQ(sheet.rows.size(), 6U);
  EXPECT_EQ(sheet.rows[1][1].text, "0.003");
  EXPECT_EQ(sheet.rows[1][3].text, "taken");
  EXPECT_EQ(sheet.rows[5][3].text, "taken");
  EXPECT_EQ(sheet.rows[0][3].text, "");
  // The loss is that of the stored losses.
  const Comparison trials = load({folder("runs") / "tuning"});
  EXPECT_DOUBLE_EQ(sheet.rows[4][2].value.get<double>(),
                   trials.arms[4].runs[0].find("valid")->loss());
  EXPECT_THAT(sheet.records.columns,
              ElementsAre("arm", "trial", "train.lr", "loss", "is_chosen", "error"));
  EXPECT_EQ(sheet.records.rows[5][4], "yes");
  EXPECT_THAT(write_sheet(sheet, Format::kCsv), HasSubstr("cache,\"cache,lr=0.01\",0.01,"));

  const Json tuning = result.json().at("tuning");
  EXPECT_EQ(tuning.at("keys").at(0).at("key"), "train.lr");
  EXPECT_EQ(tuning.at("seeds"), Json::array({1001}));
  EXPECT_EQ(tuning.at("arms").at(0).at("chosen"), "none,lr=0.003");
  EXPECT_EQ(tuning.at("arms").at(1).at("borders").at(0).at("side"), "highest");
  EXPECT_EQ(tuning.at("arms").at(1).at("trials").size(), 3U);
  EXPECT_THAT(result.latex(), HasSubstr("tab:mneme-trials"));
}

TEST_F(TunedReport, NamesTrialsThatFailed) {
  fail({2});
  const Report result = report();
  const Sheet& sheet = sheet_of(result, "trials");
  EXPECT_EQ(sheet.rows[2][3].text, "failed");
  EXPECT_EQ(sheet.rows[2][2].text, "-");
  EXPECT_THAT(sheet.notes, Contains("none,lr=0.01: refused in 2"));  // no folder of a machine
  EXPECT_THAT(verdict(result), HasSubstr("on valid; 1 of its 3 trials failed."));
  EXPECT_TRUE(result.json().at("tuning").at("arms").at(0).at("trials").at(2).at("loss").is_null());
}

// Of each arm two trials go on from step 1000 to 2000.
class HalvedReport : public TunedReport {
 protected:
  void SetUp() override {
    write();
    edit(folder("runs") / "comparison.json", [](Json& json) {
      json["tuning"]["rungs"] = {{{"trials", 3}, {"steps", 1000}},
                                 {{"trials", 2}, {"steps", 2000}}};
    });
    for (std::size_t i = 0; i < trials_.arms.size(); ++i) {
      test::FixtureArm arm = trials_.arms[i];
      if (i == 1) arm.shift = 0.1;  // not the lowest yet
      test::write_run(run_of(i), trials_, arm, 1001, 0.0, 1000);
      if (i == 2 || i == 3) fs::remove_all(run_of(i) / "evaluations/valid-step00002000-0123abcd");
    }
  }
  [[nodiscard]] fs::path run_of(std::size_t place) const {
    return folder("runs") / "tuning" / test::run_name(trials_.arms[place], 1001);
  }
};

TEST_F(HalvedReport, ShowsTheLastRungOfEachTrial) {
  const Report result = report();
  const Sheet& sheet = sheet_of(result, "trials");
  EXPECT_THAT(sheet.headings, ElementsAre("arm", "train.lr", "steps", "valid loss", ""));
  std::vector<std::string> steps, words;
  for (const std::vector<Cell>& row : sheet.rows) {
    steps.push_back(row[2].text);
    words.push_back(row[4].text);
  }
  EXPECT_THAT(steps, ElementsAre("2000", "2000", "1000", "1000", "2000", "2000"));
  EXPECT_THAT(words, ElementsAre("", "taken", "", "", "", "taken"));
  EXPECT_THAT(sheet.notes, Contains(HasSubstr("those after different numbers of steps cannot be")));
  EXPECT_THAT(
      verdict(result),
      HasSubstr("Tuned: every arm had 3 trials of train.lr (0.001,0.003,0.01) by successive "
                "halving (3 for 1000 steps, 2 for 2000), with seed 1001, and took"));
  EXPECT_THAT(verdict(result),
              ContainsRegex("none took train.lr = 0.003, with a loss of [0-9.]+ on "
                            "valid after 2000 steps"));
  const Json tuning = result.json().at("tuning");
  EXPECT_EQ(tuning.at("rungs").at(1).at("steps"), 2000);
  EXPECT_EQ(tuning.at("arms").at(0).at("trials").at(2).at("steps"), 1000);
  EXPECT_THAT(notes_of(result.comparison), Not(HasSubstr("has other values than")));
}

// Such values need not be the best of whole trainings, of 2000 steps.
TEST_F(HalvedReport, SaysThatValuesWereChosenEarly) {
  const std::string reason = "values were chosen after 1000 of 2000 steps";
  EXPECT_THAT(verdict(report()), Not(HasSubstr("Values were chosen after")));
  EXPECT_THAT(report().differences[1].reasons, Not(Contains(reason)));
  edit(folder("runs") / "comparison.json", [](Json& json) {
    json["tuning"]["rungs"] = {{{"trials", 3}, {"steps", 1000}}};
  });
  const Report result = report();
  EXPECT_THAT(verdict(result), ContainsRegex("cache took train.lr = 0.01, with a loss of [0-9.]+ "
                                             "on valid after 1000 of 2000 steps"));
  EXPECT_THAT(verdict(result),
              HasSubstr("Values were chosen after 1000 of 2000 steps, where trials were compared: "
                        "other values may be the best of whole trainings."));
  EXPECT_THAT(result.differences[1].reasons, Contains(reason));
  EXPECT_THAT(result.differences[0].reasons, Not(Contains(reason)));
  EXPECT_THAT(sheet_of(result, "differences").notes,
              Contains(HasSubstr("cache,tuned (test loss): " + reason)));
}

// The rungs are made anew from the stored losses: a trial that had to go on is found.
TEST_F(HalvedReport, FindsATrialThatWasLeftOut) {
  test::FixtureArm arm = trials_.arms[2];
  arm.shift = -5.0;
  test::write_run(run_of(2), trials_, arm, 1001, 0.0, 1000);
  const Report result = report();
  EXPECT_THAT(sheet_of(result, "trials").notes,
              Contains("none,lr=0.01: it has no stored losses on valid after 2000 steps"));
  EXPECT_EQ(sheet_of(result, "trials").rows[2][4].text, "failed");
}

TEST_F(HalvedReport, IsVerifiedWithItsRungs) {
  const fs::path file = folder("a.tar");
  write_bundle(file, {folder("runs")}, {});
  const Verification result = verify_bundle(file);
  EXPECT_EQ(join(result.findings, "\n"), "");
  EXPECT_EQ(result.evaluations, 8U + 10U);
}

TEST_F(TunedReport, NamesAnArmOfWhichAllTrialsFailed) {
  fail({3, 4, 5});
  erase_arm("cache,tuned");
  const std::string text = verdict(report());
  EXPECT_THAT(text, HasSubstr("cache is not tuned: all 3 trials failed. The first: refused in 3."));
  EXPECT_THAT(text, HasSubstr("of 1 arm against none: 1 better."));
}

TEST_F(TunedReport, DoesNotCompareATunedArmWithoutATunedBaseline) {
  fail({0, 1, 2});
  erase_arm("none,tuned");
  const Report result = report();
  EXPECT_EQ(result.differences.size(), 1U);
  EXPECT_THAT(verdict(result),
              HasSubstr("cache,tuned is not compared: the baseline none has no tuned form."));
}

TEST_F(TunedReport, FindsValuesThatTheTrialsDoNotChoose) {
  edit(folder("runs") / "comparison.json",
       [](Json& json) { json["arms"][3]["overrides"] = {"train.lr=0.001"}; });
  EXPECT_THAT(report().comparison.notes,
              Contains("cache,tuned has other values than cache,lr=0.01, which the trials choose"));
  fail({0, 1, 2});
  EXPECT_THAT(report().comparison.notes,
              Contains("none,tuned has values, though no trial of none can be taken"));
  write();
  erase_arm("cache,tuned");
  EXPECT_THAT(report().comparison.notes,
              Contains("cache has no tuned form, though its trials choose one"));
}

TEST_F(TunedReport, SaysWhereTrialsCannotBeRead) {
  fs::remove_all(folder("runs") / "tuning");
  const Comparison comparison = load({folder("runs")});
  EXPECT_FALSE(comparison.tuning.has_value());
  EXPECT_THAT(comparison.notes, Contains(HasSubstr("the trials of tuned arms were left out: ")));
  edit(folder("runs") / "comparison.json", [](Json& json) { json["tuning"] = {{"keys", 3}}; });
  EXPECT_THAT(refusal({folder("runs")}, ErrorKind::kRun), HasSubstr("is damaged"));
}

// The units of valid are those of the choice.
TEST_F(TunedReport, SaysThatDifferencesOnTheSplitOfTheChoiceDoNotCount) {
  const std::string reason = "values were chosen on this split: the test split counts";
  EXPECT_THAT(report().differences[1].reasons, Not(Contains(reason)));
  small_.split = "valid";
  write();
  const Report result = report();
  EXPECT_THAT(result.differences[1].reasons, Contains(reason));
  EXPECT_THAT(result.differences[0].reasons, Not(Contains(reason)));
}

TEST_F(TunedReport, IsVerifiedWithItsTrials) {
  fail({2});
  const fs::path file = folder("a.tar");
  write_bundle(file, {folder("runs")}, {});
  const Verification result = verify_bundle(file);
  EXPECT_EQ(join(result.findings, "\n"), "");
  EXPECT_EQ(result.runs, 8U + 5U);

  // Trials are held against their record like other runs.
  const auto findings = [&] {
    write_bundle(file, {folder("runs")}, {});
    return join(verify_bundle(file).findings, "\n");
  };
  edit(trial_record(), [](Json& json) { json["arms"][5]["runs"][0]["seed"] = 1002; });
  EXPECT_THAT(findings(),
              HasSubstr("runs/tuning/cache,lr=0.01-seed1001: has another train.seed than the arm "
                        "cache,lr=0.01 of comparison.json"));
  write();
  swap_folders("cache,lr=0.001-seed1001", "cache,lr=0.01-seed1001");
  EXPECT_THAT(findings(),
              HasSubstr("runs/tuning/cache,lr=0.001-seed1001: has another train.lr than the arm "
                        "cache,lr=0.001 of comparison.json"));
  write();
  swap_folders("cache,lr=0.001-seed1001/evaluations", "cache,lr=0.01-seed1001/evaluations");
  EXPECT_THAT(findings(), AllOf(HasSubstr("runs/tuning/cache,lr=0.001-seed1001/evaluations/valid-"),
                                HasSubstr(": is of another train.lr than its run")));
}

}  // namespace
}  // namespace mneme::report
