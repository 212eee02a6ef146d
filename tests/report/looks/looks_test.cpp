// What reports say of a comparison whose seeds were added until a difference was shown.
#include "host/report/looks/looks.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "host/report/bundle.hpp"
#include "host/report/pilot.hpp"
#include "host/scores/looks.hpp"
#include "host/stats/looks.hpp"
#include "tests/report/report_folders.hpp"

namespace mneme::report {
namespace {

namespace fs = std::filesystem;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

// Six seeds of at most twelve; cache, which is much better, ended after the fourth.
class LooksReport : public test::ReportFolders {
 protected:
  LooksReport() {
    small_.arms = {{.name = "none"},
                   {.name = "cache", .shift = -0.3, .rows = 16},
                   {.name = "window", .shift = -0.001, .rows = 32}};
    small_.seeds = {1, 2, 3, 4, 5, 6};
  }
  void SetUp() override { write(12); }

  void write(std::size_t max_seeds) const {
    fs::remove_all(folder("runs"));
    test::write_comparison(folder("runs"), small_);
    edit(record(), [&](Json& json) {
      json["command"] = "mneme compare x.toml --until-decided --max-seeds 12";
      json[scores::kLooksKey] =
          scores::to_json(scores::LookRecord{.max_seeds = max_seeds, .split = "valid"});
    });
    keep_seeds(1, 4);
  }
  // Leaves an arm the first of its runs.
  void keep_seeds(std::size_t arm, std::size_t seeds) const {
    edit(record(), [&](Json& json) {
      Json& runs = json["arms"][arm]["runs"];
      while (runs.size() > seeds) runs.erase(runs.size() - 1);
    });
  }
  [[nodiscard]] fs::path record() const { return folder("runs") / "comparison.json"; }
  [[nodiscard]] Comparison comparison() const { return load({folder("runs")}); }
  // The same runs as those of a fixed number of seeds.
  [[nodiscard]] Comparison fixed() const {
    Comparison out = comparison();
    out.looks.reset();
    return out;
  }
  [[nodiscard]] static std::string verdict(const Report& report) {
    return join(sentences_of(report.verdict), "\n");
  }
};

// Reference: the statistics of a fixed number of seeds.
TEST_F(LooksReport, PIsRepeatedAndIntervalsAreWider) {
  const stats::LookPlan plan(12);
  const std::vector<Difference> looked = differences(comparison(), 0.4);
  const std::vector<Difference> plain = differences(fixed(), 0.4);
  ASSERT_EQ(looked.size(), 2U);
  for (const std::size_t i : {0U, 1U}) {
    const std::size_t seeds = i == 0 ? 4 : 6;
    EXPECT_EQ(looked[i].seeds.size(), seeds);
    EXPECT_EQ(looked[i].mean, plain[i].mean);
    EXPECT_DOUBLE_EQ(looked[i].p, plan.repeated_p(seeds, plain[i].p));
    EXPECT_LT(looked[i].low, plain[i].low);
    EXPECT_GT(looked[i].high, plain[i].high);
    EXPECT_DOUBLE_EQ(looked[i].margin->p,
                     stats::repeated_one_sided_p(plan, seeds, plain[i].margin->p));
  }
  EXPECT_EQ(looked[0].verdict, Verdict::kBetter);
  EXPECT_EQ(looked[1].verdict, Verdict::kNoDifference);
}

TEST_F(LooksReport, ALookSeesTheFirstSeedsAlone) {
  const std::vector<Difference> look = look_differences(comparison(), 3);
  small_.seeds = {1, 2, 3};
  write(12);
  const std::vector<Difference> whole = differences(comparison());
  ASSERT_EQ(look.size(), whole.size());
  for (std::size_t i = 0; i < look.size(); ++i) {
    EXPECT_EQ(look[i].mean, whole[i].mean);
    EXPECT_EQ(look[i].low, whole[i].low);
    EXPECT_EQ(look[i].adjusted_p, whole[i].adjusted_p);
    EXPECT_THAT(look_words(comparison(), look[i]),
                HasSubstr(" at a level of 0.05 over all looks), "));
  }
  EXPECT_TRUE(look_differences(fixed(), 3).empty());
}

TEST_F(LooksReport, ShowsEveryLook) {
  const Report report = make_report(comparison());
  const Sheet& sheet = sheet_of(report, "looks");
  std::vector<std::string> rows;
  for (const std::vector<Cell>& row : sheet.rows)
    rows.push_back(str(row[0].text, ' ', row[2].text, ' ', row[1].text));
  EXPECT_THAT(rows, ElementsAre("cache 3 no difference shown", "window 3 no difference shown",
                                "cache 4 better", "window 4 no difference shown",
                                "window 5 no difference shown", "window 6 no difference shown"));
  const stats::LookPlan plan(12);
  EXPECT_DOUBLE_EQ(sheet.rows[0][8].value.get<double>(), plan.nominal_level(3, 0.05));
  ASSERT_EQ(sheet.records.rows.size(), 6U);
  EXPECT_EQ(sheet.records.columns.size(), sheet.records.rows[0].size());
  // The last look of each arm is what the table of differences has.
  const std::vector<Difference> all = differences(report.comparison);
  EXPECT_EQ(sheet.records.rows[2][4], all[0].mean);
  EXPECT_EQ(sheet.records.rows[5][8], all[1].adjusted_p);
  EXPECT_EQ(report.json().at("until_decided"),
            Json({{"max_seeds", 12}, {"first_look", 3}, {"split", "valid"}}));
  EXPECT_TRUE(make_report(fixed()).json().at("until_decided").is_null());
}

TEST_F(LooksReport, SaysHowSeedsWereAdded) {
  const Report report = make_report(comparison());
  const std::string text = verdict(report);
  EXPECT_THAT(text, HasSubstr("Seeds were added until the difference in loss on valid was decided, "
                              "12 at most, with a look after each from 3 on: every interval and p "
                              "here holds for looking early."));
  EXPECT_THAT(text, HasSubstr("cache was decided after 4 seeds."));
  EXPECT_THAT(text, HasSubstr("window was not decided by 6 seeds."));
  EXPECT_THAT(text, HasSubstr("would have been found at this look in 80 % of such experiments"));
  // Seeds that a decided arm lacks are no fault.
  EXPECT_THAT(notes_of(report.comparison), Not(HasSubstr("cache has no run")));
  const std::string note = "Intervals and p hold for looks after every seed from 3 to 12.";
  EXPECT_THAT(sheet_of(report, "differences").notes, Contains(HasSubstr(note)));
  EXPECT_THAT(report.latex(), HasSubstr(note));
  EXPECT_THAT(verdict(make_report(fixed())), Not(HasSubstr("look")));
}

TEST_F(LooksReport, WaitsForTheFirstLook) {
  keep_seeds(1, 2);
  const Difference one = differences(comparison()).front();
  EXPECT_EQ(one.verdict, Verdict::kUnknown);
  EXPECT_THAT(one.reasons, ElementsAre("2 seeds: the first look is at 3"));
  EXPECT_FALSE(is_decided(one));
  EXPECT_EQ(look_words(comparison(), one), "cache not compared (2 seeds: the first look is at 3)");
}

TEST_F(LooksReport, RefusesMoreSeedsThanWerePlanned) {
  write(5);
  EXPECT_THAT(differences(comparison()).back().reasons,
              ElementsAre("6 seeds: the looks were planned for at most 5"));
}

TEST_F(LooksReport, AFaultyMemoryGetsNoMoreSeeds) {
  small_.arms[1].fault = "causality";
  write(12);
  const std::vector<Difference> all = differences(comparison());
  EXPECT_EQ(all[0].verdict, Verdict::kFaulty);
  EXPECT_TRUE(is_decided(all[0]));
  EXPECT_THAT(verdict(make_report(comparison())),
              HasSubstr("cache got no more than 4 seeds: its difference says nothing."));
}

// Runs that are given one by one are those of the comparison in whose folder they lie.
TEST_F(LooksReport, KnowsThePlanOfRunFolders) {
  std::vector<fs::path> runs;
  for (const char* const arm : {"none", "cache"}) {
    for (const int seed : {1, 2, 3, 4}) runs.push_back(folder("runs") / str(arm, "-seed", seed));
  }
  const Comparison of_runs = load(runs);
  ASSERT_TRUE(of_runs.looks.has_value());
  EXPECT_EQ(of_runs.looks->plan.max_seeds(), 12U);
  EXPECT_EQ(differences(of_runs).front().low, differences(comparison()).front().low);
}

// A plan asks for variances, which looks do not change.
TEST_F(LooksReport, IsAPilotLikeAnother) {
  const PilotReport looked = read_pilot(comparison(), "", 0.0);
  const PilotReport plain = read_pilot(fixed(), "", 0.0);
  EXPECT_EQ(looked.json(), plain.json());
}

TEST_F(LooksReport, RefusesPlansThatItCannotRead) {
  const auto refused = [&](const Json& plan) {
    edit(record(), [&](Json& json) { json[scores::kLooksKey] = plan; });
    return refusal({folder("runs")}, ErrorKind::kRun);
  };
  const Json good = scores::to_json(scores::LookRecord{.max_seeds = 12, .split = "valid"});
  for (const auto& [key, value] :
       {std::pair("rule", Json("another")), std::pair("max_seeds", Json(-3)),
        std::pair("max_seeds", Json("12")), std::pair("split", Json())}) {
    Json plan = good;
    plan[key] = value;
    EXPECT_THAT(refused(plan), HasSubstr("comparison.json: until_decided: is no plan of looks that "
                                         "this program can read"))
        << key;
  }
  EXPECT_THAT(refused(3), HasSubstr("is no plan of looks"));
  Json plan = good;
  plan["max_seeds"] = 2;
  EXPECT_THAT(refused(plan), HasSubstr("expected 3 to 50, got 2"));
}

// Error rates of one plan are not those of runs that were added by another.
TEST_F(LooksReport, LeavesOutRunsOfAnotherPlan) {
  fs::copy(folder("runs"), folder("others"), fs::copy_options::recursive);
  edit(folder("others") / "comparison.json",
       [](Json& json) { json[scores::kLooksKey]["max_seeds"] = 8; });
  const Comparison mixed = load({folder("runs") / "none-seed1", folder("runs") / "cache-seed1",
                                 folder("others") / "none-seed2", folder("runs") / "none-seed2"});
  ASSERT_TRUE(mixed.looks);
  EXPECT_EQ(mixed.looks->plan.max_seeds(), 12U);
  EXPECT_THAT(mixed.notes,
              Contains(HasSubstr("comparison.json: its seeds were added by another plan than those "
                                 "of the runs before: expected at most 12 seeds, looks at valid, "
                                 "got at most 8, looks at valid; give the runs of each comparison "
                                 "by themselves")));
  EXPECT_EQ(mixed.seeds.size(), 2U);
}

TEST_F(LooksReport, IsVerifiedWithItsPlan) {
  const fs::path file = folder("a.tar");
  write_bundle(file, {folder("runs")}, {});
  EXPECT_EQ(join(verify_bundle(file).findings, "\n"), "");
  // A report as if the number of seeds had been fixed.
  edit(record(), [](Json& json) { json.erase(scores::kLooksKey); });
  write_bundle(file, {folder("runs")}, {});
  EXPECT_THAT(join(verify_bundle(file).findings, "\n"),
              HasSubstr("runs/comparison.json: its command adds seeds until a difference is shown, "
                        "but it does not say by which plan"));
}

}  // namespace
}  // namespace mneme::report
