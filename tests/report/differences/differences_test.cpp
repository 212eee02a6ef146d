// What is said of differences: how many arms count, what could have been found, what was left out.
#include "host/report/differences/differences.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>

#include "host/base/file/file.hpp"
#include "host/report/comparison/load.hpp"
#include "host/report/latex/paper.hpp"
#include "host/report/report.hpp"
#include "host/stats/paired.hpp"
#include "tests/report/report_folders.hpp"

namespace mneme::report {
namespace {

namespace fs = std::filesystem;
using test::Data;
using test::Fixture;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

class Differences : public test::ReportFolders {
 protected:
  Differences() : ReportFolders({.seeds = {1}, .documents = 12, .targets = 32}) {}

  [[nodiscard]] Report read() const { return make_report(load({runs_})); }
  void edit_record(const std::function<void(Json&)>& change) const {
    edit(runs_ / "comparison.json", change);
  }
  void fail(std::size_t arm, std::size_t run) const {
    edit_record([&](Json& json) { json["arms"][arm]["runs"][run]["state"] = "failed"; });
  }
  // Evaluates the second arm's only seed again, on other data.
  void evaluate_again(const Fixture& fixture) const {
    fs::remove_all(runs_ / "xl_cache-seed1");
    test::write_run(runs_ / "xl_cache-seed1", fixture, fixture.arms[1], 1);
  }
  static std::string sentence_of(const Report& report, std::size_t i) {
    return sentence(report.comparison, report.differences.at(i));
  }

