// The look-ahead and its gradients on every device, instruction set and dtype against the
// reference; the reference against the paper's two passes and finite differences.
#include <array>

#include "tests/plugins/lamemo/kernels/look_ahead_cases.hpp"

namespace mneme::test {
namespace {

using lamemo::LookAhead;

const std::vector<LookAheadCase>& cases() {
  static const std::vector<LookAheadCase> all = {
      {1, 1, 1, 1, 1, 1},  // everything is one
      {2, 1, 1, 3, 41, 1},
      {2, 7, 1, 2, 8, 7},
      {3, 150, 150, 2, 41, 1},   // the whole triangle
      {2, 640, 64, 2, 41, 577},  // the last key is the first token, at place M
      {1, 300, 80, 1, 64, 221},  // groups of queries
      {2, 7, 20, 3, 16, 1},      // more keys than queries
      {2, 7, 3, 2, 17, 5},
      {2, 24, 16, 2, 16, 9},      // whole tiles
      {2, 25, 17, 2, 15, 9},      // one more
      {2, 23, 15, 2, 17, 9},      // one less
      {1, 100, 400, 2, 24, 1},    // several blocks of keys
      {1, 60, 700, 1, 41, -50},   // keys before the queries
      {2, 60, 20, 2, 8, 20},      // queries that attend no key
      {2, 60, 20, 2, 8, 20, -9},  // without a mask, nearly
      {2, 50, 30, 2, 41, 21, -49},
      {2, 50, 30, 2, 41, 21, 0},
      {2, 50, 30, 2, 41, 21, 7},
      {3, 50, 30, 2, 41, 21, 1, true},
      {3, 90, 40, 2, 9, 51, -89, true, 5},
      {17, 30, 10, 1, 8, 21, 1, true},          // more lanes than strands
      {2, 40, 30, 2, 8, 11, 1, false, 3, 5.0},  // scores so large that few keys have a part
      {2, 0, 5, 2, 8, 1},
      {2, 5, 0, 2, 8, 5},
      {2, 5, 5, 2, 0, 1},
      {2, 5, 5, 0, 8, 1},
      {0, 5, 5, 2, 8, 1},
  };
  return all;
}

double tolerance_of(DType dtype) { return dtype == DType::kF64 ? 1e-12 : 1e-5; }

// What the kernel gives where `expected` has numbers, and the same infinities.
void expect_close_lse(TestTensor& got, std::vector<double> expected, double tolerance,
                      const std::string& what) {
  std::vector<double> values = got.read();
  ASSERT_EQ(values.size(), expected.size()) << what;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (std::isinf(expected[i])) {
      EXPECT_EQ(values[i], expected[i]) << what;
      values[i] = expected[i] = 0.0;
    }
  }
  TestTensor finite(Device::kCpu, got.dtype, got.shape);
  finite.write(values);
  expect_close(finite, expected, tolerance, what);
}

// A sum of terms that cancel has the rounding of the terms: with one key and no virtual key the
// probability is 1 whatever the score, and the scores' gradients are rounding alone.
void expect_close_gradient(TestTensor& got, const std::vector<double>& expected, double tolerance,
                           double scale, const std::string& what) {
  const double rounding = 1e-2 * tolerance * scale;
  const std::vector<double> values = got.read();
  double error = 0.0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    error += (values[i] - expected[i]) * (values[i] - expected[i]);
  }
  if (std::sqrt(error) <= rounding) return;
  expect_close(got, expected, tolerance, what);
}

void compare(Device device, DType dtype, const LookAheadCase& c, std::mt19937& random) {
  LookAheadProblem problem(random, device, dtype, c);
  const auto expected = reference::look_ahead(c.shape(), problem.in);
  const auto grad = reference::look_ahead_gradients(c.shape(), problem.in, problem.arriving);
  const std::array<const std::vector<double>*, 6> gradients = {
      &grad.q, &grad.k, &grad.v, &grad.table, &grad.content_bias, &grad.position_bias};
  const double tolerance = tolerance_of(dtype);
  const double scale = norm(problem.arriving.context) + norm(problem.arriving.lse);
  for (const auto set : sets_on(device)) {
    const std::string what =
        name_of(set) + ", dtype " + std::to_string(static_cast<int>(dtype)) + ", " + text_of(c);
    const LookAhead kernel(set);
    LookAheadRun run(kernel, device, problem.inputs, integers_of(c), {c.scale});
    run.forward();
    expect_close(run.outputs[0], expected.context, tolerance, what + ", context");
    expect_close_lse(run.outputs[1], expected.lse, tolerance, what + ", lse");
    run.backward(problem.both());
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      expect_close_gradient(run.grads[i], *gradients[i], 2.0 * tolerance, scale,
                            what + ", gradient of " + kDifferentiable[i]);
    }
  }
}

class LookAheadOn : public OnDevice {};

// For the CPU's device one head of a case of many tiles of queries and keys: smaller ones have several.
LookAheadCase case_on(Device device, LookAheadCase c) {
  const int64_t tiles = c.lanes * c.heads * ((c.queries + 31) / 32) * ((c.keys + 31) / 32);
  if (is_slow(device) && tiles > 40) c.lanes = c.heads = 1;
  return c;
}

