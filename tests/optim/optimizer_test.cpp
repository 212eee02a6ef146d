#include "host/optim/optimizer.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "host/backbone/linear.hpp"
#include "host/tensor/host_kernels.hpp"
#include "host/tensor/padded_product.hpp"
#include "host/tensor/torch.hpp"
#include "tests/base/temporary_folder.hpp"

namespace mneme::train {
namespace {

at::Tensor leaf(at::IntArrayRef shape, at::ScalarType dtype, std::uint64_t seed) {
  torch::manual_seed(seed);
  return torch::randn(shape, dtype).set_requires_grad(true);
}

void set_gradient(const optim::TrainableParameter& parameter, const at::Tensor& gradient) {
  at::Tensor tensor = parameter.tensor;
  tensor.mutable_grad() = gradient.to(tensor.scalar_type());
}

// Adam of one tensor in plain loops over doubles.
struct NaiveAdam {
  std::vector<double> p, m, v;
  int64_t t = 0;

  explicit NaiveAdam(const at::Tensor& tensor) {
    const at::Tensor flat = tensor.detach().to(at::kDouble).reshape(-1);
    for (int64_t i = 0; i < flat.numel(); ++i) p.push_back(flat[i].item<double>());
    m.assign(p.size(), 0.0);
    v.assign(p.size(), 0.0);
  }
  void step(const at::Tensor& gradient, double lr, double decay, const optim::OptimizerOptions& o) {
    ++t;
    const at::Tensor flat = gradient.to(at::kDouble).reshape(-1);
    const bool is_decoupled = o.kind == config::Optimizer::kAdamW;
    for (std::size_t i = 0; i < p.size(); ++i) {
      double g = flat[static_cast<int64_t>(i)].item<double>();
      if (is_decoupled) p[i] -= lr * decay * p[i];
      if (!is_decoupled) g += decay * p[i];
      m[i] = o.beta1 * m[i] + (1 - o.beta1) * g;
      v[i] = o.beta2 * v[i] + (1 - o.beta2) * g * g;
      const double mean = m[i] / (1 - std::pow(o.beta1, static_cast<double>(t)));
      const double square = v[i] / (1 - std::pow(o.beta2, static_cast<double>(t)));
      p[i] -= lr * mean / (std::sqrt(square) + o.eps);
    }
  }
  double distance(const at::Tensor& tensor) const {
    const at::Tensor ours = tensor.detach().to(at::kDouble).reshape(-1);
    return (ours - torch::tensor(p, at::kDouble)).abs().max().item<double>();
  }
};

class AdamKinds : public testing::TestWithParam<std::tuple<config::Optimizer, at::ScalarType>> {};

TEST_P(AdamKinds, AgreeWithPlainLoopsForEveryGroup) {
  const auto [kind, dtype] = GetParam();
  // 37 and 5 x 13 are no multiples of a vector register.
  std::vector<optim::TrainableParameter> parameters = {{"a", leaf({37}, dtype, 1), 1e-2, 0.0},
                                                       {"b", leaf({5, 13}, dtype, 2), 1e-2, 0.1},
                                                       {"c", leaf({1}, dtype, 3), 3e-3, 0.0}};
  const optim::OptimizerOptions options{.kind = kind, .beta1 = 0.8, .beta2 = 0.95, .eps = 1e-6};
  optim::Optimizer adam(parameters, options);
  std::vector<NaiveAdam> naive;
  for (const auto& parameter : parameters) naive.emplace_back(parameter.tensor);
  for (int step = 0; step < 7; ++step) {
    const double factor = 1.0 / (1 + step);
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      torch::manual_seed(100 + static_cast<std::uint64_t>(step));
      const at::Tensor gradient = torch::randn(parameters[i].tensor.sizes(), dtype);
      set_gradient(parameters[i], gradient);
      naive[i].step(gradient, parameters[i].lr * factor, parameters[i].weight_decay, options);
    }
    adam.step(factor);
  }
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    EXPECT_LE(naive[i].distance(parameters[i].tensor), dtype == at::kDouble ? 1e-14 : 1e-6)
        << parameters[i].name;
  }
}

