// Losses by the kernels of a device, whose place their definition takes here, on the CPU.
#include "host/backbone/embedding/device_nll.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <utility>
#include <vector>

#include "host/backbone/embedding/linear_nll.hpp"
#include "host/base/error.hpp"
#include "host/tensor/device.hpp"
#include "host/tensor/dispatch/trace.hpp"
#include "host/tensor/host_kernels.hpp"
#include "host/tensor/padded_product.hpp"
#include "host/tensor/torch.hpp"
#include "tests/backbone/support.hpp"

namespace mneme::backbone {
namespace {

const kernel::CrossEntropyKernels& definition() {
  return kernel::CrossEntropyKernels::by_definition();
}

// A layer of random numbers that are exact in bf16; without targets in places.
struct OutputLayer {
  at::Tensor x, weight, bias, target, scale;

  OutputLayer(std::int64_t rows, std::int64_t width, std::int64_t ids, at::ScalarType type)
      : x(rounded(random_tensor(31, {rows, width})).to(type)),
        weight(rounded(random_tensor(32, {ids, width})).to(type)),
        bias(rounded(random_tensor(33, {ids})).to(type == at::kBFloat16 ? at::kFloat : type)),
        target((at::arange(rows, at::kLong) * 37).remainder(ids)),
        scale(random_tensor(34, {rows})) {
    if (rows > 1) target[1] = -1;
  }
  static at::Tensor rounded(const at::Tensor& t) { return t.to(at::kBFloat16); }
};

// Losses, then gradients of x, weight and bias, all in f64.
struct LossNumbers {
  std::vector<at::Tensor> numbers;
  at::Tensor best;
};

template <typename Nll>
LossNumbers loss_numbers(const OutputLayer& layer, bool has_bias, const Nll& nll_of) {
  LossNumbers out;
  std::vector<at::Tensor> leaves = {layer.x, layer.weight};
  if (has_bias) leaves.push_back(layer.bias);
  for (at::Tensor& t : leaves) t = t.detach().clone().set_requires_grad(true);
  const at::Tensor bias = has_bias ? leaves[2] : at::Tensor();
  const at::Tensor nll = nll_of(leaves[0], leaves[1], bias, out.best);
  (nll * layer.scale.to(nll.scalar_type())).sum().backward();
  out.numbers.push_back(nll.detach().to(at::kDouble));
  for (const at::Tensor& t : leaves) {
    EXPECT_EQ(t.grad().scalar_type(), t.scalar_type());
    out.numbers.push_back(t.grad().to(at::kDouble));
  }
  return out;
}

LossNumbers by_kernels(const OutputLayer& layer, bool has_bias, const LogitLimits& limits) {
  return loss_numbers(
      layer, has_bias,
      [&](const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, at::Tensor& best) {
        return linear_nll_by(definition(), x, {weight}, bias, layer.target, &best, limits);
      });
}

// Operations in f64 on logits that are rounded as the product rounds them.
LossNumbers by_operations(const OutputLayer& layer, bool has_bias) {
  const at::ScalarType type = layer.x.scalar_type();
  return loss_numbers(
      layer, has_bias,
      [&](const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, at::Tensor& best) {
        at::Tensor logits = at::mm(x.to(at::kDouble), weight.to(at::kDouble).t());
        if (bias.defined()) logits = logits + bias.to(at::kDouble);
        logits = logits + (logits.detach().to(type).to(at::kDouble) - logits.detach());
        best = logits.argmax(1);
        const at::Tensor place = layer.target.clamp_min(0).unsqueeze(1);
        return (at::logsumexp(logits, 1) - logits.gather(1, place).squeeze(1))
            .masked_fill(layer.target < 0, 0.0);
      });
}

// Products in bf16 whose sums have another order may round to other equal logits.
bool is_best_sure(at::ScalarType type) { return type != at::kBFloat16; }

constexpr LogitLimits kNoneKept{.kept = 0, .block = 1};  // blocks of 1024 ids
const std::vector<std::pair<std::int64_t, std::int64_t>>& nll_extents() {
  static const std::vector<std::pair<std::int64_t, std::int64_t>> all = {
      {1, 1}, {5, 7}, {9, 204}, {6, 1024}, {4, 1029}, {3, 2500}};
  return all;
}

void expect_operations_in_f64(const std::vector<at::ScalarType>& types, std::int64_t width) {
  for (const at::ScalarType type : types) {
    const double error = type == at::kDouble ? 1e-12 : type == at::kFloat ? 2e-5 : 1.0 / 128;
    for (const auto& [rows, ids] : nll_extents()) {
      for (const bool has_bias : {false, true}) {
        for (const LogitLimits& limits : {LogitLimits{}, kNoneKept}) {
          SCOPED_TRACE(testing::Message() << at::toString(type) << " " << rows << " " << ids << " "
                                          << has_bias << " " << limits.kept);
          const OutputLayer layer(rows, width, ids, type);
          const LossNumbers got = by_kernels(layer, has_bias, limits);
          const LossNumbers expected = by_operations(layer, has_bias);
          EXPECT_TRUE(!is_best_sure(type) || got.best.equal(expected.best));
          ASSERT_EQ(got.numbers.size(), expected.numbers.size());
          for (std::size_t i = 0; i < got.numbers.size(); ++i) {
            const double largest = expected.numbers[i].abs().max().item<double>();
            EXPECT_LT(largest_difference(got.numbers[i], expected.numbers[i]),
                      error * (largest + 1.0))
                << i;
          }
        }
      }
    }
  }
}

// Beside the losses' gradient, and alone.
TEST(DeviceNll, GivesTheLogOfTheSumWithItsGradient) {
  using Way = std::function<at::Tensor(const at::Tensor&, const at::Tensor&, const at::Tensor&,
                                       const at::Tensor&, at::Tensor*)>;
  const auto by_operation = [](std::int64_t kept) -> Way {
    return [kept](const auto& x, const auto& w, const auto& b, const auto& target,
                  at::Tensor* sum) { return linear_nll(x, {w}, b, target, nullptr, kept, sum); };
  };
  const auto by_kernel = [](const LogitLimits& limits) -> Way {
    return
        [limits](const auto& x, const auto& w, const auto& b, const auto& target, at::Tensor* sum) {
          return linear_nll_by(definition(), x, {w}, b, target, nullptr, limits, sum);
        };
  };
  const Way expected = [](const auto& x, const auto& w, const auto& b, const auto& target,
                          at::Tensor* sum) {
    const at::Tensor logits = at::addmm(b, x, w.t()), has_none = target < 0;
    *sum = at::logsumexp(logits, 1).masked_fill(has_none, 0.0);
    const at::Tensor own = logits.gather(1, target.clamp_min(0).unsqueeze(1)).squeeze(1);
    return *sum - own.masked_fill(has_none, 0.0);
  };
  for (const auto& [rows, ids] : nll_extents()) {
    const OutputLayer layer(rows, 8, ids, at::kDouble);
    for (const bool has_nll : {true, false}) {
      const auto numbers_of = [&](const Way& way) {
        std::vector<at::Tensor> leaves, out;
        for (const at::Tensor& t : {layer.x, layer.weight, layer.bias})
          leaves.push_back(t.detach().clone().set_requires_grad(true));
        at::Tensor sum;
        const at::Tensor nll = way(leaves[0], leaves[1], leaves[2], layer.target, &sum);
        at::Tensor trained = (sum.square() * layer.scale).sum();
        if (has_nll) trained = trained + (nll * layer.scale.flip(0)).sum();
        trained.backward();
        out = {nll.detach(), sum.detach()};
        for (const at::Tensor& leaf : leaves) out.push_back(leaf.grad());
        return out;
      };
      const std::vector<at::Tensor> want = numbers_of(expected);
      for (const Way& way :
           {by_operation(kKeptLogits), by_operation(22), by_kernel({}), by_kernel(kNoneKept)}) {
        const std::vector<at::Tensor> got = numbers_of(way);
        for (std::size_t i = 0; i < want.size(); ++i) {
          EXPECT_LT(largest_difference(got[i], want[i]),
                    1e-12 * (1.0 + want[i].abs().max().item<double>()))
              << rows << " x " << ids << ", " << i;
        }
        const at::NoGradGuard no_grad;
        at::Tensor sum;
        const at::Tensor nll = way(layer.x, layer.weight, layer.bias, layer.target, &sum);
        EXPECT_LT(largest_difference(nll, want[0]), 1e-12);
        EXPECT_LT(largest_difference(sum, want[1]), 1e-12);
      }
    }
  }
}

TEST(DeviceNll, EqualsOperationsInF64) {
  expect_operations_in_f64({at::kDouble, at::kFloat, at::kBFloat16}, 8);
}

// Over multiples of 8 ids, and of inputs.
TEST(DeviceNll, EqualsOperationsInF64WhereProductsArePadded) {
  const tensor::WithPaddedProducts padded;
  for (const std::int64_t width : {8, 13}) expect_operations_in_f64({at::kBFloat16}, width);
}

TEST(DeviceNll, EqualsTheOperationsThatItReplaces) {
  const OutputLayer layer(40, 12, 300, at::kFloat);
  const LossNumbers got = by_kernels(layer, true, {});
  const LossNumbers expected = loss_numbers(
      layer, true,
      [&](const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, at::Tensor& best) {
        return linear_nll(x, {weight}, bias, layer.target, &best);
      });
  EXPECT_TRUE(got.best.equal(expected.best));
  for (std::size_t i = 0; i < got.numbers.size(); ++i) {
    EXPECT_LT(largest_difference(got.numbers[i], expected.numbers[i]), 2e-5) << i;
  }
}

// The kept logits are gone by then.
TEST(DeviceNll, GivesEqualGradientsInASecondBackwardPass) {
  const OutputLayer layer(6, 8, 50, at::kFloat);
  const at::Tensor x = layer.x.clone().set_requires_grad(true);
  const at::Tensor loss =
      linear_nll_by(definition(), x, {layer.weight}, layer.bias, layer.target).sum();
  loss.backward({}, /*keep_graph=*/true);
  const at::Tensor first = x.grad().clone();
  loss.backward();
  EXPECT_LT(largest_difference(x.grad(), 2.0 * first), 1e-5);
}

TEST(DeviceNll, MakesNoGradientThatIsNotAskedFor) {
  const OutputLayer layer(4, 8, 30, at::kFloat);
  const at::Tensor bias = layer.bias.clone().set_requires_grad(true);
  linear_nll_by(definition(), layer.x, {layer.weight}, bias, layer.target).sum().backward();
  EXPECT_GT(bias.grad().abs().sum().item<double>(), 0.0);
  const at::Tensor weight = layer.weight.clone().set_requires_grad(true);
  linear_nll_by(definition(), layer.x, {weight}, layer.bias, layer.target).sum().backward();
  EXPECT_GT(weight.grad().abs().sum().item<double>(), 0.0);
}

// In the one tensor of a table whose pieces several losses and an embedding use; also of a table in
// another dtype than the products.
TEST(DeviceNll, MakesGradientsOfPiecesOfAWeight) {
  const at::Tensor ids = at::tensor({3, 29, 3}, at::kLong);
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    const OutputLayer layer(9, 8, 30, type);
    const at::Tensor target = layer.target.remainder(12);
    const auto gradient = [&](const auto& nll_of) {
      const at::Tensor table = layer.weight.to(at::kFloat).set_requires_grad(true);
      const SplitWeight split = split_weight(table, {12, 18}, ids);
      at::Tensor loss = split.rows.square().sum();
      for (const WeightRows& piece : split.pieces) {
        loss = loss + nll_of(piece, layer.bias.narrow(0, 0, piece.rows.size(0))).sum();
      }
      loss.backward();
      return table.grad();
    };
    const at::Tensor got = gradient([&](const WeightRows& piece, const at::Tensor& bias) {
      return linear_nll_by(definition(), layer.x, piece, bias, target);
    });
    const at::Tensor by_copies = gradient([&](const WeightRows& piece, const at::Tensor& bias) {
      WeightRows with_copy = piece;
      with_copy.converted = piece.rows.detach().to(type);
      return linear_nll_by(definition(), layer.x, with_copy, bias, target);
    });
    EXPECT_TRUE(by_copies.equal(got));
    const at::Tensor expected = gradient([&](const WeightRows& piece, const at::Tensor& bias) {
      return linear_nll(layer.x, {piece.rows.to(type)}, bias, target);
    });
    const double error = type == at::kFloat ? 1e-5 : 1.0 / 64;
    EXPECT_LT(largest_difference(got, expected), error * expected.abs().max().item<double>());
  }
}

TEST(DeviceNll, SummarizesWithoutGradientAsWithIt) {
  const at::NoGradGuard no_grad;
  const OutputLayer layer(5, 8, 2500, at::kFloat);
  const LogitSummary expected =
      summarize_logits(layer.x, layer.weight, layer.bias, layer.target, true);
  for (const LogitLimits& limits : {LogitLimits{}, kNoneKept}) {
    at::Tensor nll, best;
    const LogitSummary got = summarize_by(definition(), layer.x, layer.weight, layer.bias,
                                          layer.target, true, &nll, limits);
    EXPECT_LT(largest_difference(got.log_sum, expected.log_sum), 1e-5);
    EXPECT_LT(largest_difference(got.highest, expected.highest), 1e-5);
    EXPECT_TRUE(got.best.equal(expected.best));
    EXPECT_TRUE(nll.equal(linear_nll_by(definition(), layer.x, {layer.weight}, layer.bias,
                                        layer.target, &best, limits)));
    EXPECT_TRUE(best.equal(expected.best));
    EXPECT_EQ(nll[1].item<float>(), 0.0F);
    const LogitSummary unasked =
        summarize_by(definition(), layer.x, layer.weight, layer.bias, layer.target, false);
    EXPECT_FALSE(unasked.best.defined());
  }
}

// In a process of its own: LibTorch looks for GPUs when it computes for the first time.
TEST(DeviceNllOnAGpu, EqualsTheOperationsThatItReplaces) {
  if (!tensor::has_cuda_driver() || !has_device_nll()) GTEST_SKIP() << "no GPU or no CUDA sources";
  const at::Device device = tensor::open_device("cuda");
  for (const at::ScalarType type : {at::kDouble, at::kFloat, at::kBFloat16}) {
    for (const std::int64_t ids : {204, 5003}) {
      SCOPED_TRACE(testing::Message() << at::toString(type) << " " << ids);
      OutputLayer layer(70, 64, ids, type);
      for (at::Tensor* t : {&layer.x, &layer.weight, &layer.bias, &layer.target, &layer.scale}) {
        *t = t->to(device);
      }
      const auto run = [&] {
        return loss_numbers(
            layer, true,
            [&](const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                at::Tensor& best) { return linear_nll(x, {weight}, bias, layer.target, &best); });
      };
      const LossNumbers got = run(), again = run();
      const tensor::WithoutHostKernels without;
      const LossNumbers expected = run();
      const double error = type == at::kDouble ? 1e-12 : type == at::kFloat ? 1e-4 : 1.0 / 64;
      EXPECT_TRUE(!is_best_sure(type) || got.best.equal(expected.best));
      for (std::size_t i = 0; i < got.numbers.size(); ++i) {
        EXPECT_TRUE(got.numbers[i].equal(again.numbers[i])) << i;
        const double largest = expected.numbers[i].abs().max().item<double>();
        EXPECT_LT(largest_difference(got.numbers[i].cpu(), expected.numbers[i].cpu()),
                  error * (largest + 1.0))
            << i;
      }
    }
  }
}

TEST(DeviceNll, SaysWhatAKernelFailedWith) {
  kernel::CrossEntropyKernels failing = definition();
  failing.summarize = [](const kernel::LogitBlock&, const void*, const kernel::CrossEntropySummary&,
                         void*) { return "out of order"; };
  const OutputLayer layer(2, 8, 5, at::kFloat);
  EXPECT_NE(error_of([&] {
              static_cast<void>(
                  linear_nll_by(failing, layer.x, {layer.weight}, layer.bias, layer.target));
            }).find("softmax over the vocabulary: out of order"),
            std::string::npos);
}

// In several blocks of ids, and with all logits kept.
TEST(DeviceNll, IsRunAgainFromATrace) {
  for (const LogitLimits limits : {LogitLimits{0, 0}, LogitLimits{}}) {
    const OutputLayer layer(5, 4, 2500, at::kDouble);
    const auto run = [&](const at::Tensor& rows) {
      const at::Tensor x = rows.detach().requires_grad_();
      const at::Tensor weight = layer.weight.detach().requires_grad_();
      at::Tensor best;
      const at::Tensor nll =
          linear_nll_by(definition(), x, {weight}, layer.bias, layer.target, &best, limits);
      std::vector<at::Tensor> out = torch::autograd::grad({nll}, {x, weight}, {layer.scale});
      out.insert(out.end(), {nll.detach(), best});
      return out;
    };
    tensor::Trace trace;
    trace.add_input(layer.x);
    std::vector<at::Tensor> results;
    {
      const tensor::TraceScope scope(trace);
      results = run(layer.x);
    }
    for (const at::Tensor& result : results) trace.add_output(result);
    const at::Tensor other = layer.x.neg();
    const std::vector<at::Tensor> again = trace.replay({other}, 0), expected = run(other);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      EXPECT_TRUE(again[i].equal(expected[i])) << i;
      EXPECT_FALSE(again[i].equal(results[i])) << i;
    }
  }
}

// Without CUDA, and for tensors that are not on it.
TEST(DeviceNll, TakesNoBiasAsZerosWhereOperationsCompute) {
  const OutputLayer layer(4, 8, 30, at::kDouble);
  const at::NoGradGuard no_grad;
  EXPECT_TRUE(
      linear_nll(layer.x, {layer.weight}, {}, layer.target)
          .equal(linear_nll(layer.x, {layer.weight}, at::zeros({30}, at::kDouble), layer.target)));
}

}  // namespace
}  // namespace mneme::backbone