TEST_P(LookAheadOn, EqualsTheReferenceForEveryDtypeAndShape) {
  for (const DType dtype : {DType::kF32, DType::kF64, DType::kBF16}) {
    for (const LookAheadCase& c : cases()) {
      compare(GetParam(), dtype, case_on(GetParam(), c), random_);
    }
  }
}

TEST_P(LookAheadOn, EqualsTheReferenceForRandomShapes) {
  std::uniform_int_distribution<int64_t> extent(1, 90);
  for (int i = 0; i < (is_slow(GetParam()) ? 10 : 30); ++i) {
    LookAheadCase c = {extent(random_) % 3 + 1, extent(random_), extent(random_),
                       extent(random_) % 4 + 1, extent(random_), 1};
    c.first = extent(random_) - 20;
    c.least = i % 3 == 0 ? 20 - extent(random_) : 1;
    c.is_ragged = i % 2 == 0;
    c.more_offsets = extent(random_) % 4;
    compare(GetParam(), i % 5 == 0 ? DType::kF64 : DType::kF32, c, random_);
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, LookAheadOn, testing::Values(Device::kCpu, Device::kCuda),
                         [](const auto& device) { return name_of(device); });

// Of the kernel itself, in f64: every gradient, of the context and of the log-sum-exp.
double objective(const LookAheadCase& c, LookAheadProblem& problem) {
  const LookAhead kernel;
  LookAheadRun run(kernel, Device::kCpu, problem.inputs, integers_of(c), {c.scale});
  run.forward();
  const std::vector<double> context = run.outputs[0].read();
  const std::vector<double> lse = run.outputs[1].read();
  double sum = 0.0;
  for (std::size_t i = 0; i < context.size(); ++i) sum += context[i] * problem.arriving.context[i];
  for (std::size_t i = 0; i < lse.size(); ++i) {
    if (std::isfinite(lse[i])) sum += lse[i] * problem.arriving.lse[i];
  }
  return sum;
}

void expect_finite_differences(const LookAheadCase& c, std::mt19937& random) {
  LookAheadProblem problem(random, Device::kCpu, DType::kF64, c);
  const LookAhead kernel;
  LookAheadRun run(kernel, Device::kCpu, problem.inputs, integers_of(c), {c.scale});
  run.forward();
  run.backward(problem.both());
  for (std::size_t input = 0; input < 6; ++input) {
    const std::vector<double> expected = run.grads[input].read();
    std::vector<double> values = problem.inputs[input].read();
    const std::size_t step = std::max<std::size_t>(1, values.size() / 60);
    for (std::size_t i = 0; i < values.size(); i += step) {
      if (std::isnan(values[i])) continue;  // a key that does not exist
      const double kept = values[i];
      double difference = 0.0;
      for (const double sign : {1.0, -1.0}) {
        values[i] = kept + sign * 1e-5;
        problem.inputs[input].write(values);
        difference += sign * objective(c, problem);
      }
      values[i] = kept;
      problem.inputs[input].write(values);
      EXPECT_NEAR(difference / 2e-5, expected[i], 1e-8 * (1.0 + norm(expected)))
          << text_of(c) << ", " << kDifferentiable[input] << ", element " << i;
    }
  }
}

TEST(LookAhead, GradientsEqualFiniteDifferences) {
  std::mt19937 random(test_seed());
  for (const LookAheadCase& c :
       {LookAheadCase{2, 4, 3, 2, 5, 2}, LookAheadCase{1, 1, 1, 1, 41, 1},
        LookAheadCase{2, 3, 6, 1, 41, 1}, LookAheadCase{3, 9, 5, 2, 3, 5, 1, true},
        LookAheadCase{2, 6, 4, 2, 3, 3, -5, true, 2}}) {
    expect_finite_differences(c, random);
  }
}

TEST(LookAheadReference, EqualsThePapersTwoPasses) {
  std::mt19937 random(test_seed());
  for (const LookAheadCase& c :
       {LookAheadCase{2, 12, 5, 2, 7, 8}, LookAheadCase{2, 9, 9, 3, 4, 1, -8}}) {
    reference::Inputs in = random_inputs(random, c);
    in.lse[0] = -std::numeric_limits<double>::infinity();  // look-ahead alone
    in.lse[1] = 60.0;                                      // carried alone, nearly
    const auto merged = reference::look_ahead(c.shape(), in);
    const auto official = reference::look_ahead_in_two_passes(c.shape(), in);
    for (std::size_t i = 0; i < merged.lse.size(); ++i) {
      EXPECT_NEAR(merged.lse[i], official.lse[i], 1e-13 * (1.0 + std::fabs(official.lse[i])));
    }
    for (std::size_t i = 0; i < merged.context.size(); ++i) {
      EXPECT_NEAR(merged.context[i], official.context[i], 1e-13) << text_of(c);
    }
  }
}

}  // namespace
}  // namespace mneme::test
