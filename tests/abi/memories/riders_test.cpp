// Riders: rows that the tier puts into the layer stack.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "host/base/error.hpp"
#include "host/tensor/torch.hpp"
#include "tests/abi/support.hpp"

namespace mneme::memory {
namespace {

TEST(Riders, GivesTheNewestEmbeddedRowsOfTheLastSegments) {
  HookDriver driver(manifest("riders", "rows = 4"), test_backbone(), test_loader(),
                    Phase::kTraining, kLanes);
  PlainLayer layer = test_layer(1);
  at::Tensor past = torch::zeros({kLanes, 0, kWidth}, at::kDouble);
  for (uint64_t s = 0; s < 3; ++s) {
    const at::Tensor x = random({kLanes, 3, kWidth}, s);
    driver.begin({.length = 3});
    const int64_t expected = std::min<int64_t>(4, past.size(1));
    ASSERT_EQ(driver.hooks().riders().count, expected);
    if (expected > 0) {
      EXPECT_TRUE(at::equal(driver.hooks().riders().rows,
                            past.narrow(1, past.size(1) - expected, expected)));
    }
    pass_layer(driver, layer, x, 0);
    pass_layer(driver, layer, random({kLanes, 3, kWidth}, 100 + s), 1);
    driver.commit();
    past = at::cat({past, x}, 1);
  }
}

TEST(Riders, AttendThroughTheHostsAttentionWithGradient) {
  HookDriver driver(manifest("riders", "rows = 4"), test_backbone(), test_loader(),
                    Phase::kTraining, kLanes);
  PlainLayer layer = test_layer(2);
  driver.begin({.length = 4});
  pass_layer(driver, layer, random({kLanes, 4, kWidth}, 1));
  driver.commit();
  driver.state().reset({0, 1, 0});
  driver.begin({.length = 2});
  const Riders& riders = driver.hooks().riders();
  ASSERT_EQ(riders.count, 4);
  const at::Tensor hidden = riders.rows.clone().requires_grad_(true);
  const at::Tensor rows = at::cat({hidden, random({kLanes, 2, kWidth}, 2)}, 1);
  const at::Tensor q = layer.project(Projector::kQuery, hidden, true);
  const at::Tensor k = layer.project(Projector::kKey, rows, true);
  const at::Tensor v = layer.project(Projector::kValue, rows, true);
  const at::Tensor z = driver.hooks().ride(0, hidden, q, k, v, layer);
  AttentionCall call;
  call.q = q;
  call.k = k.narrow(1, 0, 4);
  call.v = v.narrow(1, 0, 4);
  call.mask = AttentionMask::kFull;
  call.key_valid = torch::tensor({{1, 1, 1, 1}, {0, 0, 0, 0}, {1, 1, 1, 1}}, at::kBool);
  EXPECT_TRUE(at::equal(z, layer.attention(call).z));
  EXPECT_EQ(z[1].abs().max().item<double>(), 0.0)
      << "a lane whose riders are all invalid reads nothing";
  const at::Tensor gradient = torch::autograd::grad({z.sum()}, {hidden})[0];
  EXPECT_TRUE(gradient.isfinite().all().item<bool>());
  EXPECT_GT(gradient[0].norm().item<double>(), 1e-4);
}

// The result of the tier's `ride` for two riders in layer `index`.
std::string message_of(const config::MemoryConfig& memory, int64_t index) {
  try {
    HookDriver driver(memory, test_backbone(), test_loader(), Phase::kTraining, kLanes);
    PlainLayer layer = test_layer(2);
    for (uint64_t s = 0; s < 2; ++s) {
      driver.begin({.length = 2});
      const Riders& riders = driver.hooks().riders();
      if (riders.count > 0) {
        const at::Tensor q = layer.project(Projector::kQuery, riders.rows, true);
        const at::Tensor rows = at::cat({riders.rows, random({kLanes, 2, kWidth}, 2)}, 1);
        const at::Tensor k = layer.project(Projector::kKey, rows, true);
        driver.hooks().ride(index, riders.rows, q, k, k, layer);
      }
      pass_layer(driver, layer, random({kLanes, 2, kWidth}, s));
      driver.commit();
    }
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

TEST(Riders, RefusesThoseOfATierThatDeclaredNone) {
  const std::string said = message_of(manifest("faulty", "fault = \"riders_undeclared\""), 0);
  EXPECT_THAT(said, testing::HasSubstr("hook begin"));
  EXPECT_THAT(said, testing::HasSubstr("riders need MNEME_TIER_RIDERS in the tier's traits"));
}

TEST(Riders, RefusesAResultOfAnotherShape) {
  const std::string said = message_of(manifest("faulty", "fault = \"ride_shape\""), 0);
  EXPECT_THAT(said, testing::HasSubstr("hook ride, layer 0"));
  EXPECT_THAT(said, testing::HasSubstr("ride: expected [3, 2, 2, 4], got [3, 1, 2, 4]"));
}

TEST(Riders, RefusesATierThatServesSomeLayersOnly) {
  const config::MemoryConfig memory = manifest("riders", "rows = 2\nlayers = [0]");
  EXPECT_EQ(message_of(memory, 0), "");
  EXPECT_THAT(
      message_of(memory, 1),
      testing::AllOf(testing::HasSubstr("a memory with riders must serve every layer; layer "
                                        "1 is left out"),
                     testing::HasSubstr("remove the tier's key `layers`")));
}

// The message of making a stack of these tiers.
std::string refusal_of(const std::string& tiers) {
  try {
    Stack stack(manifest_text(tiers), test_backbone(), test_loader());
    return "";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    return error.what();
  }
}

constexpr const char* kRiders = "[[memory.tier]]\nplugin = \"test_riders\"\n";

TEST(Riders, RefusesTwoTiersWithRiders) {
  EXPECT_THAT(refusal_of(str(kRiders, kRiders)),
              testing::HasSubstr("two tiers put riders into the layer stack"));
}

}  // namespace
}  // namespace mneme::memory
