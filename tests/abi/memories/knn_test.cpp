// The kNN memory: context at HEADS with LSE merge, a queue of keys and values.
#include <gtest/gtest.h>

#include "host/tensor/torch.hpp"
#include "tests/abi/support.hpp"

namespace mneme::memory {
namespace {

// With as many neighbours as rows, the joint softmax is attention over memory and segment together.
at::Tensor union_attention(PlainLayer& layer, const at::Tensor& past, const at::Tensor& x) {
  AttentionCall call;
  const at::Tensor all = at::cat({past, x}, 1);
  call.q = layer.project(Projector::kQuery, x, true);
  call.k = layer.project(Projector::kKey, all, true);
  call.v = layer.project(Projector::kValue, all, true);
  call.query_offset = past.size(1);
  return layer.attention(call).z;
}

TEST(Knn, EqualsAttentionOverTheUnionWhenAllRowsAreNeighbours) {
  HookDriver driver(manifest("knn", "rows = 64\nneighbours = 64"), test_backbone(), test_loader(),
                    Phase::kTraining, kLanes);
  PlainLayer layer = test_layer(3);
  at::Tensor past = torch::zeros({kLanes, 0, kWidth}, at::kDouble);
  for (const int64_t length : {5, 1, 7}) {
    const at::Tensor x = random({kLanes, length, kWidth}, 40 + static_cast<uint64_t>(length));
    driver.begin({.length = length});
    const LayerPass pass = pass_layer(driver, layer, x);
    EXPECT_LE((pass.merged - union_attention(layer, past, x)).abs().max().item<double>(), 1e-12)
        << "segment of " << length;
    driver.commit();
    past = at::cat({past, x}, 1);
  }
}

TEST(Knn, GivesGradientsOfTheUnionToQueriesAndKeepsStoredKeysConstant) {
  HookDriver driver(manifest("knn", "rows = 64\nneighbours = 64"), test_backbone(), test_loader(),
                    Phase::kTraining, kLanes);
  PlainLayer layer = test_layer(4);
  const at::Tensor first = random({kLanes, 4, kWidth}, 50);
  driver.begin({.length = 4});
  pass_layer(driver, layer, first);
  driver.commit();
  const at::Tensor x = random({kLanes, 3, kWidth}, 51).requires_grad_(true);
  driver.begin({.length = 3});
  const LayerPass pass = pass_layer(driver, layer, x);
  const at::Tensor weights = random(pass.merged.sizes(), 52);
  const at::Tensor query = layer.weight(LayerWeight::kQuery);
  const auto ours = torch::autograd::grad({(pass.merged * weights).sum()}, {x, query});
  // The same with the past projected by constant weights.
  AttentionCall call;
  const auto both = [&](Projector which) {
    return at::cat({layer.project(which, first, true).detach(), layer.project(which, x, true)}, 1);
  };
  call.q = layer.project(Projector::kQuery, x, true);
  call.k = both(Projector::kKey);
  call.v = both(Projector::kValue);
  call.query_offset = 4;
  const auto theirs =
      torch::autograd::grad({(layer.attention(call).z * weights).sum()}, {x, query});
  for (std::size_t i = 0; i < ours.size(); ++i)
    EXPECT_LE((ours[i] - theirs[i]).norm().item<double>(), 1e-12 * theirs[i].norm().item<double>())
        << i;
}

TEST(Knn, ReadsNothingInALaneThatWasReset) {
  HookDriver driver(manifest("knn", "rows = 64\nneighbours = 64"), test_backbone(), test_loader(),
                    Phase::kTraining, kLanes);
  PlainLayer layer = test_layer(5);
  driver.begin({.length = 4});
  pass_layer(driver, layer, random({kLanes, 4, kWidth}, 60));
  driver.commit();
  driver.state().reset({0, 1, 0});
  const at::Tensor x = random({kLanes, 3, kWidth}, 61).requires_grad_(true);
  driver.begin({.length = 3});
  const LayerPass pass = pass_layer(driver, layer, x);
  EXPECT_TRUE(at::equal(pass.merged[1], pass.local.z[1]));
  EXPECT_GT((pass.merged[0] - pass.local.z[0]).abs().max().item<double>(), 1e-3);
  const at::Tensor gradient = torch::autograd::grad({pass.merged.sum()}, {x})[0];
  EXPECT_TRUE(gradient.isfinite().all().item<bool>());
}

TEST(Knn, KeepsTheNewestRows) {
  HookDriver driver(manifest("knn", "rows = 6\nneighbours = 64"), test_backbone(), test_loader(),
                    Phase::kEvaluation, kLanes);
  PlainLayer layer = test_layer(6);
  const torch::NoGradGuard no_grad;
  at::Tensor past = torch::zeros({kLanes, 0, kWidth}, at::kDouble);
  for (uint64_t s = 0; s < 4; ++s) {
    const at::Tensor x = random({kLanes, 4, kWidth}, 70 + s);
    driver.begin({.length = 4});
    const LayerPass pass = pass_layer(driver, layer, x);
    EXPECT_LE((pass.merged - union_attention(layer, past, x)).abs().max().item<double>(), 1e-12)
        << "segment " << s;
    driver.commit();
    past = at::cat({past, x}, 1);
    past =
        past.narrow(1, std::max<int64_t>(0, past.size(1) - 6), std::min<int64_t>(6, past.size(1)));
  }
  // k and v [3,6,2,4] in f64.
  EXPECT_EQ(driver.state().bytes(), 2 * 3 * 6 * 2 * 4 * 8);
}

}  // namespace
}  // namespace mneme::memory
