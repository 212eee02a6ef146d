// Infini-attention: GATE at HEADS, gradient through state.
#include <gtest/gtest.h>

#include "host/tensor/torch.hpp"
#include "tests/abi/support.hpp"

namespace mneme::memory {
namespace {

at::Tensor sigma(const at::Tensor& x) { return at::elu(x) + 1; }

TEST(Infini, LeavesTheFirstSegmentToLocalAttention) {
  HookDriver driver(manifest("infini"), test_backbone(), test_loader(), Phase::kTraining, kLanes);
  PlainLayer layer = test_layer(3);
  driver.begin({.length = 5});
  const LayerPass pass = pass_layer(driver, layer, random({kLanes, 5, kWidth}, 1));
  EXPECT_TRUE(at::equal(pass.merged, pass.local.z));
}

TEST(Infini, EqualsTheClosedFormInTheThirdSegment) {
  HookDriver driver(manifest("infini"), test_backbone(), test_loader(), Phase::kTraining, kLanes);
  PlainLayer layer = test_layer(4);
  at::Tensor matrix = torch::zeros({kLanes, kHeads, kHeadWidth, kHeadWidth}, at::kDouble);
  at::Tensor total = torch::zeros({kLanes, kHeads, kHeadWidth}, at::kDouble);
  for (uint64_t s = 0; s < 3; ++s) {
    driver.begin({.length = 4});
    const LayerPass pass = pass_layer(driver, layer, random({kLanes, 4, kWidth}, 10 + s));
    if (s > 0) {
      const at::Tensor q = sigma(pass.local.q);
      const at::Tensor out = at::einsum("bthd,bhde->bthe", {q, matrix}) /
                             at::einsum("bthd,bhd->bth", {q, total}).unsqueeze(-1);
      const double a = 1 / (1 + std::exp(-0.5));
      EXPECT_LE((pass.merged - (a * out + (1 - a) * pass.local.z)).abs().max().item<double>(),
                1e-12);
    }
    driver.commit();
    matrix = matrix + at::einsum("bthd,bthe->bhde", {sigma(pass.local.k), pass.local.v});
    total = total + sigma(pass.local.k).sum(1);
  }
}

// Gradient of the second segment's result with respect to the first segment's input.
at::Tensor gradient_through_state(int64_t bptt_segments) {
  HookDriver driver(manifest("infini"), test_backbone(bptt_segments), test_loader(),
                    Phase::kTraining, kLanes);
  PlainLayer layer = test_layer(5);
  const at::Tensor first = random({kLanes, 4, kWidth}, 20).requires_grad_(true);
  driver.begin({.length = 4});
  pass_layer(driver, layer, first);
  driver.commit();
  driver.begin({.length = 4});
  const LayerPass pass = pass_layer(driver, layer, random({kLanes, 4, kWidth}, 21));
  const auto grads = torch::autograd::grad({pass.merged.square().sum()}, {first}, {}, std::nullopt,
                                           false, /*allow_unused=*/true);
  return grads[0];
}

TEST(Infini, TrainsThroughTheStateWithinTheHorizonAndNotBeyond) {
  const at::Tensor through = gradient_through_state(2);
  ASSERT_TRUE(through.defined());
  EXPECT_GT(through.norm().item<double>(), 1e-3);
  EXPECT_FALSE(gradient_through_state(1).defined());
}

TEST(Infini, CutsTheGraphAtTheHorizon) {
  HookDriver driver(manifest("infini"), test_backbone(2), test_loader(), Phase::kTraining, kLanes);
  PlainLayer layer = test_layer(5);
  for (const bool boundary : {false, true, false, true}) {
    driver.begin({.length = 2});
    pass_layer(driver, layer, random({kLanes, 2, kWidth}, 30));
    driver.commit();
    EXPECT_EQ(driver.state().is_graph_boundary(), boundary);
  }
}

TEST(Infini, CutsTheGraphOnRequest) {
  HookDriver driver(manifest("infini"), test_backbone(9), test_loader(), Phase::kTraining, kLanes);
  PlainLayer layer = test_layer(5);
  const at::Tensor x = random({kLanes, 2, kWidth}, 30).requires_grad_(true);
  driver.begin({.length = 2});
  pass_layer(driver, layer, x);
  driver.commit();
  EXPECT_FALSE(driver.state().is_graph_boundary());
  StackState whole = driver.state().clone();
  driver.state().cut_graph();
  EXPECT_TRUE(driver.state().is_graph_boundary());
  EXPECT_FALSE(whole.is_graph_boundary());  // a copy is cut by itself
  driver.begin({.length = 2});
  const LayerPass after = pass_layer(driver, layer, random({kLanes, 2, kWidth}, 31));
  const at::Tensor grad =
      torch::autograd::grad({after.merged[2].sum()}, {x}, {}, true, false, true)[0];
  EXPECT_FALSE(grad.defined());  // nothing reaches the segment before the cut
}

TEST(Infini, ResetOfOneLaneEqualsAFreshLane) {
  PlainLayer layer = test_layer(6);
  const at::Tensor x = random({kLanes, 4, kWidth}, 41);
  HookDriver old(manifest("infini"), test_backbone(), test_loader(), Phase::kTraining, kLanes);
  old.begin({.length = 4});
  pass_layer(old, layer, random({kLanes, 4, kWidth}, 40));
  old.commit();
  old.state().reset({0, 0, 1});
  HookDriver fresh(manifest("infini"), test_backbone(), test_loader(), Phase::kTraining, kLanes);
  for (int s = 0; s < 2; ++s) {
    old.begin({.length = 4});
    fresh.begin({.length = 4});
    const LayerPass a = pass_layer(old, layer, x);
    const LayerPass b = pass_layer(fresh, layer, x);
    EXPECT_TRUE(at::equal(a.merged[2], b.merged[2])) << "segment " << s;
    old.commit();
    fresh.commit();
  }
}

}  // namespace
}  // namespace mneme::memory
