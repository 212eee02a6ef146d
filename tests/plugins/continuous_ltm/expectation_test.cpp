// The expectation and its gradients on every device, instruction set and dtype against the
// reference; the reference's gradients against finite differences.
#include "plugins/continuous_ltm/kernels/expectation.hpp"

#include <limits>

#include "tests/plugins/continuous_ltm/cases.hpp"

namespace mneme::test {
namespace {

using continuous_ltm::Expectation;

const std::vector<LtmCase>& cases() {
  static const std::vector<double> two = {0.005, 0.01};
  static const std::vector<double> four = {0.003, 0.01, 0.03, 0.1};
  static const std::vector<LtmCase> all = {
      {1, 1, 1, 1, 1, {0.1}, Spread::kWide, 0.0},   // everything is one
      {2, 6, 1, 64, 512, two, Spread::kWide},       // a step of generation
      {2, 3, 16, 41, 2, two, Spread::kMixed, 0.0},  // two functions
      {1, 2, 13, 50, 36, four, Spread::kMixed, 0.0},
      {2, 2, 48, 32, 128, {0.01, 0.05}, Spread::kNarrow},  // a whole tile
      {1, 1, 49, 64, 512, two, Spread::kNarrow},           // one query more
      {1, 1, 131, 64, 512, two, Spread::kNarrow},
      {1, 1, 131, 64, 512, two, Spread::kMixed},
      {1, 1, 97, 41, 250, two, Spread::kWide},
      {3, 1, 60, 130, 97, {0.02}, Spread::kMixed},  // wider than a column panel
      {1, 2, 101, 50, 388, four, Spread::kMixed},
      {1, 2, 70, 64, 300, two, Spread::kMixed, 0.0},  // every function visited
      {2, 2, 5, 0, 8, two},
      {2, 2, 0, 8, 8, two},
      {0, 2, 5, 8, 8, two},
      {2, 0, 5, 8, 8, two},
  };
  return all;
}

struct Problem {
  reference::Densities densities;
  std::vector<double> values;
  std::vector<double> context_grad;
  std::vector<TestTensor> inputs;
  std::unique_ptr<TestTensor> grad;

