// The reconstruction error and its gradients on every device, instruction set and dtype against
// the reference; the reference's gradients against finite differences.
#include "tests/plugins/compressive/kernels/reconstruction_cases.hpp"

namespace mneme::test {
namespace {

using compressive::Reconstruction;
using Call = KernelRun<Reconstruction>;

const std::vector<ReconstructionCase>& compressive_reconstruction_cases() {
  static const std::vector<ReconstructionCase> all = {
      {1, 1, 1, 1, 1, 1},  // everything is one
      {2, 3, 1, 1, 5, 2},
      {1, 1, 3, 41, 7, 1},
      {2, 5, 2, 8, 1, 1},
      {2, 48, 2, 16, 96, 24},  // whole tiles and blocks
      {1, 49, 1, 17, 97, 25},  // one more
      {2, 47, 2, 41, 95, 23},  // one less
      {1, 100, 2, 64, 130, 32},
      {1, 200, 1, 32, 300, 100},          // several groups of queries, several blocks of new rows
      {1, 300, 2, 24, 50, 150},           // more new rows than old ones
      {4, 30, 3, 13, 40, 11, true},       // lanes of their own sizes, the first without rows
      {17, 50, 1, 8, 20, 5, true},        // more lanes than strands
      {2, 20, 2, 8, 40, 10, false, 3.0},  // scores so large that few rows have a part
      {2, 0, 2, 8, 10, 5},
      {2, 5, 2, 0, 10, 5},
      {2, 5, 2, 8, 0, 5},
      {2, 5, 2, 8, 10, 0},
      {2, 5, 0, 8, 10, 5},
      {0, 5, 2, 8, 10, 5},
  };
  return all;
}

double compressive_reconstruction_tolerance_of(DType dtype) {
  return dtype == DType::kF64 ? 1e-12 : 1e-5;
}

void compare(Device device, DType dtype, const ReconstructionCase& c, std::mt19937& random) {
  ReconstructionProblem problem(random, device, dtype, c);
  const auto error = reference::reconstruction_error(c.shape(), problem.in);
  const auto gradients =
      reference::reconstruction_gradients(c.shape(), problem.in, problem.arriving);
  const double tolerance = compressive_reconstruction_tolerance_of(dtype);
  for (const auto set : sets_on(device)) {
    const std::string what =
        name_of(set) + ", dtype " + std::to_string(static_cast<int>(dtype)) + ", " + text_of(c);
    const Reconstruction kernel(set);
    Call run(kernel, device, problem.inputs, {1}, {problem.in.scale});
    run.forward();
    expect_close(run.outputs[0], error, tolerance, what + ", error");
    run.backward(problem.grad.get());
    expect_close(run.grads[3], gradients.k_new, tolerance, what + ", keys' gradient",
                 norm(gradients.k_terms));
    expect_close(run.grads[4], gradients.v_new, tolerance, what + ", values' gradient");
    Call without(kernel, device, problem.inputs, {0}, {problem.in.scale});
    without.forward();
    expect_close(without.outputs[0], error, tolerance, what + ", error alone");
  }
}

class ReconstructionOn : public OnDevice {};

TEST_P(ReconstructionOn, EqualsTheReferenceForEveryDtypeAndShape) {
  for (const DType dtype : {DType::kF32, DType::kF64, DType::kBF16}) {
    for (const ReconstructionCase& c : compressive_reconstruction_cases())
      compare(GetParam(), dtype, c, random_);
  }
}

TEST_P(ReconstructionOn, EqualsTheReferenceForRandomShapes) {
  std::uniform_int_distribution<int64_t> extent(1, 70);
  for (int i = 0; i < (is_slow(GetParam()) ? 8 : 20); ++i) {
    const ReconstructionCase c = {extent(random_) % 3 + 1,
                                  extent(random_),
                                  extent(random_) % 4 + 1,
                                  extent(random_),
                                  extent(random_) * 3,
                                  extent(random_),
                                  i % 2 == 0};
    compare(GetParam(), i % 3 == 0 ? DType::kF64 : DType::kF32, c, random_);
  }
}

// Constants by definition: what asks for their gradients gets zeros.
TEST_P(ReconstructionOn, GivesLanesWithoutRowsNoErrorAndNoGradient) {
  const ReconstructionCase c = {3, 5, 2, 8, 12, 3};
  ReconstructionProblem problem(random_, GetParam(), DType::kF32, c);
  problem.inputs[5].write(std::vector<int64_t>{0, 3, 12, 0, 12, 3});
  for (const auto set : sets_on(GetParam())) {
    const Reconstruction kernel(set);
    Call run(kernel, GetParam(), problem.inputs, {1}, {1.0});
    run.forward();
    run.backward(problem.grad.get());
    const std::vector<double> error = run.outputs[0].read();
    for (std::size_t b = 0; b < 3; ++b) EXPECT_EQ(error[b] == 0.0, b < 2) << name_of(set);
    for (const std::size_t i : {3U, 4U}) {
      const std::vector<double> grad = run.grads[i].read();
      for (std::size_t j = 0; j < 2 * 48; ++j) EXPECT_EQ(grad[j], 0.0) << name_of(set);
      EXPECT_NE(grad[2 * 48], 0.0) << name_of(set);
    }
  }
}

// Equal rows are reconstructed without error, and there the error is at its minimum.
TEST_P(ReconstructionOn, HasNoErrorWhereTheNewRowsAreTheOldOnes) {
  const ReconstructionCase c = {2, 60, 2, 8, 20, 20};
  ReconstructionProblem problem(random_, GetParam(), DType::kF64, c);
  problem.inputs[3].write(problem.in.k_old);
  problem.inputs[4].write(problem.in.v_old);
  const Reconstruction kernel;
  Call run(kernel, GetParam(), problem.inputs, {1}, {0.3});
  run.forward();
  run.backward(problem.grad.get());
  EXPECT_LT(norm(run.outputs[0].read()), 1e-24);
  for (const std::size_t i : {3U, 4U}) EXPECT_LT(norm(run.grads[i].read()), 1e-12) << i;
}

// A row of no part in the softmax has no gradient: its probability is 0 to the last bit or nearly.
TEST_P(ReconstructionOn, TakesScoresOfMinusInfinityAsAbsent) {
  const ReconstructionCase c = {1, 1, 1, 1, 2, 2};
  ReconstructionProblem problem(random_, GetParam(), DType::kF32, c);
  const double infinity = std::numeric_limits<double>::infinity();
  problem.inputs[0].write(std::vector<double>{1.0});
  problem.inputs[1].write(std::vector<double>{0.0, -infinity});
  problem.inputs[2].write(std::vector<double>{2.0, 100.0});
  problem.inputs[3].write(std::vector<double>{-infinity, 0.0});
  problem.inputs[4].write(std::vector<double>{100.0, 5.0});
  for (const auto set : sets_on(GetParam())) {
    const Reconstruction kernel(set);
    Call run(kernel, GetParam(), problem.inputs, {0}, {1.0});
    run.forward();
    EXPECT_FLOAT_EQ(static_cast<float>(run.outputs[0].read()[0]), 9.0F) << name_of(set);
  }
}

bool has_nan(const std::vector<double>& values) {
  bool found = false;
  for (const double value : values) found = found || std::isnan(value);
  return found;
}

TEST_P(ReconstructionOn, KeepsNaNToItsLane) {
  const ReconstructionCase c = {2, 60, 2, 8, 100, 7};
  for (const std::size_t input : {0U, 1U, 2U, 3U, 4U}) {
    ReconstructionProblem problem(random_, GetParam(), DType::kF32, c);
    std::vector<double> values = problem.inputs[input].read();
    values.back() = std::numeric_limits<double>::quiet_NaN();  // lane 1, head 1
    problem.inputs[input].write(values);
    for (const auto set : sets_on(GetParam())) {
      const Reconstruction kernel(set);
      Call run(kernel, GetParam(), problem.inputs, {1}, {0.5});
      run.forward();
      run.backward(problem.grad.get());
      const std::string what = name_of(set) + ", input " + std::to_string(input);
      EXPECT_FALSE(std::isnan(run.outputs[0].read()[0])) << what;
      EXPECT_TRUE(std::isnan(run.outputs[0].read()[1])) << what;
      for (const std::size_t i : {3U, 4U}) {
        std::vector<double> grad = run.grads[i].read();
        EXPECT_TRUE(has_nan(grad)) << what;
        grad.resize(grad.size() / 2);
        EXPECT_FALSE(has_nan(grad)) << what;
      }
    }
  }
}

// A lane's numbers are those of the lane alone.
TEST_P(ReconstructionOn, ComputesLanesAlone) {
  const ReconstructionCase c = {3, 100, 2, 9, 50, 12};
  ReconstructionProblem problem(random_, GetParam(), DType::kF32, c);
  const Reconstruction kernel;
  Call all(kernel, GetParam(), problem.inputs, {1}, {0.5});
  all.forward();
  std::vector<TestTensor> inputs;
  for (std::size_t i = 0; i < 5; ++i) {
    std::vector<double> values = problem.inputs[i].read();
    values.erase(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 3));
    values.resize(values.size() / 2);  // lane 1
    std::vector<int64_t> shape = problem.inputs[i].shape;
    shape[0] = 1;
    inputs.emplace_back(GetParam(), DType::kF32, shape);
    inputs.back().write(values);
  }
  inputs.emplace_back(GetParam(), DType::kI64, std::vector<int64_t>{1, 2});
  inputs.back().write(std::vector<int64_t>{50, 12});
  Call alone(kernel, GetParam(), inputs, {1}, {0.5});
  alone.forward();
  EXPECT_NEAR(alone.outputs[0].read()[0], all.outputs[0].read()[1],
              1e-5 * all.outputs[0].read()[1]);
  const std::vector<double> saved = all.saved[0].read();
  const auto third = static_cast<std::ptrdiff_t>(saved.size() / 3);
  expect_close(alone.saved[0],
               std::vector<double>(saved.begin() + third, saved.begin() + 2 * third), 1e-5,
               "keys' gradient");
}

TEST_P(ReconstructionOn, ReadsAnAbsentGradientAsZeros) {
  ReconstructionProblem problem(random_, GetParam(), DType::kF32, {2, 5, 2, 8, 12, 3});
  const Reconstruction kernel;
  Call run(kernel, GetParam(), problem.inputs, {1}, {1.0});
  run.forward();
  run.backward(nullptr);
  for (const std::size_t i : {3U, 4U}) EXPECT_EQ(norm(run.grads[i].read()), 0.0) << i;
}

TEST_P(ReconstructionOn, GivesTheSameWhenOnlySomeGradientsAreWanted) {
  ReconstructionProblem problem(random_, GetParam(), DType::kBF16, {2, 5, 2, 8, 12, 3});
  const Reconstruction kernel;
  Call run(kernel, GetParam(), problem.inputs, {1}, {1.0});
  run.forward();
  run.backward(problem.grad.get());
  const std::vector<double> all[] = {run.grads[3].read(), run.grads[4].read()};
  for (const uint32_t wanted : {8U, 16U, 0U}) {
    run.backward(problem.grad.get(), wanted);
    for (uint32_t i = 0; i < 2; ++i) {
      const bool is_wanted = (wanted >> (i + 3) & 1U) != 0;
      EXPECT_EQ(run.grads[i + 3].read() == all[i], is_wanted) << "wanted " << wanted;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, ReconstructionOn, testing::Values(Device::kCpu, Device::kCuda),
                         [](const auto& device) { return name_of(device); });

TEST(Reconstruction, GivesTheSameBitsHoweverTheWorkIsCut) {
  std::mt19937 random(test_seed());
  for (const ReconstructionCase& c :
       {ReconstructionCase{2, 600, 2, 9, 30, 8}, ReconstructionCase{5, 60, 4, 9, 30, 8}}) {
    ReconstructionProblem problem(random, Device::kCpu, DType::kF32, c);
    const Reconstruction kernel;
    std::vector<std::vector<double>> results[2];
    for (const bool is_cut : {false, true}) {
      const std::unique_ptr<ReversedPieces> pieces(is_cut ? new ReversedPieces : nullptr);
      Call run(kernel, Device::kCpu, problem.inputs, {1}, {1.0});
      run.forward();
      run.backward(problem.grad.get());
      auto& into = results[is_cut ? 1 : 0];
      into = {run.outputs[0].read(), run.grads[3].read(), run.grads[4].read()};
    }
    EXPECT_EQ(results[0], results[1]) << text_of(c);
  }
}

double objective(const ReconstructionCase& c, const reference::AttentionInputs& in,
                 const std::vector<double>& arriving) {
  const auto error = reference::reconstruction_error(c.shape(), in);
  double sum = 0.0;
  for (std::size_t b = 0; b < error.size(); ++b) sum += error[b] * arriving[b];
  return sum;
}

TEST(ReconstructionReference, GradientsEqualFiniteDifferences) {
  std::mt19937 random(test_seed());
  for (const ReconstructionCase& c :
       {ReconstructionCase{2, 4, 3, 5, 7, 3}, ReconstructionCase{3, 3, 2, 1, 6, 4, true}}) {
    reference::AttentionInputs in = random_inputs(random, c);
    const std::vector<double> arriving = random_numbers(random, c.lanes);
    const auto gradients = reference::reconstruction_gradients(c.shape(), in, arriving);
    const auto check = [&](std::vector<double>& numbers, const std::vector<double>& expected) {
      for (std::size_t i = 0; i < numbers.size(); ++i) {
        const double kept = numbers[i];
        double difference = 0.0;
        for (const double sign : {1.0, -1.0}) {
          numbers[i] = kept + sign * 1e-5;
          difference += sign * objective(c, in, arriving);
        }
        numbers[i] = kept;
        EXPECT_NEAR(difference / 2e-5, expected[i], 1e-8 * (1.0 + norm(expected)))
            << text_of(c) << ", element " << i;
      }
    };
    check(in.k_new, gradients.k_new);
    check(in.v_new, gradients.v_new);
  }
}

}  // namespace
}  // namespace mneme::test