  const fs::path runs_ = folder("runs");
};

TEST_F(Differences, EqualLossesSayNothingOfWhatCouldBeFound) {
  small_.arms = {{.name = "none"}, {.name = "twin"}};
  small_.seeds = {1, 2};
  const Report report = of(small_);
  EXPECT_TRUE(std::isnan(report.differences.front().detectable));
  EXPECT_EQ(sentence_of(report, 0),
            "twin and none have equal losses on valid, in every document: 12 documents, 2 seeds.");
  EXPECT_THAT(figure_of(report, "difference-valid-loss")->caption,
              HasSubstr("the arms gave equal numbers"));
}

TEST_F(Differences, WhatCouldBeFoundCountsHolmsCorrection) {
  const Report three = of(small_);
  EXPECT_EQ(three.differences[1].family_size, 2u);
  EXPECT_THAT(sheet_of(three, "differences").notes.back(), HasSubstr("with Holm's correction"));
  Fixture two = small_;
  two.arms.erase(two.arms.begin() + 1);
  const Report alone = of(two);
  EXPECT_EQ(alone.comparison.arms[1].name, three.comparison.arms[2].name);
  EXPECT_EQ(alone.differences[0].family_size, 1u);
  EXPECT_EQ(alone.differences[0].p, three.differences[1].p);
  EXPECT_GT(three.differences[1].detectable, 1.05 * alone.differences[0].detectable);
  EXPECT_THAT(sheet_of(alone, "differences").notes.back(), Not(HasSubstr("Holm's correction")));
  const double detectable = alone.differences[0].detectable;
  EXPECT_THAT(sentence_of(alone, 0),
              HasSubstr(str(" A true difference of ", format_number(detectable, 4),
                            " nats a token (", format_number(100 * std::expm1(detectable), 1),
                            " % of the perplexity) would have been found in 80 % of such ")));
}

TEST_F(Differences, TheJsonHasWhatTheNumbersComeFrom) {
  small_.seeds = {1, 2};
  const Report report = of(small_);
  const Json json = report.json().at("differences").at(0);
  const Json& statistics = json.at("statistics");
  const auto by_seed = statistics.at("seed_differences").get<std::vector<double>>();
  ASSERT_THAT(by_seed, SizeIs(2));
  EXPECT_NE(by_seed[0], by_seed[1]);
  EXPECT_NEAR((by_seed[0] + by_seed[1]) / 2, json.at("difference").get<double>(), 1e-12);
  EXPECT_NEAR(statistics.at("effective_units").get<double>(), 12.0, 1e-9);  // equal documents
  EXPECT_TRUE(statistics.at("exact_p").get<bool>());                        // 2^12 sign flips
  EXPECT_TRUE(statistics.at("covers_seeds").get<bool>());
  EXPECT_GT(statistics.at("standard_error").get<double>(), 0.0);
  EXPECT_GT(statistics.at("variance").at("units").get<double>(), 0.0);
  EXPECT_TRUE(statistics.at("block_autocorrelation").is_null());

  small_.data = Data::kLanes;
  const Json blocks = of(small_).json().at("differences").at(0).at("statistics");
  EXPECT_LT(std::abs(blocks.at("block_autocorrelation").get<double>()), 1.0);
}

// The first arm is better in every second lane throughout, so that no block is long enough.
TEST_F(Differences, CorrelatedBlocksAreSaidWhereverIntervalsStand) {
  small_.data = Data::kLanes;
  Comparison comparison = comparison_of(small_);
  const Report before = make_report(comparison);
  EXPECT_FALSE(before.differences[0].are_blocks_correlated);
  std::vector<LaneLosses>& lanes = comparison.arms[1].runs[0].evaluations[0].lanes;
  for (std::size_t lane = 0; lane < lanes.size(); ++lane) {
    for (double& nll : lanes[lane].nll) nll += lane % 2 == 0 ? 1.0 : -1.0;
  }
  const Report report = make_report(std::move(comparison));
  EXPECT_TRUE(report.differences[0].are_blocks_correlated);
  const std::string words =
      str("ifferences are correlated over more than ", report.differences[0].block,
          " targets, the longest blocks that could be tried: the interval is too narrow and p too "
          "small.");
  EXPECT_THAT(sentence_of(report, 0), HasSubstr(" D" + words));
  EXPECT_THAT(sentence_of(report, 1), Not(HasSubstr(words)));
  const std::string caption = paper_table(report.comparison, report.differences, "valid").caption;
  EXPECT_THAT(caption, HasSubstr(" xl_cache: D" + words));
  EXPECT_THAT(figure_of(report, "difference-valid-loss")->caption,
              EndsWith(" xl_cache: D" + words));
  const auto correlated = [](const Report& of, std::size_t i) {
    return of.json().at("differences").at(i).at("statistics").at("blocks_correlated");
  };
  EXPECT_EQ(correlated(report, 0), true);
  EXPECT_EQ(correlated(report, 1), false);
  for (const std::string& text : {sentence_of(before, 0), before.latex(),
                                  figure_of(before, "difference-valid-loss")->caption})
    EXPECT_THAT(text, Not(HasSubstr("too narrow")));
}

TEST_F(Differences, SmallNumbersAreNeverZeroInAnyFormat) {
  EXPECT_EQ(positive_text(0.00009), "<0.0001");
  EXPECT_EQ(positive_text(0.0001), "0.0001");
  EXPECT_EQ(positive_text(0.0004, 3), "<0.001");
  EXPECT_EQ(positive_text(1.0), "1.0000");
  EXPECT_EQ(positive_text(std::numeric_limits<double>::infinity()), "inf");
  // 20,000 sign flips, none of which is as large.
  small_.documents = 24;
  const Report report = of(small_);
  ASSERT_LT(report.differences[0].p, 0.0001);
  EXPECT_EQ(sheet_of(report, "differences").rows[0][5].text, "<0.0001");
  EXPECT_EQ(sheet_of(report, "differences").rows[0][5].value, report.differences[0].p);
  EXPECT_THAT(report.markdown(), HasSubstr("| &lt;0.0001 |"));
  EXPECT_THAT(report.latex(), HasSubstr("\\textless{}0.0001"));
  EXPECT_THAT(figure_of(report, "difference-valid-loss")->spec["data"]["values"][0]["p_text"],
              "<0.0001");
  Difference one = report.differences[0];
  one.adjusted_p = 0.00009;
  EXPECT_THAT(sentence(report.comparison, one), HasSubstr(", p < 0.0001 after"));
}

// A page of 1,280 pixels cuts the last columns off.
TEST(SignedNumbers, HaveTwoDigitsThatCountWhereAllWouldBeZero) {
  EXPECT_EQ(signed_number(0.1234), "+0.1234");
  EXPECT_EQ(signed_number(-0.00006), "-0.0001");
  EXPECT_EQ(signed_number(-1.96e-5), "-0.000020");
  EXPECT_EQ(signed_number(3.14e-4, 3), "+0.00031");
  EXPECT_EQ(signed_number(0.0), "0.0000");
  EXPECT_EQ(signed_number(1e-17), "+0.0000");
}

TEST_F(Differences, TheVerdictStandsBehindTheName) {
  const Report report = of(small_);
  EXPECT_EQ(sheet_of(report, "differences").headings[1], "verdict");
  EXPECT_EQ(sheet_of(report, "differences").rows[0][1].text,
            verdict_word(report.differences.front()));
  EXPECT_THAT(page(report, ""), HasSubstr("valid loss</th>\n<td class=\"better\">better</td>"));
  EXPECT_THAT(report.text(0), ::testing::ContainsRegex("xl_cache: valid loss +better +-0"));
  EXPECT_THAT(report.markdown(), HasSubstr("| xl\\_cache: valid loss | better | -0"));
  EXPECT_THAT(write_sheet(sheet_of(report, "differences"), Format::kCsv),
              ::testing::StartsWith("arm,baseline,split,measure,difference,low,high,p,"));
}

// Reference: the p value of the samples' losses, paired here by their order.
double margin_p_of(const Comparison& comparison, std::size_t arm, double margin) {
  const std::vector<Sample>& baseline = comparison.arms[0].runs[0].evaluations[0].samples;
  const std::vector<Sample>& other = comparison.arms[arm].runs[0].evaluations[0].samples;
  stats::PairedDifferences paired{.sums = {{}}, .targets = {}};
  for (std::size_t i = 0; i < baseline.size(); ++i) {
    paired.sums[0].push_back(other[i].sums.nll - baseline[i].sums.nll);
    paired.targets.push_back(static_cast<double>(baseline[i].sums.targets));
  }
  return stats::margin_p(paired, margin);
}

TEST_F(Differences, LossesAreHeldAgainstAMargin) {
  const Comparison comparison = comparison_of(small_);
  const Report report = make_report(comparison, /*has_pairs=*/true, 0.25);
  const Difference& cache = report.differences[0];
  const Difference& compressive = report.differences[1];
  ASSERT_TRUE(cache.margin && compressive.margin);
  EXPECT_NEAR(cache.margin->p, margin_p_of(comparison, 1, 0.25), 1e-12);
  EXPECT_NEAR(compressive.margin->p, margin_p_of(comparison, 2, 0.25), 1e-12);
  const double largest = std::max(cache.margin->p, compressive.margin->p);
  EXPECT_NEAR(compressive.margin->adjusted_p,
              std::max(largest, 2 * std::min(cache.margin->p, compressive.margin->p)), 1e-12);
  EXPECT_TRUE(compressive.margin->is_shown);
  EXPECT_THAT(
      sentence_of(report, 1),
      HasSubstr(str(" compressive is not worse by more than the margin of 0.25 nats a token "
                    "(one-sided p = ",
                    format_number(compressive.margin->adjusted_p, 4),
                    " after Holm's correction over 2 arms, interval up to ",
                    signed_number(compressive.high), ").")));
  const Sheet& table = sheet_of(report, "margin");
  EXPECT_EQ(table.rows[1][1].text, "not worse by more than 0.25");
  EXPECT_EQ(write_sheet(table, Format::kCsv).find("arm,baseline,split,margin,difference,high,p,"),
            0u);
  const Json json = report.json().at("differences").at(1).at("margin");
  EXPECT_EQ(json.at("shown"), true);
  EXPECT_EQ(json.at("margin"), 0.25);
  EXPECT_EQ(json.at("p"), compressive.margin->p);
  EXPECT_THAT(report.latex(), HasSubstr("Losses against the margin"));
  EXPECT_THAT(page(report, ""), HasSubstr("id=\"table-margin\""));
  for (const Difference& pair : report.pairs) EXPECT_FALSE(pair.margin);
}

TEST_F(Differences, AMarginBelowTheIntervalIsNotShown) {
  const Comparison comparison = comparison_of(small_);
  const double high = make_report(comparison).differences[1].high;
  ASSERT_GT(high, 0.0);  // no difference is shown
  const double margin = 0.9 * high;
  const Report report = make_report(comparison, /*has_pairs=*/false, margin);
  EXPECT_FALSE(report.differences[1].margin->is_shown);
  EXPECT_THAT(sentence_of(report, 1),
              HasSubstr(str(" That compressive is not worse by more than the margin of ",
                            margin_text(margin), " nats a token is not shown (one-sided p = ")));
  EXPECT_EQ(sheet_of(report, "margin").rows[1][1].text,
            "not shown: not worse by more than " + margin_text(margin));
}

TEST_F(Differences, AMarginIsOfSoundLossesAlone) {
  const Report without = of(small_);
  EXPECT_TRUE(std::ranges::none_of(without.sheets,
                                   [](const Sheet& sheet) { return sheet.key == "margin"; }));
  EXPECT_FALSE(without.json().at("differences").at(0).contains("margin"));
  small_.data = Data::kSequence;  // which have accuracies too
  small_.arms[1].fault = "causality";
  const Report report = make_report(comparison_of(small_), /*has_pairs=*/false, 0.25);
  std::size_t tested = 0;
  for (const Difference& one : report.differences) {
    EXPECT_EQ(one.margin.has_value(), one.measure == Measure::kLoss && one.arm == 2);
    tested += one.margin ? 1 : 0;
  }
  EXPECT_EQ(tested, 1u);
  EXPECT_EQ(margin_text(0.005), "0.005");
  EXPECT_EQ(margin_text(0.0005), "0.0005");
  EXPECT_EQ(margin_text(2), "2.0");
}

TEST_F(Differences, EqualNotesAreSaidOnce) {
  small_.documents = 8;
  const Report report = make_report(comparison_of(small_), /*has_pairs=*/true);
  const auto notes_about = [](const std::vector<std::string>& notes, const std::string& word) {
    return std::ranges::count_if(
        notes, [&](const std::string& note) { return note.find(word) != note.npos; });
  };
  for (const char* const key : {"differences", "pairs"}) {
    const std::vector<std::string>& notes = sheet_of(report, key).notes;
    EXPECT_EQ(notes_about(notes, "fewer than 10 documents: blocks"), 1) << key;
    EXPECT_EQ(notes_about(notes, "all rows: fewer than 10"), 1) << key;
  }
  std::vector<Difference> all = report.pairs;
  for (Difference& one : all) one.reasons = {"equal; what to do"};
  all[0].reasons.emplace_back("other");
  all[2].reasons.clear();
  EXPECT_THAT(
      reason_notes(report.comparison, all, true),
      ElementsAre("xl_cache against none, compressive against none (valid loss): equal; what "
                  "to do",
                  "xl_cache against none (valid loss): other"));
  EXPECT_THAT(reason_notes(report.comparison, all, false),
              ElementsAre("xl_cache, compressive (valid loss): equal; what to do",
                          "xl_cache (valid loss): other"));
  EXPECT_THAT(report.latex(), HasSubstr("all rows: fewer than 10 documents"));
}

TEST_F(Differences, NotesOfBlocksSayWhyAndNoMoreThanIsKnown) {
  Difference one{.unit = "block", .units = 32, .block = 1024, .longest_block = 1024};
  EXPECT_EQ(units_text(one), "32 blocks of 1024 targets");
  one.longest_block = 1100;
  one.are_blocks_equal = false;
  EXPECT_EQ(units_text(one), "32 blocks of up to 1100 targets");
  EXPECT_EQ(blocks_note({Difference{.unit = "document", .units = 12}}), "");
  EXPECT_EQ(blocks_note({one}),
            "The data have no documents: the units are blocks so long that the differences of "
            "neighbouring blocks are not correlated.");
  Difference other = one;
  other.has_few_documents = other.are_blocks_correlated = true;
  EXPECT_EQ(blocks_note({other}),
            "The data have fewer than 10 documents: the units are blocks, the longest that could "
            "be tried; neighbouring ones are still correlated.");
  EXPECT_THAT(
      blocks_note({one, other}),
      AllOf(HasSubstr("Where there are no or fewer than 10 documents, units are blocks so "),
            EndsWith("are not correlated, unless a note says otherwise.")));

  small_.documents = 9;  // of a text: one lane of 9 * 45 targets, no multiple of two
  small_.targets = 45;
  const Report report = of(small_);
  EXPECT_FALSE(report.differences[0].are_blocks_equal);
  EXPECT_THAT(units_text(report.differences[0]), HasSubstr("blocks of up to "));
  EXPECT_THAT(sheet_of(report, "differences").notes.back(),
              ::testing::StartsWith("The data have fewer than 10 documents: "));
  small_.documents = 12;
  EXPECT_THAT(sheet_of(of(small_), "differences").notes,
              Not(::testing::Contains(HasSubstr("documents: the units"))));
}

TEST_F(Differences, SixUnitsCannotShowOneOfTwoArms) {
  small_.data = Data::kSequence;
  small_.documents = 6;
  const Report report = of(small_);
  EXPECT_EQ(report.differences[0].detectable, std::numeric_limits<double>::infinity());
  EXPECT_THAT(sentence_of(report, 0),
              HasSubstr("No difference, however large, could have been shown after Holm's "
                        "correction over 2 arms with 6 sequences."));
  EXPECT_THAT(figure_of(report, "difference-valid-loss")->caption, HasSubstr("none can be found"));
  // With one arm to compare, six units can.
  small_.arms.resize(2);
  EXPECT_TRUE(std::isfinite(of(small_).differences[0].detectable));
}

// A question is right or wrong as a whole; its losses are those of its tokens.
TEST_F(Differences, OfQuestionsAreSharesOfThem) {
  small_.data = Data::kQuestion;
  small_.seeds = {1};
  const Report report = of(small_);
  const auto& accuracy = report.differences.at(small_.arms.size() - 1);
  ASSERT_EQ(accuracy.measure, Measure::kAccuracy);
  EXPECT_EQ(accuracy.unit, "question");
  EXPECT_EQ(accuracy.targets, small_.documents);
  EXPECT_EQ(report.differences[0].targets, small_.documents * small_.targets);
  const EvaluationSummary& first = report.comparison.arms[0].runs[0].evaluations[0];
  EXPECT_DOUBLE_EQ(accuracy.baseline_mean, first.accuracy());
  EXPECT_EQ(first.total.questions, small_.documents);
  EXPECT_GT(first.accuracy(), 0.0);
  EXPECT_LT(first.accuracy(), 1.0);
}

// The mean stays, and is that of fewer independent units.
TEST_F(Differences, QuestionsOfAUnitCountOnce) {
  small_.data = Data::kQuestion;
  small_.seeds = {1};
  const Report alone = of(small_);
  small_.unit_questions = 2;
  const Report pairs = of(small_);
  ASSERT_EQ(pairs.differences.size(), alone.differences.size());
  for (std::size_t i = 0; i < pairs.differences.size(); ++i) {
    EXPECT_EQ(alone.differences[i].units, small_.documents);
    EXPECT_EQ(pairs.differences[i].units, small_.documents / 2);
    EXPECT_EQ(pairs.differences[i].targets, alone.differences[i].targets);
    EXPECT_NEAR(pairs.differences[i].mean, alone.differences[i].mean, 1e-12);
  }
  EXPECT_EQ(pairs.comparison.arms[0].runs[0].evaluations[0].total.questions, small_.documents);
}

// Of a run whose every token is right in one seed, and wrong in the other.
TEST_F(Differences, NoAccuraciesDifferByMoreThanOne) {
  small_.data = Data::kSequence;
  small_.seeds = {1, 2};
  small_.arms.resize(2);
  test::write_comparison(runs_, small_);
  Comparison comparison = read().comparison;
  for (auto& run : comparison.arms[1].runs) {
    for (Sample& sample : run.evaluations.front().samples) {
      sample.sums.correct = run.seed == 1 ? sample.sums.targets : 0;
    }
  }
  const Report report = make_report(std::move(comparison));
  const auto& accuracy = report.differences.at(1);
  ASSERT_EQ(accuracy.measure, Measure::kAccuracy);
  EXPECT_GT(accuracy.statistics.value().smallest_detectable, 1.0);
  EXPECT_EQ(accuracy.detectable, std::numeric_limits<double>::infinity());
  EXPECT_THAT(sentence_of(report, 1), EndsWith("Not even a true difference of 1 would have been "
                                               "found in 80 % of such experiments."));
}

TEST_F(Differences, ArmsWithoutAResultAreNotCorrectedFor) {
  test::write_comparison(runs_, small_);
  fail(1, 0);
  const Report report = read();
  EXPECT_EQ(report.differences[0].verdict, Verdict::kUnknown);
  EXPECT_EQ(report.differences[1].family_size, 1u);
  EXPECT_EQ(report.differences[1].adjusted_p, report.differences[1].p);
  EXPECT_THAT(sentence_of(report, 1), Not(HasSubstr("Holm")));
}

TEST_F(Differences, OneSeedOfAnArmSpeaksOfTwoModelsOnly) {
  small_.seeds = {1, 2};
  test::write_comparison(runs_, small_);
  const auto caption = [&] { return figure_of(read(), "difference-valid-loss")->caption; };
  EXPECT_THAT(caption(), HasSubstr("over documents and seeds. "));
  fail(1, 1);
  const Report report = read();
  EXPECT_THAT(sentence_of(report, 0),
              EndsWith(" One seed: this holds for these two trained models only."));
  EXPECT_THAT(sentence_of(report, 1), Not(HasSubstr("One seed")));
  EXPECT_THAT(sheet_of(report, "differences").notes.back(),
              HasSubstr("over units and seeds, lengthened by a bootstrap where units are skewed; "
                        "with one seed over units alone"));
  EXPECT_THAT(caption(), HasSubstr("and seeds, of arms with one seed over documents alone. "));
  fail(2, 1);
  EXPECT_THAT(sheet_of(read(), "differences").notes.back(),
              AllOf(HasSubstr("Intervals: t intervals over units, "),
                    HasSubstr("p: sign flips of units. "), Not(HasSubstr("seed"))));
  EXPECT_THAT(caption(), HasSubstr("over documents. "));
}

TEST_F(Differences, OneSeedOfAllArmsIsSaidOnceBehindThem) {
  const std::vector<std::string> verdict = sentences_of(of(small_).verdict);
  EXPECT_THAT(verdict, Contains("One seed: all of this holds for these trained models only."));
  EXPECT_THAT(verdict, Not(Contains(HasSubstr("One seed: this holds"))));
}

TEST_F(Differences, PairsHaveSentencesOfTheArmsAgainstEachOther) {
  const auto words = [&](bool has_pairs) {
    return join(sentences_of(make_report(comparison_of(small_), has_pairs).verdict), "\n");
  };
  const std::string pair =
      "On valid by loss, of 1 pair of other arms: 1 worse.\ncompressive has a "
      "higher loss than xl_cache on valid: +";
  EXPECT_THAT(words(true),
              AllOf(HasSubstr(pair), HasSubstr(" after Holm's correction over 3 pairs;"),
                    HasSubstr("On valid by loss, of 2 arms against none: "),
                    HasSubstr(" after Holm's correction over 2 arms;")));
  EXPECT_THAT(words(false), Not(HasSubstr("pair")));
}

TEST_F(Differences, WhatEitherArmLacksIsLeftOut) {
  test::write_comparison(runs_, small_);
  Fixture longer = small_;
  longer.documents = 13;
  evaluate_again(longer);
  EXPECT_THAT(read().differences[0].reason(),
              EndsWith("1 document was left out, which not every evaluation has with equal "
                       "targets"));
  longer.documents = 15;
  evaluate_again(longer);
  EXPECT_THAT(read().differences[0].reason(), HasSubstr("3 documents were left out, "));
  small_.data = longer.data = test::Data::kLanes;
  test::write_comparison(runs_, small_);
  longer.targets = 40;
  evaluate_again(longer);
  EXPECT_THAT(read().differences[0].reason(), HasSubstr("no lane in common"));
}

TEST_F(Differences, MeansOverOtherTargetsAreNotSubtracted) {
  small_.seeds = {1, 2};
  test::write_comparison(runs_, small_);
  const auto against = [](const Report& report, std::size_t arm) {
    return sheet_of(report, "results").rows[0][3 + arm];  // of the loss
  };
  const Report before = read();
  EXPECT_NE(against(before, 1).text, "-");
  Fixture longer = small_;
  longer.documents = 15;
  evaluate_again(longer);
  const Report after = read();
  // The seed of which both read the same is left.
  EXPECT_THAT(against_baseline(metrics(after.comparison).front(), 1, 0),
              ElementsAre(::testing::IsNan(), ::testing::Not(::testing::IsNan())));
  fail(1, 1);
  const Report one = read();
  EXPECT_EQ(against(one, 1).text, "-");
  EXPECT_TRUE(against(one, 1).value.is_null());
  EXPECT_EQ(against(one, 2).text, against(before, 2).text);
  EXPECT_THAT(sheet_of(one, "results").notes, ::testing::Contains(HasSubstr("read other targets")));
  EXPECT_THAT(sheet_of(before, "results").notes,
              Not(::testing::Contains(HasSubstr("read other targets"))));
  for (const char* key : {"place-valid-difference", "frequency-valid-difference"}) {
    const std::string spec = figure_of(one, key)->spec.at("data").dump();
    EXPECT_THAT(spec, AllOf(HasSubstr("compressive"), Not(HasSubstr("xl_cache")))) << key;
  }
  EXPECT_THAT(figure_of(one, "place-valid")->spec.at("data").dump(), HasSubstr("xl_cache"));
}

TEST_F(Differences, PlacesOfOtherSegmentsAreNotSubtracted) {
  small_.arms.resize(2);
  test::write_comparison(runs_, small_);
  EXPECT_NE(figure_of(read(), "place-valid-difference"), nullptr);
  Fixture other = small_;
  other.segment = 8;
  evaluate_again(other);
  const Report report = read();
  EXPECT_NE(figure_of(report, "place-valid"), nullptr);
  EXPECT_EQ(figure_of(report, "place-valid-difference"), nullptr);
  EXPECT_NE(figure_of(report, "distance-valid-difference"), nullptr);
}

TEST_F(Differences, StateThatIsNotKnownIsNoCost) {
  small_.arms = {{.name = "a", .rows = 16}, {.name = "b", .rows = 16}, {.name = "c", .rows = 16}};
  test::write_comparison(runs_, small_);
  EXPECT_EQ(budget_warning(read().comparison), "");
  fail(2, 0);
  EXPECT_EQ(budget_warning(read().comparison), "");
  edit_record([](Json& json) { json["arms"][1]["memory_parameters"] = 1'234'567; });
  EXPECT_THAT(budget_warning(read().comparison), HasSubstr("parameters 120,160 to 1,354,567. "));
}

TEST_F(Differences, LongNumbersOfTablesHaveGroupsOfThreeDigits) {
  const Report report = of(small_);
  EXPECT_THAT(report.text(0), HasSubstr("120,000"));
  EXPECT_THAT(write_sheet(sheet_of(report, "results"), Format::kCsv), HasSubstr(",120000"));
  EXPECT_EQ(grouped_number(999.0), "999");
  EXPECT_EQ(grouped_number(1000.0), "1,000");
  EXPECT_EQ(grouped_number(-123456.4), "-123,456");
  EXPECT_EQ(grouped_number(-12345678.0), "-12,345,678");
  EXPECT_EQ(grouped_number(std::numeric_limits<double>::infinity()), "inf");
}

TEST_F(Differences, ATaskOfAnotherTypeIsNotKnown) {
  const Report report = of(small_);
  Comparison comparison = report.comparison;
  EXPECT_TRUE(is_text(comparison));
  comparison.data["task"] = 3;
  EXPECT_EQ(task_of(comparison), "");
  EXPECT_FALSE(is_text(comparison) || is_generated(comparison));
  comparison.data["task"] = "motif";
  EXPECT_TRUE(is_generated(comparison));
}

TEST_F(Differences, ChanceIsThatOfTheTask) {
  Comparison comparison;
  const auto of = [&](Json data) {
    comparison.data = std::move(data);
    return chance(comparison);
  };
  EXPECT_EQ(of({{"task", "motif"}, {"alphabet", 16}}), 1.0 / 16);
  EXPECT_EQ(of({{"task", "needle"}, {"vocabulary_size", 33}, {"alphabet", 32}}), 1.0 / 32);
  for (const char* task : {"mqar", "in_context_recall", "memorization"}) {
    EXPECT_EQ(of({{"task", task}, {"keys", 32}, {"values", 64}}), 1.0 / 64) << task;
  }
  EXPECT_EQ(of({{"task", "ngrams"}, {"vocabulary_size", 4}, {"alphabet", 4}}), 1.0 / 4);
  const Json tracking = {{"task", "state_tracking"}, {"vocabulary_size", 6}};
  EXPECT_EQ(of(tracking), 1.0 / 6);
  Json brackets = tracking;
  brackets["automaton"] = "brackets";
  EXPECT_EQ(of(brackets), 0.0);
  EXPECT_EQ(of({{"task", "sorting"}, {"alphabet", 20}}), 0.0);
  EXPECT_EQ(of({{"task", "copy"}}), 0.0) << "its alphabet is not stored";
}

TEST_F(Differences, SpreadIsOverKnownNumbers) {
  const double unknown = std::numeric_limits<double>::quiet_NaN();
  const Spread two = spread({1.0, unknown, 2.0});
  EXPECT_EQ(two.mean, 1.5);
  EXPECT_NEAR(two.deviation, std::sqrt(0.5), 1e-15);
  EXPECT_EQ(two.count, 2);
  EXPECT_EQ(spread({3.0}).deviation, 0.0);
  EXPECT_EQ(spread({unknown}).count, 0);
  EXPECT_EQ(spread({1.0, std::numeric_limits<double>::infinity()}).mean,
            std::numeric_limits<double>::infinity());
}

}  // namespace
}  // namespace mneme::report
