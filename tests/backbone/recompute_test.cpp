// train.recompute: the feed-forward part computed a second time in the backward pass.
#include "host/tensor/recompute.hpp"

#include <gtest/gtest.h>

#include "host/backbone/model.hpp"
#include "host/tensor/torch.hpp"
#include "tests/backbone/support.hpp"

namespace mneme::backbone {
namespace {

// Both graphs run the same operations on the same numbers, masks included.
TEST(Recompute, GivesTheSameLossAndGradientsBitForBit) {
  std::vector<NamedConfig> models = small_decoders();
  models.push_back({"xl", small_config()});
  models.push_back(small_gemma());
  for (const NamedConfig& one : models) {
    for (const bool is_bf16 : {false, true}) {
      config::ModelConfig config = one.model;
      config.dropout = 0.25;
      const auto kept = results_of(config, false, is_bf16),
                 again = results_of(config, true, is_bf16);
      ASSERT_EQ(kept.size(), again.size()) << one.name;
      ASSERT_GT(kept.size(), 10U) << one.name;
      for (const auto& [name, value] : kept) {
        EXPECT_TRUE(at::equal(value, again.at(name))) << one.name << ": " << name;
      }
    }
  }
}

// An inner tensor of the part lives until backward, or with recomputed() not beyond the forward.
TEST(Recompute, KeepsTheInputsAlone) {
  const at::Tensor x = at::rand({8, 4}, at::kDouble).requires_grad_(true);
  c10::weak_intrusive_ptr<c10::TensorImpl> inner(x.getIntrusivePtr());
  const tensor::PureFunction part = [&](const std::vector<at::Tensor>& given) {
    const at::Tensor squared = given[0].exp();  // exp keeps its result for backward
    inner = c10::weak_intrusive_ptr<c10::TensorImpl>(squared.getIntrusivePtr());
    return squared * given[1];
  };
  const at::Tensor weight = at::rand({4}, at::kDouble).requires_grad_(true);
  const at::Tensor plain = part({x, weight});
  EXPECT_FALSE(inner.expired());
  const at::Tensor again = tensor::recomputed(part, {x, weight});
  EXPECT_TRUE(inner.expired());
  const auto expected = torch::autograd::grad({plain.sum()}, {x, weight});
  const auto got = torch::autograd::grad({again.sum()}, {x, weight});
  EXPECT_TRUE(at::equal(got[0], expected[0]));
  EXPECT_TRUE(at::equal(got[1], expected[1]));
}

TEST(Recompute, GivesNoGradientToWhatNeedsNone) {
  const at::Tensor x = at::rand({3}, at::kDouble).requires_grad_(true);
  const at::Tensor constant = at::rand({3}, at::kDouble);
  int calls = 0;
  const at::Tensor out = tensor::recomputed(
      [&](const std::vector<at::Tensor>& given) {
        ++calls;
        return given[0] * given[1];
      },
      {x, constant});
  out.sum().backward();
  EXPECT_EQ(calls, 2);
  EXPECT_TRUE(at::equal(x.grad(), constant));
  EXPECT_FALSE(constant.grad().defined());
}

}  // namespace
}  // namespace mneme::backbone
