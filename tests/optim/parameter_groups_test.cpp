#include "host/optim/parameter_groups.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "host/base/error.hpp"
#include "host/tensor/torch.hpp"
#include "tests/base/temporary_folder.hpp"

namespace mneme::train {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const std::vector<backbone::Parameter> kBackbone = {
    {"embedding.0.weight", torch::zeros({4, 2}), true},
    {"layers.0.attention.norm.weight", torch::zeros({2}), false},
    {"layers.0.ff.in.weight", torch::zeros({3, 2}), true}};

memory::TierParameter tier_parameter(const std::string& name, const at::Tensor& tensor) {
  memory::TierParameter parameter;
  parameter.name = "memory.0.org.example." + name;
  parameter.tensor = tensor;
  return parameter;
}

config::TrainConfig settings() {
  config::TrainConfig train;
  train.lr = 0.5;
  train.weight_decay = 0.25;
  return train;
}

TEST(ParameterGroups, MatchesStarsForAnyCharacters) {
  EXPECT_TRUE(optim::matches("model.*.norm.*", "model.layers.0.attention.norm.weight"));
  EXPECT_TRUE(optim::matches("*", ""));
  EXPECT_TRUE(optim::matches("*weight", "model.weight"));
  EXPECT_TRUE(optim::matches("a*b*c", "abbc"));
  EXPECT_TRUE(optim::matches("model.embedding.0.weight", "model.embedding.0.weight"));
  EXPECT_FALSE(optim::matches("model.embedding", "model.embedding.0.weight"));
  EXPECT_FALSE(optim::matches("*norm", "model.norm.weight"));
  EXPECT_FALSE(optim::matches("a*b*c", "acb"));
}

TEST(ParameterGroups, DecaysMatricesOnlyByDefault) {
  const std::vector<memory::TierParameter> tiers = {tier_parameter("0.gate", torch::zeros({2})),
                                                    tier_parameter("0.map", torch::zeros({2, 2}))};
  const auto all = optim::group_parameters(settings(), kBackbone, tiers);
  ASSERT_EQ(all.size(), 5U);
  const std::vector<double> decays = {0.25, 0.0, 0.25, 0.0, 0.25};
  for (std::size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(all[i].weight_decay, decays[i]) << all[i].name;
    EXPECT_EQ(all[i].lr, 0.5);
    EXPECT_EQ(all[i].rate, "model");
  }
  EXPECT_EQ(all[0].name, "model.embedding.0.weight");
}

TEST(ParameterGroups, TierSettingsComeBeforeTheDefaultsAndTheGroupNoneBeforeThem) {
  std::vector<memory::TierParameter> tiers = {tier_parameter("0.gate", torch::zeros({2})),
                                              tier_parameter("0.map", torch::zeros({2, 2}))};
  for (memory::TierParameter& tier : tiers) tier.weight_decay = 0.125;
  tiers[1].group = "none";
  tiers[1].lr = 2.0;
  tiers[1].lr_factor = 10.0;
  const auto all = optim::group_parameters(settings(), {}, tiers);
  EXPECT_EQ(all[0].weight_decay, 0.125);
  EXPECT_EQ(all[1].weight_decay, 0.0);
  EXPECT_EQ(all[1].lr, 20.0);
  EXPECT_EQ(all[1].rate, "memory.0 x 10.0");
}

TEST(ParameterGroups, TheFirstGroupThatNamesAParameterCounts) {
  config::TrainConfig train = settings();
  train.groups = {{.parameters = {"model.*.norm.*"}, .lr = {}, .weight_decay = 0.5},
                  {.parameters = {"model.layers.*", "memory.*"}, .lr = 0.0625, .weight_decay = {}}};
  std::vector<memory::TierParameter> tiers = {tier_parameter("0.map", torch::zeros({2, 2}))};
  tiers[0].lr = 3.0;
  tiers[0].lr_factor = 2.0;
  const auto all = optim::group_parameters(train, kBackbone, tiers);
  EXPECT_EQ(all[0].lr, 0.5);  // no group
  EXPECT_EQ(all[1].weight_decay, 0.5);
  EXPECT_EQ(all[1].lr, 0.5);  // the second group names it too
  EXPECT_EQ(all[2].lr, 0.0625);
  EXPECT_EQ(all[2].weight_decay, 0.25);
  EXPECT_EQ(all[2].rate, "group.1");
  EXPECT_EQ(all[3].lr, 0.125);  // times the plugin's factor
}

TEST(ParameterGroups, GivesMatricesOfLayersAndMemoriesToMuon) {
  config::TrainConfig train = settings();
  train.optimizer = config::Optimizer::kMuon;
  std::vector<backbone::Parameter> backbone = kBackbone;
  backbone.push_back({"layers.0.attention.position_bias", torch::zeros({2, 3}), false});
  backbone.push_back({"softmax.0.weight", torch::zeros({4, 2}), true});
  std::vector<memory::TierParameter> tiers = {tier_parameter("0.gate", torch::zeros({2})),
                                              tier_parameter("0.map", torch::zeros({2, 2})),
                                              tier_parameter("0.table", torch::zeros({2, 2}))};
  tiers[2].group = "none";
  const auto rules_of = [&] {
    std::vector<std::string> out;
    for (const optim::TrainableParameter& one : optim::group_parameters(train, backbone, tiers))
      out.push_back(optim::rule_of(train, one));
    return out;
  };
  EXPECT_THAT(rules_of(),
              ElementsAre("adamw", "adamw", "muon", "adamw", "adamw", "adamw", "muon", "adamw"));
  train.groups = {{.parameters = {"memory.*.map"}, .optimizer = config::GroupOptimizer::kAdamW},
                  {.parameters = {"model.softmax.*", "memory.*.map"},
                   .optimizer = config::GroupOptimizer::kMuon}};
  EXPECT_THAT(rules_of(),
              ElementsAre("adamw", "adamw", "muon", "adamw", "muon", "adamw", "adamw", "adamw"));
  train.freeze = config::Freeze::kBackbone;
  EXPECT_THAT(rules_of(),
              ElementsAre("none", "none", "none", "none", "none", "adamw", "adamw", "adamw"));
  train = settings();
  EXPECT_THAT(rules_of(), testing::Each("adam"));
}

TEST(ParameterGroups, RefusesMuonForVectors) {
  config::TrainConfig train = settings();
  train.optimizer = config::Optimizer::kMuon;
  train.groups = {{.parameters = {"model.embedding.*"}, .lr = 1.0},
                  {.parameters = {"model.*"}, .optimizer = config::GroupOptimizer::kMuon}};
  const auto all = optim::group_parameters(train, kBackbone, {});
  EXPECT_THAT(
      test::error_of([&] { optim::check_groups(train, all); }),
      HasSubstr("train.group 2: optimizer: Muon cannot update "
                "model.layers.0.attention.norm.weight: expected matrices of at least two "
                "rows and two columns, got shape [2]; leave the parameter out of the group"));
  train.groups.insert(train.groups.begin(),
                      {.parameters = {"*.norm.*"}, .optimizer = config::GroupOptimizer::kAdamW});
  EXPECT_NO_THROW(optim::check_groups(train, optim::group_parameters(train, kBackbone, {})));
}

TEST(ParameterGroups, RefusesAPatternThatNamesNothing) {
  config::TrainConfig train = settings();
  train.groups = {{.parameters = {"model.*", "model.embeding.0.weight"}, .lr = 1.0}};
  const auto all = optim::group_parameters(train, kBackbone, {});
  try {
    optim::check_groups(train, all);
    FAIL() << "expected an error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    EXPECT_THAT(error.what(), HasSubstr("train.group 1: parameters"));
    EXPECT_THAT(error.what(), HasSubstr("\"model.embeding.0.weight\" names no parameter"));
    EXPECT_THAT(error.what(), HasSubstr("expected \"model.embedding.0.weight\""));
  }
  train.groups = {{.parameters = {"zzz*"}, .lr = 1.0}};
  EXPECT_THROW(optim::check_groups(train, all), Error);
  train.groups = {{.parameters = {"*"}, .lr = 1.0}};
  EXPECT_NO_THROW(optim::check_groups(train, all));
}

}  // namespace
}  // namespace mneme::train
