// Riders: rows that the tier puts into the layer stack.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "host/base/error.hpp"
#include "host/torch.hpp"
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
    ASSERT_EQ(driver.run().riders().count, expected);
    if (expected > 0) {
      EXPECT_TRUE(
          at::equal(driver.run().riders().rows, past.narrow(1, past.size(1) - expected, expected)));
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
  const Riders& riders = driver.run().riders();
  ASSERT_EQ(riders.count, 4);
  const at::Tensor hidden = riders.rows.clone().requires_grad_(true);
  const at::Tensor rows = at::cat({hidden, random({kLanes, 2, kWidth}, 2)}, 1);
  const at::Tensor q = layer.project(Projector::kQuery, hidden, true);
  const at::Tensor k = layer.project(Projector::kKey, rows, true);
  const at::Tensor v = layer.project(Projector::kValue, rows, true);
  const at::Tensor z = driver.run().ride(0, hidden, q, k, v, layer);
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

TEST(Riders, RefusesTwoTiersWithRiders) {
  const config::MemoryConfig memory = manifest_text(
      "[[memory.tier]]\nplugin = \"test_riders\"\n[[memory.tier]]\nplugin = \"test_riders\"\n");
  try {
    Stack stack(memory, test_backbone(), test_loader());
    FAIL() << "two tiers with riders were accepted";
  } catch (const Error& error) {
    EXPECT_THAT(std::string(error.what()),
                testing::HasSubstr("two tiers put riders into the layer stack"));
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
  }
}

}  // namespace
}  // namespace mneme::memory
