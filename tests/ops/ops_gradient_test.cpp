// Every differentiable op's gradient against central differences in f64.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>

#include "host/tensor/torch.hpp"
#include "tests/ops/op_case.hpp"

namespace mneme::memory::test {
namespace {

constexpr double kTolerance = 2e-8;
constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();

// A fixed weighted sum of every float output, so that one gradient checks all of them.
at::Tensor weighted_sum(const std::vector<at::Tensor>& outputs) {
  at::Tensor sum = torch::zeros({}, at::kDouble);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (!outputs[i].is_floating_point()) continue;
    const Array weight = noise(outputs[i].sizes().vec(), 97 + static_cast<uint32_t>(i), 0.5, 1.5);
    sum = sum + (outputs[i].to(at::kDouble) * tensor_of(weight, MNEME_F64)).sum();
  }
  return sum;
}

double value_at(const OpCase& op_case, std::vector<at::Tensor> inputs, std::size_t input,
                int64_t element, double shift) {
  inputs[input] = inputs[input].detach().clone();
  inputs[input].data_ptr<double>()[element] += shift;
  const torch::NoGradGuard no_grad;
  return weighted_sum(call(op_case, MNEME_F64, inputs)).item<double>();
}

at::Tensor central_differences(const OpCase& op_case, const std::vector<at::Tensor>& inputs,
                               std::size_t input) {
  constexpr double kStep = 1e-5;
  at::Tensor result = torch::empty(inputs[input].sizes(), at::kDouble);
  for (int64_t e = 0; e < result.numel(); ++e) {
    const double above = value_at(op_case, inputs, input, e, kStep);
    const double below = value_at(op_case, inputs, input, e, -kStep);
    result.data_ptr<double>()[e] = (above - below) / (2.0 * kStep);
  }
  return result;
}

bool has_gradient_check(const OpCase& op_case) {
  return op_case.has_gradient && schema_of(op_case.op).is_differentiable &&
         ops::op_supports(ops::find_op(op_case.op), MNEME_F64, MNEME_DEVICE_CPU);
}

// Error of one input's gradient relative to its norm; absolute for gradients near 0.
void expect_gradient(const OpCase& op_case) {
  SCOPED_TRACE(op_case.op + " \"" + op_case.label + '"');
  const ops::OpSchema& schema = schema_of(op_case.op);
  std::vector<at::Tensor> inputs = input_tensors(op_case, MNEME_F64);
  std::vector<std::size_t> places;
  std::vector<at::Tensor> leaves;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].defined() || !is_data_input(schema, i)) continue;
    inputs[i].requires_grad_(true);
    places.push_back(i);
    leaves.push_back(inputs[i]);
  }
  const at::Tensor sum = weighted_sum(call(op_case, MNEME_F64, inputs));
  ASSERT_TRUE(sum.requires_grad());
  const auto gradients = torch::autograd::grad({sum}, leaves, {}, false, false, true);
  for (std::size_t i = 0; i < places.size(); ++i) {
    ASSERT_TRUE(gradients[i].defined()) << "no gradient for input " << places[i];
    const at::Tensor expected = central_differences(op_case, inputs, places[i]);
    const double error = (gradients[i] - expected).norm().item<double>();
    EXPECT_LE(error, kTolerance * std::max(1.0, expected.norm().item<double>()))
        << "input " << places[i] << "\nexpected " << expected << "\ngot " << gradients[i];
  }
}

TEST(OpGradient, EveryCaseAgreesWithCentralDifferences) {
  int checked = 0;
  for (const OpCase& op_case : all_cases()) {
    if (!has_gradient_check(op_case)) continue;
    expect_gradient(op_case);
    ++checked;
  }
  RecordProperty("cases", checked);
  EXPECT_GT(checked, 200);
}

TEST(OpGradient, EveryDifferentiableInputOfEveryOpHasANonEmptyCase) {
  std::set<std::string> covered;
  for (const OpCase& op_case : all_cases()) {
    if (!has_gradient_check(op_case)) continue;
    const ops::OpSchema& schema = schema_of(op_case.op);
    for (std::size_t i = 0; i < op_case.inputs.size(); ++i) {
      if (op_case.inputs[i].data.empty()) continue;
      covered.insert(op_case.op + " " + input_schema(schema, i).name);
    }
  }
  for (const ops::OpSchema& schema : ops::op_schemas()) {
    if (!schema.is_differentiable) continue;
    for (std::size_t i = 0; i < schema.inputs.size(); ++i) {
      if (!is_data_input(schema, i)) continue;
      const std::string name = schema.name + " " + schema.inputs[i].name;
      EXPECT_TRUE(covered.count(name) != 0) << "no gradient case for " << name;
    }
  }
}

TEST(OpGradient, NoGradientLeavesAnOpThatIsNotDifferentiable) {
  for (const OpCase& op_case : all_cases()) {
    const ops::OpSchema& schema = schema_of(op_case.op);
    if (schema.is_differentiable) continue;
    if (!ops::op_supports(ops::find_op(op_case.op), MNEME_F64, MNEME_DEVICE_CPU)) continue;
    std::vector<at::Tensor> inputs = input_tensors(op_case, MNEME_F64);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (inputs[i].defined() && is_data_input(schema, i)) inputs[i].requires_grad_(true);
    }
    for (const at::Tensor& output : call(op_case, MNEME_F64, inputs)) {
      EXPECT_FALSE(output.requires_grad()) << op_case.op;
    }
  }
}

