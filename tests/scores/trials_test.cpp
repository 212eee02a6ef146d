#include "host/scores/trials.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "host/base/text.hpp"

namespace mneme::scores {
namespace {

using ::testing::ElementsAre;
using ::testing::Eq;
using ::testing::Optional;

constexpr double kFailed = Trial::kFailed;

// Trials of one key, train.lr.
TriedArm tried(const std::string& arm, const std::vector<std::pair<std::string, double>>& trials) {
  TriedArm out{.arm = arm};
  for (const auto& [value, loss] : trials) {
    out.trials.push_back(
        {.name = str(arm, ",lr=", value), .settings = {"train.lr=" + value}, .loss = loss});
  }
  return out;
}

std::vector<TunedKey> rate(bool is_together = false) {
  return {{.key = "train.lr", .is_together = is_together}};
}

TEST(Trials, OfTheLowestLossAreChosenArmByArm) {
  const std::vector<TriedArm> arms = {tried("a", {{"1", 3.0}, {"2", 1.0}, {"3", 1.0}}),
                                      tried("b", {{"1", 2.0}, {"2", kFailed}, {"3", 1.5}})};
  EXPECT_THAT(choose_trials(arms, rate()), ElementsAre(Optional(1U), Optional(2U)));
}

TEST(Trials, ThatHaveAllFailedLeaveTheirArmAlone) {
  const std::vector<TriedArm> arms = {tried("a", {{"1", kFailed}, {"2", kFailed}}),
                                      tried("b", {{"1", 2.0}, {"2", 1.0}})};
  for (const bool is_together : {false, true}) {
    EXPECT_THAT(choose_trials(arms, rate(is_together)),
                ElementsAre(Eq(std::nullopt), Optional(1U)));
  }
  EXPECT_THAT(choose_trials({arms[0]}, rate()), ElementsAre(Eq(std::nullopt)));
}

// b alone would take 1, a alone 3: their mean is lowest at 2.
TEST(Trials, OfAKeyThatArmsShareAreChosenByTheMean) {
  const std::vector<TriedArm> arms = {tried("a", {{"1", 5.0}, {"2", 1.1}, {"3", 1.0}}),
                                      tried("b", {{"1", 1.0}, {"2", 1.1}, {"3", 5.0}})};
  EXPECT_THAT(choose_trials(arms, rate()), ElementsAre(Optional(2U), Optional(0U)));
  EXPECT_THAT(choose_trials(arms, rate(true)), ElementsAre(Optional(1U), Optional(1U)));
}

TEST(Trials, OfASharedKeyCountWhereAllArmsHaveThem) {
  const std::vector<TriedArm> arms = {tried("a", {{"1", 1.0}, {"2", 9.0}}),
                                      tried("b", {{"1", kFailed}, {"2", 9.0}})};
  EXPECT_THAT(choose_trials(arms, rate(true)), ElementsAre(Optional(1U), Optional(1U)));
  const std::vector<TriedArm> none = {tried("a", {{"1", 1.0}, {"2", kFailed}}),
                                      tried("b", {{"1", kFailed}, {"2", 9.0}})};
  EXPECT_THAT(choose_trials(none, rate(true)), ElementsAre(Eq(std::nullopt), Eq(std::nullopt)));
}

// For each value of the shared key an arm has the best of its own values.
TEST(Trials, MayShareOneKeyAndHaveAnother) {
  const auto trial = [](const std::string& lr, const std::string& rows, double loss) {
    return Trial{.settings = {"train.lr=" + lr, "memory.tier.0.rows=" + rows}, .loss = loss};
  };
  const std::vector<TunedKey> keys = {{.key = "train.lr", .is_together = true},
                                      {.key = "memory.tier.0.rows"}};
  const std::vector<TriedArm> arms = {
      {"a", {trial("1", "8", 2.0), trial("1", "16", 1.0), trial("2", "8", 1.5)}},
      {"b", {trial("1", "8", 1.0), trial("1", "16", 3.0), trial("2", "8", 1.2)}}};
  EXPECT_THAT(choose_trials(arms, keys), ElementsAre(Optional(1U), Optional(0U)));
}

TEST(Halving, HasHalfOfTheTrialsForTwiceTheSteps) {
  EXPECT_THAT(halving_rungs(8, 100, 1000), ElementsAre(Rung{8, 100}, Rung{4, 200}, Rung{2, 400}));
  EXPECT_THAT(halving_rungs(9, 100, 300), ElementsAre(Rung{9, 100}, Rung{5, 200}, Rung{3, 300}));
  EXPECT_THAT(halving_rungs(5, 10, 1000), ElementsAre(Rung{5, 10}, Rung{3, 20}, Rung{2, 40}));
  EXPECT_THAT(halving_rungs(2, 10, 1000), ElementsAre(Rung{2, 10}));
  EXPECT_THAT(halving_rungs(8, 100, 100), ElementsAre(Rung{8, 100}));
  std::int64_t steps = 0, before = 0;  // the example of docs/compare.md
  for (const Rung& rung : halving_rungs(8, 500, 2000)) {
    steps += static_cast<std::int64_t>(rung.trials) * (rung.steps - before);
    before = rung.steps;
  }
  EXPECT_EQ(steps, 8000);
}

TriedArm halved(const std::vector<std::vector<double>>& losses, const std::vector<Rung>& rungs) {
  TriedArm out;
  for (const std::vector<double>& one : losses) out.trials.push_back({.rung_losses = one});
  take_last_rungs(out, rungs);
  return out;
}

TEST(Halving, TakesTheLowestLossesOfEachRung) {
  const std::vector<Rung> rungs = halving_rungs(5, 10, 1000);
  // The fourth was lowest in a rung to which the rule does not bring it.
  const TriedArm arm =
      halved({{3.0, 2.0, 1.0}, {4.0}, {2.0, 2.5}, {4.0, 0.1, 0.1}, {1.0, 1.5, 1.2}}, rungs);
  EXPECT_THAT(trials_in_rung(arm, rungs, 0), ElementsAre(0U, 1U, 2U, 3U, 4U));
  EXPECT_THAT(trials_in_rung(arm, rungs, 1), ElementsAre(0U, 2U, 4U));
  EXPECT_THAT(trials_in_rung(arm, rungs, 2), ElementsAre(0U, 4U));
  EXPECT_EQ(arm.trials[0].loss, 1.0);
  EXPECT_EQ(arm.trials[0].steps, 40);
  EXPECT_EQ(arm.trials[2].loss, 2.5);
  EXPECT_EQ(arm.trials[2].steps, 20);
  EXPECT_EQ(arm.trials[3].loss, 4.0);
  EXPECT_EQ(arm.trials[3].steps, 10);
  EXPECT_THAT(choose_trials({arm}, rate()), ElementsAre(Optional(0U)));
}

// Equal losses: the first goes on. Failed trials do not, and none comes in their place; where all
// of a rung have failed, the best of the rung before is taken.
TEST(Halving, LeavesOutTrialsThatFailed) {
  const std::vector<Rung> rungs = halving_rungs(4, 10, 1000);
  TriedArm arm = halved({{2.0, 9.0}, {kFailed}, {2.0, kFailed}, {2.0}}, rungs);
  EXPECT_THAT(trials_in_rung(arm, rungs, 1), ElementsAre(0U, 2U));
  EXPECT_TRUE(arm.trials[1].has_failed());
  EXPECT_TRUE(arm.trials[2].has_failed());
  EXPECT_THAT(choose_trials({arm}, rate()), ElementsAre(Optional(0U)));
  arm = halved({{2.0, kFailed}, {}, {2.0, kFailed}, {2.5}}, rungs);
  EXPECT_THAT(choose_trials({arm}, rate()), ElementsAre(Optional(3U)));
  arm = halved({{kFailed}, {kFailed}, {kFailed, 1.0}, {}}, rungs);
  EXPECT_THAT(trials_in_rung(arm, rungs, 1), ElementsAre());
  EXPECT_THAT(choose_trials({arm}, rate()), ElementsAre(Eq(std::nullopt)));
}

TEST(Trials, ValuesAreThoseOfTheLastSettingOfAKey) {
  const Trial trial{.settings = {"train.lr=1", "train.lr_min=3", "train.lr=2"}};
  EXPECT_EQ(trial.value_of("train.lr"), "2");
  EXPECT_EQ(trial.value_of("train"), "");
}

std::string border_of(const std::vector<std::string>& values, std::size_t chosen) {
  TriedArm arm;
  for (const std::string& value : values) arm.trials.push_back({.settings = {"train.lr=" + value}});
  const std::vector<Border> found = borders(arm, chosen, rate());
  if (found.empty()) return "";
  return str(found[0].key, ' ', found[0].value, found[0].is_highest ? " highest" : " lowest");
}

TEST(Borders, AreTheLowestAndTheHighestNumber) {
  EXPECT_EQ(border_of({"1e-2", "1e-4", "1e-3"}, 0), "train.lr 1e-2 highest");
  EXPECT_EQ(border_of({"1e-2", "1e-4", "1e-3"}, 1), "train.lr 1e-4 lowest");
  EXPECT_EQ(border_of({"1e-2", "1e-4", "1e-3"}, 2), "");
  EXPECT_EQ(border_of({"1_000", "+2", "30"}, 0), "train.lr 1_000 highest");
  EXPECT_EQ(border_of({"1e-4", "1e-2", "fast"}, 0), "train.lr 1e-4 lowest");  // one is refused
}

TEST(Borders, AreNotThereWithoutAnOrder) {
  EXPECT_EQ(border_of({"\"cosine\"", "\"linear\"", "3"}, 2), "");
  EXPECT_EQ(border_of({"8", "8"}, 0), "");  // other keys tell the trials apart
  EXPECT_EQ(border_of({"true", "false"}, 0), "");
}

}  // namespace
}  // namespace mneme::scores
