// One experiment at several sizes of its backbone.
#include "host/compare/planning/scale.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "host/base/text.hpp"
#include "host/memory/abi/groups.hpp"
#include "tests/base/temporary_folder.hpp"
#include "tests/base/tiny_motif.hpp"

namespace mneme::compare {
namespace {

using test::error_of;
using ::testing::HasSubstr;

config::Experiment experiment_of(std::int64_t layers, std::int64_t heads, std::int64_t kv_heads) {
  config::Experiment out;
  out.model.layers = layers;
  out.model.heads = heads;
  out.model.kv_heads = kv_heads;
  out.model.head_width = 16;
  out.model.width = 16 * heads;
  out.model.embedding = out.model.width;
  out.model.ff = 32 * heads;
  out.train.steps = 1000;
  return out;
}

// Eight times the parameters are twice the layers and twice the width.
TEST(Scale, KeepsWidthOverLayers) {
  const ScaleShape same = scaled_shape(experiment_of(2, 4, 0), 1.0);
  EXPECT_EQ(same.text(), "2 layers of width 64, 1000 steps");
  EXPECT_EQ(same.reached, 1.0);
  const ScaleShape eight = scaled_shape(experiment_of(2, 4, 0), 8.0);
  EXPECT_EQ(eight.layers, 4);
  EXPECT_EQ(eight.heads, 8);
  EXPECT_EQ(eight.width, 128);
  EXPECT_EQ(eight.ff, 256);
  EXPECT_EQ(eight.steps, 8000);
  EXPECT_EQ(eight.reached, 8.0);
}

// Numbers of layers and heads are whole: width makes up for the layers, steps follow what it has.
TEST(Scale, ComesNearToTheMultiple) {
  for (const double multiple : {2.0, 3.0, 4.0, 16.0, 50.0}) {
    const ScaleShape shape = scaled_shape(experiment_of(4, 8, 0), multiple);
    const auto layers = static_cast<double>(shape.layers), width = static_cast<double>(shape.width);
    EXPECT_EQ(shape.reached, layers * width * width / (4.0 * 128.0 * 128.0));
    EXPECT_NEAR(shape.reached, multiple, 0.08 * multiple);
    EXPECT_EQ(shape.width, 16 * shape.heads);
    EXPECT_EQ(shape.ff, 2 * shape.width);
    EXPECT_EQ(shape.steps, std::llround(1000 * shape.reached));
    EXPECT_NEAR(width / layers, 32.0, 12.0) << shape.text();
  }
}

TEST(Scale, KeepsGroupsOfHeads) {
  for (const double multiple : {2.0, 5.0, 20.0})
    EXPECT_EQ(scaled_shape(experiment_of(4, 8, 2), multiple).heads % 4, 0);
}

class ScalePoints : public ::testing::Test {
 protected:
  std::vector<ScalePoint> points(const std::string& experiment,
                                 const std::vector<double>& multiples,
                                 const std::string& setting = "") {
    plugin::PluginLoader loader = memory::make_loader();
    const std::string none = folder_.write("none.toml", "[memory]\n").string();
    return scale_points(read_arms(folder_.write("tiny.toml", experiment),
                                  {parse_arm(none), parse_arm(none + setting)}, {}, {}, loader),
                        multiples);
  }
  std::string error(const std::string& experiment, const std::vector<double>& multiples,
                    const std::string& setting = "") {
    return error_of([&] { static_cast<void>(points(experiment, multiples, setting)); });
  }

  test::TemporaryFolder folder_;
};

TEST_F(ScalePoints, ChangeEveryArm) {
  const auto all = points(test::tiny_experiment(), {1.0, 8.0, 27.0});
  ASSERT_EQ(all.size(), 3U);
  for (const ArmSetup& arm : all[1].arms) {
    EXPECT_EQ(arm.experiment.model.layers, 2);
    EXPECT_EQ(arm.experiment.model.heads, 4);
    EXPECT_EQ(arm.experiment.model.head_width, 8);
    EXPECT_EQ(arm.experiment.model.width, 32);
    EXPECT_EQ(arm.experiment.model.embedding, 32);
    EXPECT_EQ(arm.experiment.model.ff, 64);
    EXPECT_EQ(arm.experiment.train.steps, 40);
  }
  EXPECT_EQ(all[2].arms[1].name, "none#2");
}

// A hybrid of three layers with one plugin and one with another stays one.
TEST_F(ScalePoints, RepeatTheLayersOfATier) {
  ArmSetup hybrid{
      .name = "hybrid", .file = "h.toml", .settings = {}, .experiment = experiment_of(4, 4, 0)};
  hybrid.experiment.memory.tiers.resize(3);
  hybrid.experiment.memory.tiers[0].layers = {0, 1, 2};
  hybrid.experiment.memory.tiers[1].layers = {3};
  const auto all = scale_points({hybrid}, {1.0, 2.0, 8.0});
  const auto layers = [&](std::size_t point, std::size_t tier) {
    return all.at(point).arms.at(0).experiment.memory.tiers.at(tier).layers;
  };
  using Layers = std::vector<std::int64_t>;
  EXPECT_EQ(layers(0, 0), (Layers{0, 1, 2}));
  ASSERT_EQ(all[1].shape.layers, 5);
  EXPECT_EQ(layers(1, 0), (Layers{0, 1, 2, 4}));
  EXPECT_EQ(layers(1, 1), (Layers{3}));
  ASSERT_EQ(all[2].shape.layers, 8);
  EXPECT_EQ(layers(2, 0), (Layers{0, 1, 2, 4, 5, 6}));
  EXPECT_EQ(layers(2, 1), (Layers{3, 7}));
  EXPECT_EQ(layers(2, 2), std::nullopt);  // serves all
}

TEST_F(ScalePoints, RefuseWhatIsNoLadder) {
  const std::string tiny = test::tiny_experiment();
  EXPECT_EQ(error(tiny, {1.0, 1.1, 8.0}),
            "2: --scale: the sizes 1 and 1.1 have one shape, 1 layers of width 16: expected sizes "
            "that are farther apart");
  EXPECT_THAT(error(tiny, {1.0, 4.0, 8.0}, ",model.width=32"),
              HasSubstr("none,width=32: --scale chooses sizes of [model] and train.steps, in which "
                        "this arm differs from the first"));
  EXPECT_THAT(error(tiny, {1.0, 4.0, 8.0}, ",train.steps=9"), HasSubstr("leave out the --sweep"));
  ArmSetup endless{
      .name = "a", .file = "a.toml", .settings = {}, .experiment = experiment_of(2, 4, 0)};
  endless.experiment.train.steps = 0;
  endless.experiment.train.epochs = 2;
  EXPECT_EQ(error_of([&] {
              static_cast<void>(scale_points({endless}, {1.0, 4.0, 8.0}));
            }),
            "2: --scale: the experiment gives its length in epochs, which do not grow with the "
            "model: expected train.steps, got train.epochs = 2");
}

}  // namespace
}  // namespace mneme::compare
