#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "host/compare/tuning/trials.hpp"
#include "host/config/keys.hpp"
#include "host/memory/abi/groups.hpp"
#include "tests/base/temporary_folder.hpp"
#include "tests/base/tiny_motif.hpp"

namespace mneme::compare {
namespace {

using test::error_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string parse_error(const std::string& word) {
  return error_of([&] { static_cast<void>(parse_tune(word, false)); });
}

TEST(Tunes, AreListsOrRanges) {
  const Tune list = parse_tune("tier.0.rows=8,16", true);
  EXPECT_EQ(list.key.key, "memory.tier.0.rows");
  EXPECT_EQ(list.key.values, "8,16");
  EXPECT_TRUE(list.key.is_together);
  EXPECT_THAT(list.values, ElementsAre("8", "16"));
  const Tune range = parse_tune("train.lr=log:1e-4:1e-2", false);
  EXPECT_THAT(range.values, IsEmpty());
  EXPECT_TRUE(range.range.is_log);
  EXPECT_FALSE(range.range.is_integer);
  EXPECT_EQ(range.range.low, 1e-4);
  EXPECT_EQ(range.range.high, 1e-2);
  EXPECT_TRUE(parse_tune("tier.0.rows=linear:-4:64", false).range.is_integer);
}

TEST(Tunes, AreRefusedWhereNothingCanBeChosen) {
  EXPECT_THAT(parse_error("train.lr=1e-3"),
              HasSubstr("2: --tune train.lr=1e-3: there is one value: nothing can be chosen"));
  EXPECT_THAT(parse_error("train.lr=1,1"), HasSubstr("--tune train.lr=1,1: the value 1 stands"));
  EXPECT_THAT(parse_error("train.lr"), HasSubstr("2: --tune train.lr: expected KEY=VALUE"));
  EXPECT_THAT(error_of([] { static_cast<void>(parse_tune("lr=1,2", true)); }),
              HasSubstr("2: --tune-together lr=1,2: no table has the key lr"));
}

TEST(Tunes, AreRefusedWithARangeThatIsNone) {
  for (const char* const range :
       {"log:1", "log:1:", "log:2:1", "log:0:1", "log:a:1", "log:1:nan"}) {
    EXPECT_THAT(
        parse_error(str("train.lr=", range)),
        HasSubstr(str("2: --tune train.lr=", range,
                      ": is no range of numbers: expected log:LOW:HIGH with 0 < LOW < HIGH, "
                      "got ",
                      range)));
  }
  EXPECT_THAT(parse_error("train.lr=linear:1:1"), HasSubstr("expected linear:LOW:HIGH with LOW <"));
}

TEST(Tunes, AreRefusedOfKeysThatChangeWhatALossIsOf) {
  EXPECT_EQ(parse_error("data.period_max=8,16"),
            "2: --tune data.period_max=8,16: data.period_max cannot be tuned: losses on other data "
            "cannot be compared: expected a key of [memory], [model] or [train]");
  EXPECT_THAT(parse_error("eval.steps=1,2"), HasSubstr("losses on other data"));
  EXPECT_THAT(parse_error("train.seed=1,2"), HasSubstr("trials have a seed of their own"));
}

std::vector<Tune> tunes_of(const std::vector<std::string>& words) {
  std::vector<Tune> out;
  for (const std::string& word : words) out.push_back(parse_tune(word, false));
  return out;
}

TEST(Combinations, AreAllWithoutANumber) {
  EXPECT_THAT(combinations(tunes_of({"train.lr=1,2", "tier.0.rows=8,9"}), std::nullopt, 1),
              ElementsAre(ElementsAre("1", "8"), ElementsAre("1", "9"), ElementsAre("2", "8"),
                          ElementsAre("2", "9")));
}

TEST(Combinations, AreDrawnBySeedAndKey) {
  const std::vector<Tune> tunes = tunes_of({"train.lr=log:1e-4:1e-2", "tier.0.rows=linear:8:64"});
  const auto drawn = combinations(tunes, 20, 7);
  ASSERT_EQ(drawn.size(), 20U);
  EXPECT_EQ(drawn, combinations(tunes, 20, 7));
  EXPECT_NE(drawn, combinations(tunes, 20, 8));
  const auto fewer = combinations({tunes.front()}, 5, 7);  // more trials or keys change no draw
  for (std::size_t i = 0; i < fewer.size(); ++i) EXPECT_EQ(fewer[i][0], drawn[i][0]);
  for (const auto& point : drawn) {
    EXPECT_TRUE(std::stod(point[0]) >= 1e-4 && std::stod(point[0]) <= 1e-2) << point[0];
    EXPECT_LE(point[0].size(), 8U) << point[0];  // three digits
    EXPECT_EQ(point[1], str(std::stoll(point[1])));
  }
}

// Against the definition: a logarithm, and each integer, is uniform.
TEST(Combinations, AreUniform) {
  const auto rates = combinations(tunes_of({"train.lr=log:1e-4:1e-2"}), 400, 3);
  std::int64_t below = 0;
  for (const auto& point : rates) below += std::log10(std::stod(point[0])) < -3.0 ? 1 : 0;
  EXPECT_NEAR(static_cast<double>(below) / 400, 0.5, 4 * 0.5 / std::sqrt(400));
  std::vector<int> counts(5);
  for (std::uint64_t seed = 0; seed < 1000; ++seed) {
    const auto one = combinations(tunes_of({"tier.0.rows=linear:1:5"}), 2, seed);
    ++counts.at(static_cast<std::size_t>(std::stoll(one[0][0]) - 1));
  }
  for (const int count : counts) EXPECT_NEAR(count, 200, 4 * std::sqrt(160));
}

TEST(Combinations, AreDifferent) {
  const auto all = combinations(tunes_of({"tier.0.rows=linear:1:5"}), 5, 1);
  EXPECT_EQ(std::set(all.begin(), all.end()).size(), 5U);
  EXPECT_EQ(
      error_of([] { static_cast<void>(combinations(tunes_of({"tier.0.rows=linear:1:5"}), 6, 1)); }),
      "2: --tune-trials 6: there are fewer combinations of values: expected at most 5; leave "
      "--tune-trials out to try all values of lists, or widen a range");
}

TEST(Combinations, AreRefusedWithoutANumberAndOfAKeyTwice) {
  EXPECT_EQ(error_of([] {
              static_cast<void>(combinations(tunes_of({"train.lr=log:1:2"}), std::nullopt, 1));
            }),
            "2: --tune train.lr=log:1:2: values are drawn from a range, and their number is not "
            "given: expected --tune-trials N");
  EXPECT_THAT(error_of([] {
                static_cast<void>(
                    combinations(tunes_of({"train.lr=1,2", "train.lr=3,4"}), std::nullopt, 1));
              }),
              HasSubstr("--tune train.lr: the key is given twice"));
  std::vector<std::string> words;
  for (const char* key : {"a", "b", "c", "d", "e"}) {
    words.push_back(str("train.", key, "=1,2,3,4,5,6,7,8,9,10"));
  }
  EXPECT_THAT(error_of([&] { static_cast<void>(combinations(tunes_of(words), std::nullopt, 1)); }),
              HasSubstr("there are too many combinations of values: expected at most 10000"));
}

class TunedArmsOf : public ::testing::Test {
 protected:
  TunedArmsOf() : loader_(memory::make_loader()) {
    none_ = folder_.write("none.toml", "[memory]\n").string();
    cache_ =
        folder_
            .write("cache.toml", str("[memory]\nplugins = [\"", MNEME_PLUGIN_DIR,
                                     "\"]\n[[memory.tier]]\nplugin = \"xl_cache\"\nrows = 16\n"))
            .string();
    source_.experiment = folder_.write("tiny.toml", test::tiny_experiment());
  }

