// Copies of parameters in the type of products.
#include "host/backbone/linear.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "host/backbone/model.hpp"
#include "host/tensor/host_kernels.hpp"
#include "host/tensor/padded_product.hpp"
#include "host/tensor/torch.hpp"
#include "tests/backbone/support.hpp"

namespace mneme::backbone {
namespace {

TEST(ConvertedWeights, AreKeptInAnEvaluationUntilTheyChange) {
  ModelSetup s = small_setup();
  s.dtype = at::kFloat;
  s.bf16_autocast = true;
  const auto model = make_model(small_config(), s);
  model->train(false);
  const Batch batch = batch_of(2, 6, 11);
  const at::NoGradGuard no_grad;
  const auto loss = [&](Model& of) { return run_plain(of, small_config(), s, batch).nll; };
  const at::Tensor before = loss(*model);
  const auto other = make_model(small_config(), s);
  other->train(false);
  for (const auto* one : {model.get(), other.get()}) {
    for (const Parameter& p : one->parameters()) {
      if (p.name.ends_with("ff.in.weight") || p.name.ends_with("qkv.weight")) {
        at::Tensor(p.tensor).mul_(2.0);
      }
    }
  }
  EXPECT_TRUE(at::equal(loss(*model), before)) << "a weight was converted again";
  model->weights_changed();
  EXPECT_FALSE(at::equal(loss(*model), before));
  EXPECT_TRUE(at::equal(loss(*model), loss(*other)));
}

TEST(ConvertedWeights, ConvertAParameterOnceUntilItChanges) {
  ConvertedWeights kept;
  const at::Tensor weight = at::ones({2, 3}, at::kFloat).requires_grad_(true);
  const auto get = [&](const at::Tensor& of) { return kept.get(of, at::kBFloat16); };
  const at::Tensor first = get(weight), second = get(weight);
  EXPECT_EQ(first.scalar_type(), at::kBFloat16);
  EXPECT_EQ(first.data_ptr(), second.data_ptr()) << "the parameter was converted again";
  (first.sum() * 2.0 + second.sum()).backward();
  EXPECT_EQ(weight.grad().scalar_type(), at::kFloat);
  EXPECT_TRUE(at::equal(weight.grad(), at::full({2, 3}, 3.0, at::kFloat)));
  {
    const at::NoGradGuard no_grad;
    EXPECT_EQ(get(weight).data_ptr(), first.data_ptr());
    EXPECT_FALSE(get(weight).requires_grad());
    EXPECT_TRUE(kept.get(weight, at::kFloat).is_same(weight));
    at::Tensor(weight).mul_(5.0);
  }
  // As a pass that is computed again reads it.
  EXPECT_EQ(get(weight.detach().requires_grad_()).data_ptr(), first.data_ptr());
  kept.weights_changed();
  EXPECT_EQ(get(weight).data_ptr(), first.data_ptr());
  EXPECT_EQ(get(weight).sum().item<float>(), 30.0F);
  // No other weight gets the memory of one that has moved, and with it a copy of other numbers.
  const c10::Storage before = weight.storage();
  at::Tensor(weight).set_data(at::zeros({2, 3}, at::kFloat));
  EXPECT_EQ(get(weight).sum().item<float>(), 0.0F);
  EXPECT_GT(before.use_count(), 1U);
}

// What is computed in each pass has no copy that another one might take for its own.
TEST(ConvertedWeights, ConvertAComputedWeightEachTime) {
  ConvertedWeights kept;
  const at::Tensor parameter = at::ones({2, 3}, at::kFloat).requires_grad_(true);
  at::Tensor computed = parameter * 2.0;
  const at::Tensor first = kept.get(computed, at::kBFloat16);
  EXPECT_NE(kept.get(computed, at::kBFloat16).data_ptr(), first.data_ptr());
  first.sum().backward();
  EXPECT_TRUE(at::equal(parameter.grad(), at::full({2, 3}, 2.0, at::kFloat)));
  const at::NoGradGuard no_grad;
  const at::Tensor once = kept.get(computed.detach(), at::kBFloat16);
  EXPECT_TRUE(kept.get(computed.detach(), at::kBFloat16).is_same(once));
  computed.reset();
  kept.weights_changed();
  EXPECT_EQ(once.use_count(), 1U) << "the copy of a weight that is gone is kept";
}

TEST(ConvertedWeights, ConvertAFrozenWeightOnceInATraining) {
  ConvertedWeights kept;
  const at::Tensor weight = at::ones({2, 3}, at::kFloat);
  const at::Tensor first = kept.get(weight, at::kBFloat16);
  EXPECT_FALSE(first.requires_grad());
  EXPECT_TRUE(kept.get(weight, at::kBFloat16).is_same(first));
  kept.weights_changed();
  EXPECT_TRUE(kept.get(weight, at::kBFloat16).is_same(first)) << "it was forgotten";
  // As a part of a pass that is computed again reads it.
  const at::Tensor again = kept.get(weight.detach().requires_grad_(), at::kBFloat16);
  EXPECT_EQ(again.data_ptr(), first.data_ptr());
  weight.mul_(5.0);
  kept.weights_changed();
  EXPECT_EQ(kept.get(weight, at::kBFloat16).sum().item<float>(), 30.0F);
  EXPECT_FALSE(kept.get(at::Tensor(), at::kBFloat16).defined());
}

TEST(ConvertedWeights, GiveRowsTheirPartOfACopy) {
  ConvertedWeights kept;
  const at::Tensor weight = at::arange(12, at::kFloat).view({4, 3}).requires_grad_(true);
  const at::Tensor rows = weight.narrow(0, 1, 2);
  const at::Tensor low = kept.get_rows(weight, 1, rows, at::kBFloat16);
  EXPECT_TRUE(at::equal(low, rows.to(at::kBFloat16)));
  EXPECT_EQ(low.data_ptr(), kept.get(weight, at::kBFloat16).narrow(0, 1, 2).data_ptr());
  low.sum().backward();
  EXPECT_TRUE(at::equal(weight.grad().sum(1), at::tensor({0.0, 3.0, 3.0, 0.0}, at::kFloat)));
  EXPECT_TRUE(kept.get_rows(weight, 1, rows, at::kFloat).is_same(rows));
  const at::Tensor frozen = at::ones({4, 3}, at::kFloat);
  EXPECT_FALSE(kept.get_rows(frozen, 1, frozen.narrow(0, 1, 2), at::kBFloat16).requires_grad());
}

// Gradients of a training in bf16 that converts weights once, and of one that does it each time.
void expect_trains_as_new_copies(const config::ModelConfig& config) {
  ModelSetup s = small_setup();
  s.dtype = at::kFloat;
  s.bf16_autocast = true;
  const auto model = make_model(config, s), other = make_model(config, s);
  const Batch batch = batch_of(2, 6, 11);
  for (int step = 0; step < 3; ++step) {
    for (Model* const one : {model.get(), other.get()}) {
      for (const Parameter& p : one->parameters())
        at::Tensor(p.tensor).mutable_grad() = at::Tensor();
      run_plain(*one, config, s, batch).nll.mean().backward();
      const at::NoGradGuard no_grad;
      for (const Parameter& p : one->parameters()) {
        if (p.tensor.grad().defined()) at::Tensor(p.tensor).sub_(p.tensor.grad());
      }
      one->weights_changed();
    }
    // The other has copies of new memory, as a resumed training has.
    const at::NoGradGuard no_grad;
    for (const Parameter& p : other->parameters()) at::Tensor(p.tensor).set_data(p.tensor.clone());
  }
  for (std::size_t i = 0; i < model->parameters().size(); ++i) {
    const Parameter one = model->parameters()[i], two = other->parameters()[i];
    EXPECT_TRUE(at::equal(one.tensor, two.tensor)) << one.name;
  }
}

// Also of a table that embedding and softmax share, and of its clusters.
TEST(ConvertedWeights, TrainAsNewCopiesDo) {
  config::ModelConfig config = small_config();
  ASSERT_TRUE(config.tie_embedding);
  expect_trains_as_new_copies(config);
  config.adaptive = config::AdaptiveConfig{{4, 9}, 1, config.embedding, {}};
  expect_trains_as_new_copies(config);
}

// Losses and gradients of a model none of whose widths is a multiple of 8, with padded products and
// without. Names, sizes and shapes are the same.
void expect_trains_as_without_padding(const config::ModelConfig& config) {
  ModelSetup s = small_setup();
  s.dtype = at::kFloat;
  s.bf16_autocast = true;
  const auto plain = make_model(config, s), padded = make_model(config, s);
  const Batch batch = batch_of(2, 6, 11);
  const at::Tensor expected = run_plain(*plain, config, s, batch).nll;
  expected.mean().backward();
  const tensor::WithPaddedProducts on_the_cpu;
  const at::Tensor nll = run_plain(*padded, config, s, batch).nll;
  nll.mean().backward();
  EXPECT_TRUE(at::allclose(nll, expected, 0.0, 0.02));
  for (std::size_t i = 0; i < plain->parameters().size(); ++i) {
    const Parameter one = plain->parameters()[i], two = padded->parameters()[i];
    ASSERT_EQ(one.tensor.sizes(), two.tensor.sizes());
    const at::Tensor a = one.tensor.grad(), b = two.tensor.grad();
    ASSERT_EQ(a.defined(), b.defined()) << one.name;
    if (!a.defined()) continue;
    EXPECT_LE((a - b).norm().item<float>(), 0.03F * a.norm().item<float>() + 1e-4F) << one.name;
  }
  const auto qkv = std::ranges::find_if(padded->parameters(), [](const Parameter& p) {
    return p.name == "layers.0.attention.qkv.weight";
  });
  EXPECT_EQ(padded->converted().written_with(qkv->tensor).stride(0), 16);
  const at::NoGradGuard no_grad;
  plain->train(false);
  padded->train(false);
  EXPECT_TRUE(at::allclose(run_plain(*padded, config, s, batch).nll,
                           run_plain(*plain, config, s, batch).nll, 0.0, 0.02));
}

void expect_models_train_as_without_padding() {
  config::ModelConfig config = small_config();  // widths 12, 15 and 45
  config.ff = 21;
  expect_trains_as_without_padding(config);
  config.tie_embedding = false;
  config.adaptive = config::AdaptiveConfig{{4, 9}, 1, config.embedding, {}};
  expect_trains_as_without_padding(config);
  for (const NamedConfig& decoder : small_decoders()) {
    SCOPED_TRACE(decoder.name);
    expect_trains_as_without_padding(decoder.model);
  }
}

TEST(PaddedModel, TrainsAsWithoutPadding) { expect_models_train_as_without_padding(); }

// Whose rows lie densely.
TEST(PaddedModel, TrainsAsWithoutPaddingByKernels) {
  const tensor::WithRowKernels kernels(kernel::row_definitions(),
                                       &kernel::CrossEntropyKernels::by_definition());
  expect_models_train_as_without_padding();
}

}  // namespace
}  // namespace mneme::backbone