INSTANTIATE_TEST_SUITE_P(All, AdamKinds,
                         testing::Combine(testing::Values(config::Optimizer::kAdam,
                                                          config::Optimizer::kAdamW),
                                          testing::Values(at::kDouble, at::kFloat)));

// One step from zero moments moves every number by lr times the sign of its gradient; with Adam the
// decay enters the gradient and vanishes in that sign, with AdamW it does not.
TEST(Adam, CouplesTheDecayAndAdamWDoesNot) {
  for (const auto kind : {config::Optimizer::kAdam, config::Optimizer::kAdamW}) {
    std::vector<optim::TrainableParameter> parameters = {
        {"a", torch::full({1}, 2.0, at::kDouble).set_requires_grad(true), 0.1, 0.5}};
    optim::Optimizer adam(parameters, optim::OptimizerOptions{.kind = kind, .eps = 0.0});
    set_gradient(parameters[0], torch::ones({1}));
    adam.step(1.0);
    const double expected = kind == config::Optimizer::kAdam ? 1.9 : 2.0 - 0.1 * 0.5 * 2.0 - 0.1;
    EXPECT_NEAR(parameters[0].tensor.item<double>(), expected, 1e-12);
  }
}

TEST(Adam, SkipsParametersWithoutGradient) {
  std::vector<optim::TrainableParameter> parameters = {
      {"used", leaf({3}, at::kDouble, 1), 0.1, 0.5},
      {"unused", leaf({3}, at::kDouble, 2), 0.1, 0.5}};
  optim::Optimizer adam(parameters, {});
  for (const auto& parameter : parameters) set_gradient(parameter, torch::ones({3}));
  adam.step(1.0);
  adam.zero_grad();
  EXPECT_FALSE(parameters[0].tensor.grad().defined());
  const at::Tensor before = parameters[1].tensor.detach().clone();
  const at::Tensor mean = adam.moments()[1].mean.clone();
  set_gradient(parameters[0], torch::ones({3}));
  adam.step(1.0);
  EXPECT_TRUE(at::equal(parameters[1].tensor, before));
  EXPECT_TRUE(at::equal(adam.moments()[1].mean, mean));
  EXPECT_EQ(adam.moments()[0].count.item<float>(), 2.0F);
  EXPECT_EQ(adam.moments()[1].count.item<float>(), 1.0F);
}

TEST(Adam, ClipsTheGlobalNorm) {
  std::vector<optim::TrainableParameter> parameters = {{"a", leaf({2}, at::kDouble, 1), 0.1, 0.0},
                                                       {"b", leaf({1}, at::kDouble, 2), 0.1, 0.0},
                                                       {"c", leaf({4}, at::kDouble, 3), 0.1, 0.0}};
  optim::Optimizer adam(parameters, {});
  EXPECT_EQ(adam.gradient_norm().item<double>(), 0.0);  // no gradient at all
  set_gradient(parameters[0], torch::tensor({2.0, 3.0}, at::kDouble));
  set_gradient(parameters[1], torch::tensor({6.0}, at::kDouble));
  const double norm = adam.gradient_norm().item<double>();
  EXPECT_DOUBLE_EQ(norm, 7.0);
  adam.clip(norm, 10.0);  // below: untouched
  EXPECT_EQ(parameters[1].tensor.grad().item<double>(), 6.0);
  adam.clip(norm, 0.7);
  EXPECT_NEAR(adam.gradient_norm().item<double>(), 0.7, 1e-6);
  EXPECT_NEAR(parameters[1].tensor.grad().item<double>(), 6.0 * 0.7 / (7.0 + 1e-6), 1e-15);
  EXPECT_FALSE(parameters[2].tensor.grad().defined());
}