// The gradient of sum(f(x)) for an op of one input.
at::Tensor gradient_of(const char* op, const at::Tensor& x, const std::vector<Attr>& attrs = {}) {
  const at::Tensor leaf = x.clone().requires_grad_(true);
  const at::Tensor y = call_op(op, {leaf}, attrs)[0];
  return torch::autograd::grad({y.sum()}, {leaf}, {}, false, false, true)[0];
}

TEST(OpGradient, RowsOfMinusInfinityHaveGradientZero) {
  const at::Tensor x = torch::full({2, 3}, kMinusInfinity, at::kDouble);
  x[1] = torch::arange(3, at::kDouble);
  for (const char* op : {"softmax/1", "log_softmax/1"}) {
    const at::Tensor g = gradient_of(op, x);
    EXPECT_TRUE(g[0].equal(torch::zeros({3}, at::kDouble))) << op << g;
    EXPECT_TRUE(at::isfinite(g).all().item<bool>()) << op << g;
  }
  const at::Tensor g = gradient_of("logsumexp/1", x, {integers("dims", {1})});
  EXPECT_TRUE(g[0].equal(torch::zeros({3}, at::kDouble))) << g;
  EXPECT_TRUE(at::isfinite(g).all().item<bool>()) << g;
  EXPECT_NEAR(g[1].sum().item<double>(), 1.0, 1e-15);
}

TEST(OpGradient, RowsOfMinusInfinityHaveGradientZeroAlongOtherDimensions) {
  const at::Tensor x = torch::randn({2, 3, 2}, at::kDouble);
  x.select(2, 1).select(0, 1).fill_(kMinusInfinity);
  for (const char* op : {"softmax/1", "log_softmax/1"}) {
    const at::Tensor g = gradient_of(op, x, {integer("dim", 1)});
    EXPECT_TRUE(at::isfinite(g).all().item<bool>()) << op << g;
    EXPECT_EQ(g.select(2, 1).select(0, 1).abs().max().item<double>(), 0.0) << op << g;
  }
}

TEST(OpGradient, SingleAbsentKeysHaveGradientZero) {
  const at::Tensor x = torch::zeros({1, 3}, at::kDouble);
  x[0][1] = kMinusInfinity;
  const at::Tensor leaf = x.clone().requires_grad_(true);
  const at::Tensor y = call_op("softmax/1", {leaf})[0];
  const at::Tensor weight = torch::arange(3, at::kDouble);
  const at::Tensor g = torch::autograd::grad({(y * weight).sum()}, {leaf})[0];
  EXPECT_EQ(g[0][1].item<double>(), 0.0);
  EXPECT_TRUE(at::isfinite(g).all().item<bool>()) << g;
}

TEST(OpGradient, LogaddexpOfTwoEmptyMemoriesHasGradientZero) {
  const at::Tensor a = torch::full({2}, kMinusInfinity, at::kDouble).requires_grad_(true);
  at::Tensor b = torch::full({2}, kMinusInfinity, at::kDouble);
  b[1] = 2.0;
  b.requires_grad_(true);
  const at::Tensor y = call_op("logaddexp/1", {a, b})[0];
  EXPECT_EQ(y[0].item<double>(), kMinusInfinity);
  const auto g = torch::autograd::grad({y.sum()}, {a, b});
  EXPECT_TRUE(g[0].equal(torch::zeros({2}, at::kDouble))) << g[0];
  EXPECT_EQ(g[1][0].item<double>(), 0.0);
  EXPECT_EQ(g[1][1].item<double>(), 1.0);
}

TEST(OpGradient, ConventionsAtKinksHold) {
  const at::Tensor zero = torch::zeros({2}, at::kDouble);
  for (const char* op : {"abs/1", "relu/1", "norm2/1", "sign/1", "floor/1", "round/1"}) {
    EXPECT_TRUE(gradient_of(op, zero).equal(zero)) << op;
  }
  const at::Tensor half = torch::full({2}, 0.5, at::kDouble);
  EXPECT_TRUE(gradient_of("amax/1", zero).equal(half));
  EXPECT_TRUE(gradient_of("amin/1", zero).equal(half));
  const std::vector<Attr> limits = {real("min", 0), real("max", 1)};
  EXPECT_TRUE(gradient_of("clamp/1", zero, limits).equal(torch::ones({2}, at::kDouble)));
  EXPECT_TRUE(gradient_of("maximum/1", zero, {real("scalar", 0)}).equal(half));
  EXPECT_TRUE(gradient_of("minimum/1", zero, {real("scalar", 0)}).equal(half));
}

TEST(OpGradient, CastCarriesGradientsBetweenFloatDtypes) {
  const at::Tensor x = torch::randn({3}, at::kDouble).requires_grad_(true);
  const at::Tensor y = call_op("cast/1", {x}, {integer("dtype", MNEME_BF16)})[0];
  EXPECT_EQ(y.scalar_type(), at::kBFloat16);
  const at::Tensor g = torch::autograd::grad({y.sum()}, {x})[0];
  EXPECT_TRUE(g.equal(torch::ones({3}, at::kDouble)));
  EXPECT_FALSE(call_op("cast/1", {x}, {integer("dtype", MNEME_I64)})[0].requires_grad());
}

TEST(OpGradient, TheCallersGradModeHolds) {
  const at::Tensor x = torch::randn({3}).requires_grad_(true);
  const torch::NoGradGuard no_grad;
  EXPECT_FALSE(call_op("exp/1", {x})[0].requires_grad());
}

}  // namespace
}  // namespace mneme::memory::test
