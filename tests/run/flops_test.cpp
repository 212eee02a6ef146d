#include "host/run/cost/flops.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "host/config/experiment.hpp"
#include "host/memory/abi/groups.hpp"
#include "host/plugin/loader.hpp"
#include "tests/base/temporary_folder.hpp"

namespace mneme::test {
namespace {

constexpr double kLayers = 2, kWidth = 16, kSegment = 10, kLanes = 4;
// Projections q, k, v and o and the feed-forward of 40 in each layer, and the softmax over 100
// words.
constexpr double kLinear = 2 * (kLayers * (4 * kWidth * kWidth + 2 * kWidth * 40) + kWidth * 100);

// Columns of the segment that a token may see, in the mean.
constexpr double kSeen = (kSegment + 1) / 2;

// Of a token, a product of heads with so many columns, in all layers.
double attention(double columns) { return 2 * kLayers * kWidth * columns; }

// Of a token, the projection of so many relative positions, which all lanes share.
double positions(double count) {
  return 2 * kLayers * count * kWidth * kWidth / (kSegment * kLanes);
}

run::FlopsPerToken flops_of(const std::string& memory, const std::string& model = "",
                            const std::string& train = "") {
  config::Experiment experiment = config::parse_experiment_text(
      memory + "[model]\nlayers = 2\nheads = 2\nwidth = 16\nff = 40\n" + model +
          "[data]\ntask = \"motif\"\nalphabet = 8\nperiod_min = 4\nperiod_max = 24\n"
          "[train]\nsegment = 10\nlanes = 4\nsteps = 1\n" +
          train,
      "flops");
  plugin::PluginLoader loader = memory::make_loader();
  return run::count_flops(experiment, 100, loader);
}

TEST(Flops, AreThoseOfEveryProductOfTheBackbone) {
  const auto flops = flops_of("[memory]\n", "position = \"learned\"\n");
  const double forward = kLinear + 2 * attention(kSeen);
  EXPECT_DOUBLE_EQ(flops.evaluation, forward);
  EXPECT_DOUBLE_EQ(flops.training, 3 * forward);
  EXPECT_TRUE(flops.not_counted.empty());
}

// In a window of 3 the first two tokens of ten see 1 and 2 columns, and the other eight 3.
TEST(Flops, OfWindowsAreTheColumnsWithinThem) {
  const auto flops = flops_of("[memory]\n", "position = \"learned\"\nwindow = [3, 0]\n");
  const double forward = kLinear + attention(2.7) + attention(kSeen);
  EXPECT_DOUBLE_EQ(flops.evaluation, forward);
  EXPECT_DOUBLE_EQ(flops.training, 3 * forward);
}

// The table of projected positions is kept while evaluating; in training it has a gradient for its
// weight, and none for its input.
TEST(Flops, OfRelativePositionsAreSharedByTheLanes) {
  const auto flops = flops_of("[memory]\n", "position = \"relative\"\n");
  const double forward = kLinear + 2 * attention(kSeen) + attention(kSeen + 1);
  EXPECT_DOUBLE_EQ(flops.evaluation, forward);
  EXPECT_DOUBLE_EQ(flops.training, 3 * forward + 2 * positions(kSegment + 1));
}

// What is frozen has no gradient: feed-forward, softmax, embedding and so the first layer's input.
// The updates need the gradient of the attention's weights, to which they are added.
TEST(Flops, OfAFrozenBackboneAreWithoutItsGradients) {
  const std::string model = "position = \"learned\"\nlora_rank = 2\n";
  const auto all = flops_of("[memory]\n", model);
  const auto updates = flops_of("[memory]\n", model, "freeze = \"backbone\"\n");
  EXPECT_DOUBLE_EQ(updates.evaluation, all.evaluation);
  const double weights = 2 * (kLayers * 2 * kWidth * 40 + kWidth * 100);
  EXPECT_DOUBLE_EQ(all.training - updates.training, weights + 2 * 3 * kWidth * kWidth);
}

// A frozen projection of relative positions has no gradient, so neither has the table of them.
TEST(Flops, OfFrozenPositionsAreWithoutTheGradientOfTheirTable) {
  const std::string model = "position = \"relative\"\nlora_rank = 2\n";
  const auto all = flops_of("[memory]\n", model);
  const auto updates = flops_of("[memory]\n", model, "freeze = \"backbone\"\n");
  const double weights = 2 * (kLayers * 2 * kWidth * 40 + kWidth * 100);
  EXPECT_DOUBLE_EQ(
      all.training - updates.training,
      weights + 2 * 3 * kWidth * kWidth + attention(kSeen + 1) + positions(kSegment + 1));
}

// Counting needs shapes alone, so that size costs nothing. Held against the formula for GPT-2 of
// 124 M parameters: six operations a weight that stands in a product, the output's among them.
TEST(Flops, OfGpt2AreThoseOfItsWeightsAndScores) {
  constexpr double kDepth = 12, kChannels = 768, kTokens = 1024, kWords = 50257;
  const config::Experiment experiment = config::parse_experiment_text(
      "[memory]\n[model]\nlayers = 12\nheads = 12\nwidth = 768\nposition = \"learned\"\n"
      "feed_forward = \"gelu\"\n[data]\ntask = \"motif\"\nalphabet = 8\nperiod_min = 4\n"
      "period_max = 24\n[train]\nsegment = 1024\nlanes = 16\nsteps = 1\n[eval]\nsegment = 1024\n",
      "flops");
  plugin::PluginLoader loader = memory::make_loader();
  const auto flops = run::count_flops(experiment, static_cast<std::int64_t>(kWords), loader);
  const double weights = kDepth * 12 * kChannels * kChannels + kWords * kChannels;
  const double scores = 2 * kDepth * kChannels * (kTokens + 1) / 2;
  EXPECT_DOUBLE_EQ(flops.evaluation, 2 * (weights + scores));
  EXPECT_DOUBLE_EQ(flops.training, 6 * (weights + scores));
}

#ifdef MNEME_HAS_XL_CACHE
std::string replacing(const std::string& layers) {
  return "[memory]\nplugins = [\"" MNEME_BINARY_DIR
         "/tests/abi_plugins\"]\n[[memory.tier]]\nplugin = \"test_replacing\"\n" +
         layers;
}

// A tier that gives the normed input in place of the attention leaves the feed-forward and the
// softmax: there are no projections, scores and positions.
TEST(Flops, OfLayersWithoutAttentionAreThoseOfTheirFeedForward) {
  constexpr double kAttending = 4 * kWidth * kWidth;  // the projections of a layer
  const double rest = kLinear - 2 * kLayers * kAttending;
  const auto all = flops_of(replacing(""), "position = \"relative\"\n");
  EXPECT_DOUBLE_EQ(all.evaluation, rest);
  EXPECT_DOUBLE_EQ(all.training, 3 * rest);
  const auto hybrid = flops_of(replacing("layers = [1]\n"), "position = \"learned\"\n");
  const double forward = rest + 2 * kAttending + 2 * attention(kSeen) / kLayers;
  EXPECT_DOUBLE_EQ(hybrid.evaluation, forward);
  EXPECT_DOUBLE_EQ(hybrid.training, 3 * forward);
}

// Ten riders pass the layers with the tokens; the last layer drops them after its attention. Their
// attention to themselves is the hook's: no causal mask hides half of it, and in the last layer,
// where nothing reads it, it has no gradient.
TEST(Flops, OfRidersAreTheirRowsAndTheHooksAttention) {
  const auto flops =
      flops_of("[memory]\nplugins = [\"" MNEME_BINARY_DIR
               "/tests/abi_plugins\"]\n[[memory.tier]]\nplugin = \"test_riders\"\nrows = 10\n",
               "position = \"learned\"\n");
  const double passing = 2 * (4 * kWidth * kWidth + 2 * kWidth * 40);  // a row in the first layer
  const double dropped = 2 * 3 * kWidth * kWidth;
  const double forward =
      kLinear + passing + dropped + 2 * attention(kSeen + 10) + 2 * attention(10);
  EXPECT_DOUBLE_EQ(flops.evaluation, forward);
  EXPECT_DOUBLE_EQ(flops.training, 3 * forward - 2 * attention(10));
}

// Rows of the cache are projected once while evaluating, and in every segment while training, where
// they have no gradient themselves.
TEST(Flops, OfACacheAreItsColumnsAndProjections) {
  const auto flops = flops_of("[memory]\nplugins = [\"" MNEME_PLUGIN_DIR
                              "\"]\n[[memory.tier]]\nplugin = \"xl_cache\"\nrows = 10\n");
  const double columns = kSeen + 10;
  const double forward = kLinear + 2 * attention(columns) + attention(columns + 1);
  const double keys_and_values = 2 * kLayers * 2 * kWidth * kWidth;  // of one row a token
  EXPECT_DOUBLE_EQ(flops.evaluation, forward);
  EXPECT_DOUBLE_EQ(flops.training,
                   3 * forward + 2 * keys_and_values + 2 * positions(kSegment + 10 + 1));
}

// All tokens see four columns, of which the first ones are rows of the cache.
TEST(Flops, OfACacheAreItsColumnsWithinTheWindow) {
  const auto flops = flops_of("[memory]\nplugins = [\"" MNEME_PLUGIN_DIR
                              "\"]\n[[memory.tier]]\nplugin = \"xl_cache\"\nrows = 10\n",
                              "position = \"learned\"\nwindow = 4\n");
  EXPECT_DOUBLE_EQ(flops.evaluation, kLinear + 2 * attention(4));
}
#endif

}  // namespace
}  // namespace mneme::test
