// The signal at positions on every device and instruction set against the reference; the grid that
// kernels are made from.
#include "plugins/continuous_ltm/kernels/signal.hpp"

#include <algorithm>
#include <limits>

#include "tests/plugins/continuous_ltm/cases.hpp"

namespace mneme::test {
namespace {

using continuous_ltm::make_grid;
using continuous_ltm::Signal;

// Here `queries` counts samples and `head_width` is D.
const std::vector<LtmCase>& continuous_ltm_signal_cases() {
  static const std::vector<double> two = {0.005, 0.01};
  static const std::vector<LtmCase> all = {
      {1, 1, 1, 1, 1, {0.5}, Spread::kWide, 0.0},
      {2, 1, 13, 41, 2, {0.5, 1.0}, Spread::kWide, 0.0},
      {2, 1, 60, 130, 100, {0.01, 0.05}},
      {1, 1, 131, 64, 512, two},
      {1, 1, 40, 128, 512, two},
      {3, 1, 50, 50, 36, {0.003, 0.01, 0.03, 0.1}},
      {2, 1, 5, 0, 8, two},
      {2, 1, 0, 8, 8, two},
      {0, 1, 5, 8, 8, two},
  };
  return all;
}

// Positions in [0,1], its ends among them, sorted or not.
std::vector<double> random_positions(std::mt19937& random, const LtmCase& c, bool is_sorted) {
  std::uniform_real_distribution<double> unit(0.0, 1.0);
  std::vector<double> positions(static_cast<std::size_t>(c.lanes * c.queries));
  for (double& position : positions) position = unit(random);
  if (positions.size() > 1) {
    positions[0] = 0.0;
    positions[1] = 1.0;
  }
  if (is_sorted) std::sort(positions.begin(), positions.end());
  return positions;
}

std::vector<TestTensor> inputs_of(Device device, DType dtype, const LtmCase& c) {
  std::vector<TestTensor> inputs;
  inputs.emplace_back(device, DType::kF64, std::vector<int64_t>{c.lanes, c.queries});
  inputs.emplace_back(device, dtype, std::vector<int64_t>{c.lanes, c.basis, c.head_width});
  return inputs;
}

class SignalOn : public OnDevice {};

TEST_P(SignalOn, EqualsTheReferenceForEveryDtypeAndShape) {
  for (const DType dtype : {DType::kF32, DType::kF64}) {
    for (const LtmCase& c : continuous_ltm_signal_cases()) {
      for (const bool is_sorted : {true, false}) {
        std::vector<TestTensor> inputs = inputs_of(GetParam(), dtype, c);
        const std::vector<double> positions = random_positions(random_, c, is_sorted);
        inputs[0].write(positions);
        inputs[1].write(random_numbers(random_, static_cast<int64_t>(inputs[1].elements())));
        const auto expected = reference::signal(c.reference_basis(), c.lanes, positions,
                                                inputs[1].read(), c.head_width);
        for (const auto set : sets_on(GetParam())) {
          const Signal kernel(c.grid(), set);
          KernelRun<Signal> run(kernel, GetParam(), inputs);
          run.forward();
          expect_close(run.outputs[0], expected, dtype == DType::kF64 ? 2e-14 : 1e-6,
                       name_of(set) + ", " + text_of(c));
        }
      }
    }
  }
}

// A position rounded to f32 would move the narrow function by up to 3e-8 / 1e-3 of its width.
TEST_P(SignalOn, KeepsTheDigitsOfPositionsInF32) {
  const LtmCase c = {1, 1, 200, 1, 1001, {0.001}};
  std::vector<TestTensor> inputs = inputs_of(GetParam(), DType::kF32, c);
  const std::vector<double> positions = random_positions(random_, c, true);
  std::vector<double> coefficients(1001);
  for (std::size_t i = 0; i < coefficients.size(); ++i) coefficients[i] = i % 8 == 0 ? 1.0 : 0.0;
  inputs[0].write(positions);
  inputs[1].write(coefficients);
  const auto expected = reference::signal(c.reference_basis(), 1, positions, coefficients, 1);
  for (const auto set : sets_on(GetParam())) {
    const Signal kernel(c.grid(), set);
    KernelRun<Signal> run(kernel, GetParam(), inputs);
    run.forward();
    expect_close(run.outputs[0], expected, 3e-7, name_of(set));
  }
}

TEST_P(SignalOn, KeepsNaNToItsRow) {
  const LtmCase c = {1, 1, 100, 8, 128, {0.01, 0.05}};
  std::vector<TestTensor> inputs = inputs_of(GetParam(), DType::kF32, c);
  std::vector<double> positions = random_positions(random_, c, true);
  positions[17] = std::numeric_limits<double>::quiet_NaN();
  inputs[0].write(positions);
  inputs[1].write(random_numbers(random_, 128 * 8));
  for (const auto set : sets_on(GetParam())) {
    const Signal kernel(c.grid(), set);
    KernelRun<Signal> run(kernel, GetParam(), inputs);
    run.forward();
    const std::vector<double> rows = run.outputs[0].read();
    for (std::size_t i = 0; i < rows.size(); ++i) EXPECT_EQ(std::isnan(rows[i]), i / 8 == 17) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, SignalOn, testing::Values(Device::kCpu, Device::kCuda),
                         [](const auto& device) { return name_of(device); });

TEST(Signal, GivesTheSameBitsHoweverTheWorkIsCut) {
  std::mt19937 random(test_seed());
  const LtmCase c = {3, 1, 100, 700, 128, {0.01, 0.05}};
  std::vector<TestTensor> inputs = inputs_of(Device::kCpu, DType::kF32, c);
  inputs[0].write(random_positions(random, c, false));
  inputs[1].write(random_numbers(random, static_cast<int64_t>(inputs[1].elements())));
  const Signal kernel(c.grid());
  KernelRun<Signal> run(kernel, Device::kCpu, inputs);
  run.forward();
  const std::vector<double> whole = run.outputs[0].read();
  const ReversedPieces pieces;
  run.forward();
  EXPECT_EQ(run.outputs[0].read(), whole);
}

TEST(Signal, RefusesInputsThatDoNotFitTogether) {
  const Signal kernel(make_grid(8, {0.1, 0.2}));
  const auto error = [&](std::vector<int64_t> positions, std::vector<int64_t> coefficients,
                         DType position_type, DType coefficient_type) {
    std::vector<TestTensor> inputs;
    inputs.emplace_back(Device::kCpu, position_type, std::move(positions));
    inputs.emplace_back(Device::kCpu, coefficient_type, std::move(coefficients));
    return infer_error(kernel, std::move(inputs));
  };
  EXPECT_EQ(error({2, 5}, {2, 8, 4}, DType::kF64, DType::kF32), "");
  EXPECT_EQ(error({2, 5, 1}, {2, 8, 4}, DType::kF64, DType::kF32),
            "3: positions: expected [B, M], got [2, 5, 1]");
  EXPECT_EQ(error({2, 5}, {2, 8}, DType::kF64, DType::kF32),
            "3: coefficients: expected [B, N, D], got [2, 8]");
  EXPECT_EQ(error({2, 5}, {2, 6, 4}, DType::kF64, DType::kF32),
            "3: coefficients: expected [2, 8, 4], got [2, 6, 4]");
  EXPECT_EQ(error({2, 5}, {2, 8, 4}, DType::kF32, DType::kF32),
            "4: positions: expected f64, got dtype code 1");
  EXPECT_EQ(error({2, 5}, {2, 8, 4}, DType::kF64, DType::kBF16),
            "4: coefficients: expected f32 or f64, got dtype code 2");
}

std::string grid_error(int64_t basis, const std::vector<double>& widths, double band = 0.0) {
  try {
    static_cast<void>(make_grid(basis, widths, band));
  } catch (const Failure& failure) {
    return std::to_string(failure.code()) + ": " + failure.what();
  }
  return "";
}

TEST(BasisGrid, PlacesCentresOverBothEndsAndPicksItsBandByPrecision) {
  const continuous_ltm::BasisGrid grid = make_grid(10, {0.1, 0.2});
  EXPECT_EQ(grid.basis(), 10);
  EXPECT_EQ(grid.centre(0), 0.0);
  EXPECT_EQ(grid.centre(1), 0.25);
  EXPECT_EQ(grid.centre(4), 1.0);
  EXPECT_EQ(make_grid(1, {0.1}).centre(0), 0.0);
  EXPECT_EQ(grid.cutoff(false), 6.5);
  EXPECT_EQ(grid.cutoff(true), 9.0);
  EXPECT_EQ(make_grid(10, {0.1}, 0.0).cutoff(false), 0.0);
  EXPECT_EQ(make_grid(10, {0.1}, 4.5).cutoff(true), 4.5);
}

TEST(BasisGrid, RefusesNumbersThatMakeNoBasis) {
  EXPECT_EQ(grid_error(10, {}), "1: widths: expected 1 to 16 of them, got 0");
  EXPECT_EQ(grid_error(17, std::vector<double>(17, 0.1)),
            "1: widths: expected 1 to 16 of them, got 17");
  EXPECT_EQ(grid_error(9, {0.1, 0.2}),
            "1: basis: expected a positive multiple of the number of widths, 2, got 9");
  EXPECT_EQ(grid_error(0, {0.1}),
            "1: basis: expected a positive multiple of the number of widths, 1, got 0");
  EXPECT_EQ(grid_error(2, {0.1, 0.0}), "1: widths: expected numbers above 0, got 0.000000");
  EXPECT_EQ(grid_error(2, {0.1, std::nan("")}), "1: widths: expected numbers above 0, got nan");
  EXPECT_EQ(grid_error(2, {0.1}, -2.0),
            "1: band: expected 0 or more standard deviations, got -2.000000");
  EXPECT_EQ(grid_error(2, {0.1}, INFINITY),
            "1: band: expected 0 or more standard deviations, got inf");
}

}  // namespace
}  // namespace mneme::test
