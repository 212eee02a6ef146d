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
