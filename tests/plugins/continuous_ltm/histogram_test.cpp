// The histogram of attention on every device and instruction set against the reference.
#include "plugins/continuous_ltm/kernels/histogram.hpp"

#include <limits>
#include <numeric>

#include "tests/plugins/continuous_ltm/cases.hpp"

namespace mneme::test {
namespace {

using continuous_ltm::Histogram;

struct HistogramProblem {
  reference::Densities densities;
  std::vector<uint8_t> valid;
  std::vector<TestTensor> inputs;

  // Queries that are not valid hold NaN, which must not come through.
  HistogramProblem(std::mt19937& random, Device device, DType dtype, const LtmCase& c)
      : densities(random_densities(random, c)) {
    std::bernoulli_distribution coin(0.8);
    for (int64_t i = 0; i < c.lanes * c.queries; ++i) valid.push_back(coin(random) ? 1 : 0);
    inputs.emplace_back(device, dtype, std::vector<int64_t>{c.lanes, c.heads, c.queries});
    inputs.emplace_back(device, dtype, std::vector<int64_t>{c.lanes, c.heads, c.queries});
    inputs.emplace_back(device, DType::kBool, std::vector<int64_t>{c.lanes, c.queries});
    inputs[0].write(densities.mu);
    inputs[1].write(densities.variance);
    inputs[2].write(valid);
    densities.mu = inputs[0].read();
    densities.variance = inputs[1].read();
    std::vector<double> hidden = densities.mu;
    for (std::size_t i = 0; i < hidden.size(); ++i) {
      if (valid[lane_and_query(i, c)] == 0) hidden[i] = std::numeric_limits<double>::quiet_NaN();
    }
    inputs[0].write(hidden);
  }
  static std::size_t lane_and_query(std::size_t i, const LtmCase& c) {
    const auto queries = static_cast<std::size_t>(c.queries);
    return i / (queries * static_cast<std::size_t>(c.heads)) * queries + i % queries;
  }
};

const std::vector<LtmCase>& continuous_ltm_histogram_cases() {
  static const std::vector<LtmCase> all = {
      {1, 1, 1, 0, 1, {0.1}, Spread::kWide},
      {2, 3, 13, 0, 1, {0.1}, Spread::kMixed},
      {3, 2, 50, 0, 1, {0.1}, Spread::kNarrow},
      {2, 1, 50, 0, 1, {0.1}, Spread::kWide},
      {0, 2, 5, 0, 1, {0.1}},
      {2, 0, 5, 0, 1, {0.1}},
      {2, 2, 0, 0, 1, {0.1}},
  };
  return all;
}

class HistogramOn : public OnDevice {};

TEST_P(HistogramOn, EqualsTheReferenceForEveryShapeAndNumberOfBins) {
  for (const DType dtype : {DType::kF32, DType::kF64}) {
    for (const LtmCase& c : continuous_ltm_histogram_cases()) {
      for (const int64_t bins : {1, 7, 16, 63, 128}) {
        HistogramProblem problem(random_, GetParam(), dtype, c);
        const auto expected = reference::histogram(problem.densities, problem.valid, bins);
        for (const auto set : sets_on(GetParam())) {
          const Histogram kernel(bins, set);
          KernelRun<Histogram> run(kernel, GetParam(), problem.inputs);
          run.forward();
          expect_close(run.outputs[0], expected, 1e-13,
                       name_of(set) + ", bins=" + std::to_string(bins) + ", " + text_of(c));
        }
      }
    }
  }
}

TEST_P(HistogramOn, CountsEveryQueryWhoseDensityLiesInside) {
  const LtmCase c = {1, 4, 100, 0, 1, {0.1}, Spread::kNarrow};
  HistogramProblem problem(random_, GetParam(), DType::kF64, c);
  problem.inputs[0].write(std::vector<double>(400, 0.37));
  problem.inputs[1].write(std::vector<double>(400, 1e-4));
  problem.inputs[2].write(std::vector<uint8_t>(100, 1));
  const Histogram kernel(128);
  KernelRun<Histogram> run(kernel, GetParam(), problem.inputs);
  run.forward();
  const std::vector<double> mass = run.outputs[0].read();
  EXPECT_NEAR(std::accumulate(mass.begin(), mass.end(), 0.0), 400.0, 1e-11);
  for (const double bin : mass) EXPECT_GE(bin, 0.0);
}

TEST_P(HistogramOn, KeepsNaNToItsLane) {
  const LtmCase c = {2, 2, 13, 0, 1, {0.1}, Spread::kNarrow};
  for (const std::size_t input : {0U, 1U}) {
    HistogramProblem problem(random_, GetParam(), DType::kF32, c);
    problem.inputs[0].write(problem.densities.mu);
    problem.inputs[2].write(std::vector<uint8_t>(26, 1));
    std::vector<double> densities = problem.inputs[input].read();
    densities[30] = std::numeric_limits<double>::quiet_NaN();
    problem.inputs[input].write(densities);
    for (const auto set : sets_on(GetParam())) {
      const Histogram kernel(16, set);
      KernelRun<Histogram> run(kernel, GetParam(), problem.inputs);
      run.forward();
      const std::vector<double> mass = run.outputs[0].read();
      for (std::size_t i = 0; i < 32; ++i) EXPECT_EQ(std::isnan(mass[i]), i >= 16) << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, HistogramOn, testing::Values(Device::kCpu, Device::kCuda),
                         [](const auto& device) { return name_of(device); });

TEST(Histogram, GivesTheSameBitsHoweverTheWorkIsCut) {
  std::mt19937 random(test_seed());
  const LtmCase c = {3, 7, 60, 0, 1, {0.1}, Spread::kMixed};
  HistogramProblem problem(random, Device::kCpu, DType::kF32, c);
  const Histogram kernel(128);
  KernelRun<Histogram> run(kernel, Device::kCpu, problem.inputs);
  run.forward();
  const std::vector<double> whole = run.outputs[0].read();
  const ReversedPieces pieces;
  run.forward();
  EXPECT_EQ(run.outputs[0].read(), whole);
}

TEST(Histogram, RefusesInputsThatDoNotFitTogether) {
  const Histogram kernel(16);
  const auto error = [&](DType densities, std::vector<int64_t> valid, DType mask) {
    std::vector<TestTensor> inputs;
    inputs.emplace_back(Device::kCpu, densities, std::vector<int64_t>{2, 3, 5});
    inputs.emplace_back(Device::kCpu, densities, std::vector<int64_t>{2, 3, 5});
    inputs.emplace_back(Device::kCpu, mask, std::move(valid));
    return infer_error(kernel, std::move(inputs));
  };
  EXPECT_EQ(error(DType::kF32, {2, 5}, DType::kBool), "");
  EXPECT_EQ(error(DType::kF32, {2, 3}, DType::kBool), "3: valid: expected [2, 5], got [2, 3]");
  EXPECT_EQ(error(DType::kF32, {2, 5}, DType::kF32), "4: valid: expected bool, got dtype code 1");
  EXPECT_EQ(error(DType::kF16, {2, 5}, DType::kBool),
            "4: mu and variance: expected f32 or f64 for both, got dtype codes 3 and 3");
}

TEST(Histogram, RefusesToHaveNoBins) {
  try {
    const Histogram kernel(0);
    FAIL() << "no error";
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.code(), MNEME_E_INVALID_ARGUMENT);
    EXPECT_STREQ(failure.what(), "bins: expected at least 1, got 0");
  }
}

}  // namespace
}  // namespace mneme::test