// A norm that is on the device, and a step that is skipped there.
TEST(Adam, ClipsAndSkipsByTensors) {
  for (const auto kind : {config::Optimizer::kAdam, config::Optimizer::kAdamW}) {
    for (const at::ScalarType dtype : {at::kDouble, at::kFloat}) {
      std::vector<optim::TrainableParameter> ours, theirs;
      for (auto* const side : {&ours, &theirs}) {
        side->push_back({"a", leaf({37}, dtype, 1), 1e-2, 0.1});
        side->push_back({"b", leaf({5}, dtype, 2), 1e-2, 0.0});
      }
      optim::Optimizer by_tensors(ours, {.kind = kind}), by_numbers(theirs, {.kind = kind});
      const auto expect_same = [&] {
        for (std::size_t i = 0; i < ours.size(); ++i) {
          const optim::Optimizer::Moments &a = by_tensors.moments()[i],
                                          &b = by_numbers.moments()[i];
          EXPECT_TRUE(ours[i].tensor.equal(theirs[i].tensor));
          EXPECT_TRUE(a.mean.equal(b.mean) && a.square.equal(b.square) && a.count.equal(b.count));
        }
      };
      const auto set_gradients = [&](std::vector<optim::TrainableParameter>& side, int step) {
        for (std::size_t i = 0; i < side.size(); ++i) {
          set_gradient(side[i], leaf(side[i].tensor.sizes(), dtype,
                                     10 + 2 * static_cast<std::uint64_t>(step) + i)
                                    .detach());
        }
      };
      for (int step = 0; step < 4; ++step) {
        set_gradients(ours, step);
        set_gradients(theirs, step);
        const double most = step == 1 ? 100.0 : 0.3;  // not clipped in the second step
        by_numbers.clip(by_numbers.gradient_norm().item<double>(), most);
        by_tensors.clip(by_tensors.gradient_norm(), most);
        by_numbers.step(0.5);
        by_tensors.step(0.5, torch::zeros({}));
        expect_same();
        set_gradients(ours, step);
        ours[0].tensor.mutable_grad().mul_(std::nan(""));
        by_tensors.clip(by_tensors.gradient_norm(), most);
        by_tensors.step(0.5, torch::ones({}));
        expect_same();
      }
    }
  }
}

// By the definition of the kernel for CUDA, beside LibTorch's operation. The first two parameters
// have copies that products read, whose rows lie apart.
TEST(Adam, WritesCopiesOfWeights) {
  const tensor::WithPaddedProducts padded;
  const tensor::WithRowKernels kernels(kernel::row_definitions(), nullptr,
                                       &kernel::AdamKernels::by_definition());
  for (const auto kind : {config::Optimizer::kAdam, config::Optimizer::kAdamW}) {
    std::vector<optim::TrainableParameter> ours, theirs;
    for (auto* const side : {&ours, &theirs}) {
      side->push_back({"a", leaf({37}, at::kFloat, 1), 1e-2, 0.1});
      side->push_back({"b", leaf({3, 5}, at::kFloat, 2), 1e-2, 0.1});
      side->push_back({"none", leaf({4}, at::kFloat, 3), 1e-2, 0.1});
      side->push_back({"another group", leaf({4}, at::kFloat, 4), 1e-2, 0.0});
    }
    backbone::ConvertedWeights converted;
    std::vector<at::Tensor> copies;
    for (int i = 0; i < 2; ++i)
      copies.push_back(converted.get(ours[i].tensor.detach(), at::kBFloat16));
    EXPECT_EQ(copies[1].stride(0), 8);
    optim::Optimizer with_copies(ours, {.kind = kind}, &converted), without(theirs, {.kind = kind});
    EXPECT_EQ(with_copies.rates(1.0).scalar_type(), at::kFloat);
    for (int step = 0; step < 4; ++step) {
      const at::Tensor skip = torch::full({}, step == 2 ? 1.0 : 0.0);
      for (std::size_t i = 0; i < ours.size(); ++i) {
        const at::Tensor gradient = leaf(ours[i].tensor.sizes(), at::kFloat, 10 + i).detach();
        set_gradient(ours[i], gradient);
        set_gradient(theirs[i], gradient);
      }
      const at::Tensor before = copies[0].clone();
      with_copies.step(0.5, skip);
      without.step(0.5, skip);
      for (std::size_t i = 0; i < ours.size(); ++i) {
        const optim::Optimizer::Moments &a = with_copies.moments()[i], &b = without.moments()[i];
        EXPECT_TRUE(at::allclose(ours[i].tensor, theirs[i].tensor, 1e-6, 1e-7)) << ours[i].name;
        EXPECT_TRUE(at::allclose(a.mean, b.mean) && at::allclose(a.square, b.square));
        EXPECT_TRUE(a.count.equal(b.count));
      }
      EXPECT_EQ(at::equal(copies[0], before), step == 2);
      for (std::size_t i = 0; i < copies.size(); ++i)
        EXPECT_TRUE(at::equal(copies[i], ours[i].tensor.to(at::kBFloat16))) << ours[i].name;
    }
    EXPECT_EQ(with_copies.changed().size(), 4 * ours.size() + copies.size());
    // Only writes of others are followed by a conversion.
    const at::NoGradGuard no_grad;
    ours[0].tensor.fill_(3.0);
    converted.weights_changed(/*by_optimizer=*/true);
    EXPECT_FALSE(at::equal(copies[0], ours[0].tensor.to(at::kBFloat16)));
    converted.weights_changed();
    EXPECT_TRUE(at::equal(copies[0], ours[0].tensor.to(at::kBFloat16)));
  }
}