  // Trials of arms, whose words are those of --memory.
  std::vector<ArmSetup> trials(const std::vector<std::string>& words,
                               const std::vector<Tune>& tunes) {
    std::vector<ArmRequest> requests;
    for (const std::string& word : words) requests.push_back(parse_arm(word));
    arms_ = read_arms(source_.experiment, requests, {}, {}, loader_);
    return read_trials(arms_, tunes, combinations(tunes, std::nullopt, 1), source_, loader_);
  }
  std::string refusal(const std::vector<std::string>& words, const std::vector<Tune>& tunes) {
    return error_of([&] { static_cast<void>(trials(words, tunes)); });
  }

  test::TemporaryFolder folder_;
  plugin::PluginLoader loader_;
  std::string none_, cache_;
  ArmSource source_;
  std::vector<ArmSetup> arms_;
};

TEST_F(TunedArmsOf, AreTriedWithEachValueFromSeedsOfTheirOwn) {
  const auto all = trials({none_, cache_ + ",tier.0.rows=8"}, tunes_of({"train.lr=1e-3,2e-3"}));
  ASSERT_EQ(all.size(), 4U);
  EXPECT_EQ(all[1].name, "none,lr=2e-3");
  EXPECT_EQ(all[1].variant_of, "none");
  EXPECT_EQ(all[3].name, "cache,rows=8,lr=2e-3");
  EXPECT_THAT(all[3].settings, ElementsAre("memory.tier.0.rows=8", "train.lr=2e-3"));
  EXPECT_EQ(all[3].experiment.train.lr, 2e-3);
  EXPECT_EQ(all[3].experiment.memory.tiers.at(0).options.find("rows")->as_integer(), 8);
  EXPECT_EQ(all[3].experiment.train.seed, arms_[1].experiment.train.seed + 1000);
}

// One that a memory refuses, and one that no experiment takes.
TEST_F(TunedArmsOf, KeepValuesThatAreRefusedWithTheReason) {
  const auto rows = trials({cache_}, tunes_of({"tier.0.rows=-3,8"}));
  EXPECT_THAT(rows[0].refused, HasSubstr("rows"));
  EXPECT_THAT(rows[0].refused, HasSubstr("-3"));
  EXPECT_EQ(rows[1].refused, "");
  const auto rates = trials({none_}, tunes_of({"train.lr=-1,1e-3"}));
  EXPECT_THAT(rates[0].refused, HasSubstr("--tune train.lr: expected a real number"));
  EXPECT_EQ(rates[0].experiment.train.lr, arms_[0].experiment.train.lr);
}

// Before anything is trained.
TEST_F(TunedArmsOf, AreRefusedWithAValueOfAnotherType) {
  const std::vector<std::array<std::string, 3>> cases = {
      {"train.lr=1e-3,abc", "a real number above 0", "\"abc\" (a string)"},
      {"train.steps=3,1.5", "an integer in [", "1.5"},
      {"train.betas=[0.9,0.99],0.9", "a list, each a real number", "0.9"},
      {"train.schedule=cosine,3", "\"cosine\" | \"linear\"", "3"},
      {"model.same_length=true,1", "true or false", "1"},
      {"tier.0.rows=8,many", "an integer in [", "\"many\" (a string)"},
      {"tier.0.eval_rows=8,1.5", "an integer in [", "1.5"},
      {"tier.0.lr=1e-3,[1]", "a real number", "an array"}};
  for (const auto& [word, expected, got] : cases) {
    const std::string text = refusal({cache_}, tunes_of({word}));
    EXPECT_THAT(text, HasSubstr(str(": expected ", expected)));
    EXPECT_THAT(text, ::testing::EndsWith(str(", got ", got)));
    EXPECT_THAT(text, HasSubstr("2: --tune "));
  }
  EXPECT_THAT(refusal({none_, cache_}, {parse_tune("train.lr=a,1", true)}),
              HasSubstr("2: --tune-together train.lr=a,1: expected a real number above 0, got"));
  // Every key has a type that is known.
  for (const config::TableInfo& table : config::experiment_keys()) {
    for (const config::KeyInfo& key : table.keys) {
      EXPECT_THAT(key.type, ::testing::ContainsRegex("^(an integer|a real number|true or false$|a "
                                                     "list|tables$|a table$|a string$|a path$|\")"))
          << table.path() << '.' << key.key;
    }
  }
}

TEST_F(TunedArmsOf, AreRefusedWithAKeyThatNoArmHas) {
  EXPECT_THAT(refusal({none_, cache_}, tunes_of({"tier.0.row=8,16"})),
              HasSubstr("2: --tune memory.tier.0.row: no arm has this key: expected an option of"));
}

TEST_F(TunedArmsOf, GetEqualNumbersOfTrials) {
  EXPECT_EQ(
      refusal({none_, cache_}, tunes_of({"train.lr=1e-3,2e-3", "tier.0.rows=8,16"})),
      "2: --tune: arms would get different numbers of trials, and the one with more would "
      "have the better chance: expected keys that all arms have, such as train.lr, or as many "
      "values for each arm, got none: 2, cache: 4");
}

TEST_F(TunedArmsOf, ShareKeysThatAllHave) {
  EXPECT_EQ(
      refusal({cache_, none_}, {parse_tune("tier.0.rows=8,16", true)}),
      "2: --tune-together memory.tier.0.rows: the arm none has no such key: expected a key "
      "that all arms have, such as train.lr; --tune memory.tier.0.rows gives each arm a value "
      "of its own");
}

TEST_F(TunedArmsOf, AreRefusedWithAKeyThatTheirSettingsGive) {
  EXPECT_EQ(refusal({cache_ + ",tier.0.rows=8"}, tunes_of({"tier.0.rows=8,16"})),
            "2: cache,rows=8: --tune chooses memory.tier.0.rows, which a --sweep, --equal or a "
            "setting of the arm gives, too: expected one of the two, got memory.tier.0.rows=8");
}

TEST_F(TunedArmsOf, HaveTheChosenValues) {
  const auto all = trials({cache_}, tunes_of({"tier.0.rows=8,24"}));
  const scores::Trial chosen{.settings = all[1].settings, .loss = 1.0};
  const ArmSetup tuned = tuned_arm(arms_[0], &chosen, source_);
  EXPECT_EQ(tuned.name, "cache,tuned");
  EXPECT_EQ(tuned.variant_of, "cache");
  EXPECT_EQ(tuned.experiment.memory.tiers.at(0).options.find("rows")->as_integer(), 24);
  EXPECT_EQ(tuned.experiment.train.seed, arms_[0].experiment.train.seed);
}

// The learning rate 1e-3 is the arm's own, and 2e-3 is not.
TEST_F(TunedArmsOf, HaveTheRunsOfArmsWhoseValuesTheyTook) {
  source_.overrides = {config::parse_override("train.lr=1e-3")};
  const auto all = trials({none_}, tunes_of({"train.lr=1.0e-3,2e-3"}));
  const ArmSetup own =
      read_arms(source_.experiment, {parse_arm(none_)}, source_.overrides, {}, loader_).front();
  std::vector<ArmSetup> setups{own};
  for (const ArmSetup& trial : all) {
    const scores::Trial chosen{.settings = trial.settings, .loss = 1.0};
    setups.push_back(tuned_arm(own, &chosen, source_));
    setups.back().name = trial.name;
  }
  Record record = prepare(
      setups, {.folder = folder_ / "runs", .purpose = Purpose::kTuned, .seeds = 2}, loader_);
  share_equal_runs(record);
  EXPECT_EQ(record.arms[1].runs_of, "none");
  EXPECT_EQ(record.arms[2].runs_of, "");
  EXPECT_EQ(record.count_runs(), 4);
  record.arms[0].runs[1].state = RunRecord::State::kDone;
  record.arms[0].runs[1].loss = 2.5;
  copy_shared_runs(record);
  const RunRecord& shared = record.arms[1].runs[1];
  EXPECT_EQ(shared.arm, "none,lr=1.0e-3");
  EXPECT_EQ(shared.folder, "none-seed2");
  EXPECT_TRUE(shared.is_done());
  EXPECT_EQ(shared.loss, 2.5);
  EXPECT_FALSE(record.arms[2].runs[1].is_done());
  const Json json = to_json(record).at("arms");
  EXPECT_EQ(json.at(1).at("runs_of"), "none");
  EXPECT_EQ(json.at(1).at("runs").at(1).at("state"), "done");
  EXPECT_FALSE(json.at(2).contains("runs_of"));
}

// Prepared: nothing is trained.
TEST_F(TunedArmsOf, ArePreparedWithoutTrialsThatCannotBeMade) {
  Options options{.folder = folder_ / "tuning", .purpose = Purpose::kTrials};
  const Record record =
      prepare(trials({none_, cache_}, tunes_of({"train.lr=-1,1e-3"})), options, loader_);
  EXPECT_THAT(record.splits, ElementsAre(data::Split::kValid));
  EXPECT_EQ(record.count_runs(), 2);
  EXPECT_EQ(record.arms[0].runs[0].state, RunRecord::State::kFailed);
  EXPECT_THAT(record.arms[0].runs[0].error, HasSubstr("expected a real number"));
  EXPECT_EQ(record.arms[1].runs[0].seed, 1001U);
  EXPECT_EQ(to_json(record).at("arms").at(3).at("variant_of"), "cache");
  check_not_all_refused(record);

  const auto tried = tried_arms(record, arms_);
  ASSERT_EQ(tried.size(), 2U);
  EXPECT_TRUE(tried[1].trials[0].has_failed());
  EXPECT_THAT(tried[1].trials[0].error, HasSubstr("expected a real number"));
  EXPECT_TRUE(tried[1].trials[1].has_failed());  // not trained yet
  EXPECT_EQ(tried[1].trials[1].error, "");
}

TEST_F(TunedArmsOf, AreRefusedWhenAllTrialsAre) {
  Options options{.folder = folder_ / "tuning", .purpose = Purpose::kTrials};
  const Record record =
      prepare(trials({none_}, tunes_of({"train.lrr=1e-3,2e-3"})), options, loader_);
  EXPECT_THAT(error_of([&] { check_not_all_refused(record); }),
              HasSubstr("2: every trial is refused: --tune train.lrr: unknown key (did you mean "
                        "\"train.lr\"?)"));
  const Record others = prepare(trials({none_}, tunes_of({"train.lr=-1,-2"})), options, loader_);
  EXPECT_THAT(
      error_of([&] { check_not_all_refused(others); }),
      HasSubstr("2: every trial is refused; the first is none,lr=-1: --tune train.lr: expected a "
                "real number above 0, got -1"));
}

TEST_F(TunedArmsOf, NeedATestSplit) {
  const std::string text = folder_.write("train.txt", std::string(4000, 'a')).string();
  source_.experiment = folder_.write(
      "text.toml", str(test::tiny_model(), "[data]\ntask = \"text\"\ntrain = \"", text,
                       "\"\nvalid = \"", text, "\"\n[train]\nsegment = 8\nlanes = 4\nsteps = 5\n"));
  const auto all = trials({none_}, tunes_of({"train.lr=1e-3,2e-3"}));
  const auto prepared = [&](Purpose purpose) {
    return error_of([&] {
      static_cast<void>(prepare(all, {.folder = folder_ / "runs", .purpose = purpose}, loader_));
    });
  };
  EXPECT_EQ(prepared(Purpose::kTuned),
            "2: data.test: --tune: chosen values are compared on the test split, which no choice "
            "has seen: expected data.test, got none");
}

}  // namespace
}  // namespace mneme::compare