  // What is compared is computed from the rounded inputs.
  Problem(std::mt19937& random, Device device, DType dtype, const LtmCase& c)
      : densities(random_densities(random, c)) {
    const DType wide = dtype == DType::kF64 ? DType::kF64 : DType::kF32;
    inputs.emplace_back(device, wide, std::vector<int64_t>{c.lanes, c.heads, c.queries});
    inputs.emplace_back(device, wide, std::vector<int64_t>{c.lanes, c.heads, c.queries});
    inputs.emplace_back(device, dtype,
                        std::vector<int64_t>{c.lanes, c.basis, c.heads, c.head_width});
    grad = std::make_unique<TestTensor>(
        device, dtype, std::vector<int64_t>{c.lanes, c.queries, c.heads, c.head_width});
    const auto count = [](const TestTensor& t) { return static_cast<int64_t>(t.elements()); };
    inputs[0].write(densities.mu);
    inputs[1].write(densities.variance);
    inputs[2].write(random_numbers(random, count(inputs[2])));
    grad->write(random_numbers(random, count(*grad)));
    densities.mu = inputs[0].read();
    densities.variance = inputs[1].read();
    values = inputs[2].read();
    context_grad = grad->read();
  }
};

// Sums of up to 512 terms in any order. Those of the densities' gradients are of both signs: what
// is left of random ones is some 20 times smaller than the terms together.
double tolerance_of(DType dtype) { return dtype == DType::kF64 ? 2e-14 : 3e-6; }
constexpr double kCancelled = 10.0;

void compare(Device device, DType dtype, const LtmCase& c, std::mt19937& random) {
  Problem problem(random, device, dtype, c);
  const reference::Basis basis = c.reference_basis();
  const auto context = reference::expect(basis, problem.densities, problem.values, c.head_width);
  const auto gradients = reference::expect_backward(basis, problem.densities, problem.values,
                                                    c.head_width, problem.context_grad);
  const double tolerance = tolerance_of(dtype);
  for (const auto set : sets_on(device)) {
    const std::string what =
        name_of(set) + ", dtype " + std::to_string(static_cast<int>(dtype)) + ", " + text_of(c);
    const Expectation kernel(c.grid(), set);
    KernelRun<Expectation> run(kernel, device, problem.inputs);
    run.forward();
    expect_close(run.outputs[0], context, tolerance, what + ", context");
    run.backward(problem.grad.get());
    expect_close(run.grads[0], gradients.mu, kCancelled * tolerance, what + ", mu's gradient");
    expect_close(run.grads[1], gradients.variance, kCancelled * tolerance,
                 what + ", variance's gradient");
    expect_close(run.grads[2], gradients.values, tolerance, what + ", values' gradient");
  }
}

class ExpectationOn : public OnDevice {};

TEST_P(ExpectationOn, EqualsTheReferenceForEveryDtypeAndShape) {
  for (const DType dtype : {DType::kF32, DType::kF64, DType::kBF16, DType::kF16}) {
    for (const LtmCase& c : cases()) compare(GetParam(), dtype, c, random_);
  }
}

TEST_P(ExpectationOn, EqualsTheReferenceForRandomShapes) {
  std::uniform_int_distribution<int64_t> extent(1, 60);
  for (int i = 0; i < (is_slow(GetParam()) ? 10 : 20); ++i) {
    const LtmCase c = {
        extent(random_) % 3 + 1, extent(random_) % 4 + 1, extent(random_), extent(random_),
        extent(random_) * 3,     {0.01, 0.1, 0.3},        Spread::kWide};
    compare(GetParam(), DType::kF32, c, random_);
  }
}

bool has_nan(const std::vector<double>& values, std::size_t first, std::size_t count) {
  bool found = false;
  for (std::size_t i = first; i < first + count; ++i) found = found || std::isnan(values[i]);
  return found;
}

// One query of head 1 has no mean: its context and gradients are NaN, those of head 0 are not.
TEST_P(ExpectationOn, KeepsNaNToItsQueryAndHead) {
  const LtmCase c = {1, 2, 60, 8, 128, {0.01, 0.05}, Spread::kNarrow};
  for (const std::size_t input : {0U, 1U}) {
    Problem problem(random_, GetParam(), DType::kF32, c);
    std::vector<double> densities = problem.inputs[input].read();
    densities[60 + 7] = std::numeric_limits<double>::quiet_NaN();
    problem.inputs[input].write(densities);
    for (const auto set : sets_on(GetParam())) {
      const Expectation kernel(c.grid(), set);
      KernelRun<Expectation> run(kernel, GetParam(), problem.inputs);
      run.forward();
      const std::vector<double> context = run.outputs[0].read();
      for (std::size_t i = 0; i < 60; ++i) {
        EXPECT_FALSE(has_nan(context, i * 16, 8)) << name_of(set) << ", head 0, query " << i;
        EXPECT_EQ(has_nan(context, i * 16 + 8, 8), i == 7) << name_of(set) << ", query " << i;
      }
      run.backward(problem.grad.get());
      const std::vector<double> mu = run.grads[0].read();
      const std::vector<double> values = run.grads[2].read();
      for (std::size_t i = 0; i < 120; ++i) EXPECT_EQ(std::isnan(mu[i]), i == 67) << i;
      EXPECT_FALSE(has_nan(values, 0, 8)) << name_of(set);
      EXPECT_TRUE(has_nan(values, 8, 8)) << name_of(set);
    }
  }
}

TEST_P(ExpectationOn, ReadsAnAbsentGradientAsZeros) {
  const LtmCase c = {1, 2, 5, 8, 16, {0.01, 0.05}};
  Problem problem(random_, GetParam(), DType::kF32, c);
  const Expectation kernel(c.grid());
  KernelRun<Expectation> run(kernel, GetParam(), problem.inputs);
  run.backward(nullptr);
  for (TestTensor& grad : run.grads) EXPECT_EQ(norm(grad.read()), 0.0);
}

TEST_P(ExpectationOn, GivesTheSameWhenOnlySomeGradientsAreWanted) {
  const LtmCase c = {1, 2, 53, 8, 64, {0.01, 0.05}};
  Problem problem(random_, GetParam(), DType::kF32, c);
  const Expectation kernel(c.grid());
  KernelRun<Expectation> run(kernel, GetParam(), problem.inputs);
  run.backward(problem.grad.get());
  std::vector<std::vector<double>> all;
  for (TestTensor& grad : run.grads) all.push_back(grad.read());
  for (const uint32_t wanted : {1U, 2U, 4U, 5U, 0U}) {
    run.backward(problem.grad.get(), wanted);
    for (std::size_t i = 0; i < all.size(); ++i) {
      const bool is_wanted = (wanted >> i & 1U) != 0;
      EXPECT_EQ(run.grads[i].read() == all[i], is_wanted) << "wanted " << wanted << ", input " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, ExpectationOn, testing::Values(Device::kCpu, Device::kCuda),
                         [](const auto& device) { return name_of(device); });

TEST(Expectation, GivesTheSameBitsHoweverTheWorkIsCut) {
  std::mt19937 random(test_seed());
  const LtmCase c = {3, 7, 60, 41, 128, {0.01, 0.05}};
  Problem problem(random, Device::kCpu, DType::kF32, c);
  const Expectation kernel(c.grid());
  std::vector<std::vector<double>> results[2];
  for (const bool is_cut : {false, true}) {
    const std::unique_ptr<ReversedPieces> pieces(is_cut ? new ReversedPieces : nullptr);
    KernelRun<Expectation> run(kernel, Device::kCpu, problem.inputs);
    run.forward();
    run.backward(problem.grad.get());
    results[is_cut ? 1 : 0].push_back(run.outputs[0].read());
    for (TestTensor& grad : run.grads) results[is_cut ? 1 : 0].push_back(grad.read());
  }
  EXPECT_EQ(results[0], results[1]);
}

// What the paper calls a read of the whole memory: a very wide density weighs all functions alike.
TEST(Expectation, AveragesConstantValuesUnderAnyDensity) {
  const LtmCase c = {1, 1, 1, 1, 64, {0.05}};
  std::vector<TestTensor> inputs;
  for (const std::vector<int64_t>& shape :
       std::vector<std::vector<int64_t>>{{1, 1, 1}, {1, 1, 1}, {1, 64, 1, 1}}) {
    inputs.emplace_back(Device::kCpu, DType::kF64, shape);
  }
  inputs[0].write(std::vector<double>{0.5});
  inputs[1].write(std::vector<double>{1e6});
  inputs[2].write(std::vector<double>(64, 1.0));
  const Expectation kernel(c.grid());
  KernelRun<Expectation> run(kernel, Device::kCpu, inputs);
  run.forward();
  EXPECT_NEAR(run.outputs[0].read()[0], 64.0 / std::sqrt(2.0 * M_PI * 1e6), 1e-7);
}

double objective(const reference::Basis& basis, const reference::Densities& densities,
                 const std::vector<double>& values, int64_t head_width,
                 const std::vector<double>& weights) {
  const auto context = reference::expect(basis, densities, values, head_width);
  double sum = 0.0;
  for (std::size_t i = 0; i < context.size(); ++i) sum += context[i] * weights[i];
  return sum;
}

TEST(ExpectationReference, GradientsEqualFiniteDifferences) {
  std::mt19937 random(test_seed());
  for (const LtmCase& c : {LtmCase{2, 2, 3, 3, 12, {0.05, 0.2}, Spread::kWide},
                           LtmCase{1, 2, 4, 2, 128, {0.01, 0.05}, Spread::kNarrow}}) {
    Problem problem(random, Device::kCpu, DType::kF64, c);
    const reference::Basis basis = c.reference_basis();
    const auto gradients = reference::expect_backward(basis, problem.densities, problem.values,
                                                      c.head_width, problem.context_grad);
    const auto check = [&](std::vector<double>& numbers, const std::vector<double>& expected,
                           bool is_variance) {
      for (std::size_t i = 0; i < numbers.size(); ++i) {
        const double kept = numbers[i];
        // Small against the narrowest function's width, and against the variance itself.
        const double step = is_variance ? 1e-4 * std::max(kept, 1e-4) : 1e-6;
        double difference = 0.0;
        for (const double sign : {1.0, -1.0}) {
          numbers[i] = kept + sign * step;
          difference += sign * objective(basis, problem.densities, problem.values, c.head_width,
                                         problem.context_grad);
        }
        numbers[i] = kept;
        EXPECT_NEAR(difference / (2.0 * step), expected[i], 1e-6 * (1.0 + norm(expected)))
            << text_of(c) << ", element " << i;
      }
    };
    check(problem.densities.mu, gradients.mu, false);
    check(problem.densities.variance, gradients.variance, true);
    check(problem.values, gradients.values, false);
  }
}

}  // namespace
}  // namespace mneme::test