// Also where an evaluation may add a copy later: it would change the bits of a training.
TEST(Adam, UpdatesGroupsWithoutCopiesByTheKernelToo) {
  static std::int64_t updated = 0;
  const kernel::AdamKernels counts = {[](const kernel::AdamRule&, const kernel::AdamTensor*,
                                         std::int64_t count, void*) -> const char* {
    updated += count;
    return nullptr;
  }};
  const tensor::WithRowKernels kernels(kernel::row_definitions(), nullptr, &counts);
  std::vector<optim::TrainableParameter> parameters = {{"a", leaf({3}, at::kFloat, 1), 0.1, 0.0},
                                                       {"b", leaf({3}, at::kFloat, 2), 0.1, 0.5}};
  backbone::ConvertedWeights converted;
  converted.get(parameters[0].tensor.detach(), at::kBFloat16);
  optim::Optimizer adam(parameters, {}, &converted);
  for (optim::TrainableParameter& parameter : parameters) set_gradient(parameter, torch::ones({3}));
  adam.step(1.0);
  EXPECT_EQ(updated, 2);
}

TEST(Adam, SaysWhatItsKernelSays) {
  const kernel::AdamKernels fails = {[](const kernel::AdamRule&, const kernel::AdamTensor*,
                                        std::int64_t, void*) { return "invalid argument"; }};
  const tensor::WithRowKernels kernels(kernel::row_definitions(), nullptr, &fails);
  std::vector<optim::TrainableParameter> parameters = {{"a", leaf({3}, at::kFloat, 1), 0.1, 0.0}};
  backbone::ConvertedWeights converted;
  converted.get(parameters[0].tensor.detach(), at::kBFloat16);
  optim::Optimizer adam(parameters, {}, &converted);
  set_gradient(parameters[0], torch::ones({3}));
  EXPECT_THAT(test::error_of([&] { adam.step(1.0); }),
              testing::HasSubstr("update of parameters: invalid argument"));
}

TEST(Adam, NamesGradientsThatAreNotFinite) {
  std::vector<optim::TrainableParameter> parameters = {{"fine", leaf({2}, at::kFloat, 1), 0.1, 0.0},
                                                       {"nan", leaf({2}, at::kFloat, 2), 0.1, 0.0},
                                                       {"inf", leaf({2}, at::kFloat, 3), 0.1, 0.0}};
  optim::Optimizer adam(parameters, {});
  set_gradient(parameters[0], torch::ones({2}));
  set_gradient(parameters[1], torch::tensor({1.0, std::nan("")}));
  set_gradient(parameters[2], torch::tensor({std::numeric_limits<double>::infinity(), 1.0}));
  EXPECT_THAT(adam.non_finite_gradients(), testing::ElementsAre("nan", "inf"));
}

}  // namespace
}  // namespace mneme::train
