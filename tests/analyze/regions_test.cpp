#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "host/analyze/measures/attention.hpp"
#include "host/base/error.hpp"
#include "host/tensor/torch.hpp"
#include "tests/base/temporary_folder.hpp"

namespace mneme::analyze {
namespace {

using ::testing::HasSubstr;
using RegionsProbes = std::map<std::string, at::Tensor>;

const std::string kScope = "1.org.x.y.0.";

// Regions: three numbers a lane, one lane after the other.
RegionsProbes probes(const at::Tensor& mass, const std::vector<std::int64_t>& regions) {
  return {{kScope + "memory.mass", mass},
          {kScope + "memory.regions", torch::tensor(regions).view({-1, 3})}};
}

std::string error_of(const RegionsProbes& given) {
  return test::error_of([&] { MassByRegion().add(given); });
}

TEST(Regions, MeansOfFullMemories) {
  MassByRegion analysis;
  analysis.add(probes(torch::full({1, 2}, 0.5), {0, 1, 1}));
  analysis.add(probes(torch::tensor({0.1, 0.2, 0.3, 0.4, 0.3, 0.2, 0.1, 0.4}).view({2, 4}),
                      {1, 2, 1, 1, 2, 1}));
  analysis.add(probes(torch::full({1, 3}, 0.3), {1, 1, 1}));
  const auto layers = analysis.layers();
  ASSERT_EQ(layers.size(), 1U);
  const auto& [where, layer] = *layers.begin();
  EXPECT_EQ(where.tier, "1.org.x.y");
  EXPECT_EQ(layer.segments, 2);
  EXPECT_EQ(layer.first(0), 0);
  EXPECT_EQ(layer.first(2), 3);
  EXPECT_NEAR(layer.total(0), 0.2, 1e-7);
  EXPECT_NEAR(layer.total(1), 0.4, 1e-7);
  EXPECT_NEAR(layer.total(2), 0.4, 1e-7);
  EXPECT_NEAR(layer.share[2], 0.2, 1e-7);
}

// The second lane's document began two segments ago: its places are those of the first.
TEST(Regions, LeavesOutLanesThatLackRows) {
  MassByRegion analysis;
  analysis.add(probes(torch::tensor({0.1, 0.2, 0.3, 0.4, 0.0, 0.0, 0.5, 0.5}).view({2, 4}),
                      {1, 2, 1, 0, 1, 1}));
  // None is full: not counted, though the places are more.
  analysis.add(probes(torch::full({2, 5}, 0.2), {1, 2, 1, 0, 3, 1}));
  const auto layers = analysis.layers();
  ASSERT_EQ(layers.size(), 1U);
  const auto& layer = layers.begin()->second;
  EXPECT_EQ(layer.segments, 1);
  EXPECT_NEAR(layer.total(0), 0.1, 1e-7);
  EXPECT_NEAR(layer.total(1), 0.5, 1e-7);
  EXPECT_NEAR(layer.total(2), 0.4, 1e-7);
}

TEST(Regions, RefusesRegionsThatDoNotFit) {
  EXPECT_THAT(error_of(probes(torch::ones({2, 4}), {1, 1, 1, 2, 2, 1})),
              HasSubstr("tier 1.org.x.y, layer 0, probe memory.regions: does not go with "
                        "memory.mass: expected at most 4 places together, got lane 1 with 2 + 2 + "
                        "1"));
  EXPECT_THAT(error_of(probes(torch::ones({1, 4}), {-1, 1, 1})), HasSubstr("lane 0 with -1 + 1"));
  EXPECT_THAT(error_of(probes(torch::ones({2, 4}), {1, 1, 2})),
              HasSubstr("expected [lanes, 3] for a mass [lanes, places], got [1, 3] for a mass of "
                        "[2, 4]"));
  EXPECT_THAT(error_of(probes(torch::ones({4}), {1, 1, 2})),
              HasSubstr("got [1, 3] for a mass of [4]"));
  EXPECT_THAT(error_of({{kScope + "memory.mass", torch::ones({1, 2})}}), HasSubstr("got nothing"));
}

}  // namespace
}  // namespace mneme::analyze
