// Pooling and its gradient on every device, instruction set and dtype against the reference; the
// reference's gradient against finite differences.
#include "plugins/compressive/kernels/pool.hpp"

#include <limits>

#include "tests/plugins/compressive/cases.hpp"

namespace mneme::test {
namespace {

using compressive::Pool;
using reference::Windows;
using CompressivePoolCall = KernelRun<Pool>;

const std::vector<Windows>& cases() {
  static const std::vector<Windows> all = {
      {1, 1, 1, 1},   {2, 7, 41, 1},                  // each row is a window
      {2, 12, 6, 3},  {2, 10, 6, 3},                  // a rest of one row
      {3, 31, 63, 4}, {1, 8, 64, 8},                  // one window
      {2, 5, 65, 4},  {5, 64, 130, 2}, {2, 3, 8, 4},  // fewer rows than a window has
      {2, 0, 8, 4},   {2, 8, 0, 4},    {0, 8, 8, 4},
  };
  return all;
}

std::string text_of(const Windows& w) {
  return "B=" + std::to_string(w.lanes) + " m=" + std::to_string(w.rows) +
         " D=" + std::to_string(w.width) + " c=" + std::to_string(w.rate) +
         (w.is_max ? " max" : " mean");
}

// Multiples of 1/4 in the rows: several of a window are the largest.
struct PoolProblem {
  std::vector<double> rows;
  std::vector<double> arriving;
  std::vector<TestTensor> inputs;
  std::unique_ptr<TestTensor> grad;

  PoolProblem(std::mt19937& random, Device device, DType dtype, const Windows& w) {
    std::uniform_int_distribution<int> value(-6, 6);
    for (int64_t i = 0; i < w.lanes * w.rows * w.width; ++i) rows.push_back(value(random) * 0.25);
    inputs.emplace_back(device, dtype, std::vector<int64_t>{w.lanes, w.rows, w.width});
    inputs[0].write(rows);
    grad = std::make_unique<TestTensor>(device, dtype,
                                        std::vector<int64_t>{w.lanes, w.count(), w.width});
    grad->write(random_numbers(random, w.lanes * w.count() * w.width));
    arriving = grad->read();
  }
};

// Sums of up to 8 terms, and a quotient.
double tolerance_of(DType dtype) { return dtype == DType::kF64 ? 1e-15 : 2e-7; }

void compare(Device device, DType dtype, const Windows& w, std::mt19937& random) {
  PoolProblem problem(random, device, dtype, w);
  const auto pooled = reference::pool(w, problem.rows);
  const auto gradient = reference::pool_gradient(w, problem.rows, problem.arriving);
  for (const auto set : sets_on(device)) {
    const std::string what =
        name_of(set) + ", dtype " + std::to_string(static_cast<int>(dtype)) + ", " + text_of(w);
    const Pool kernel(set);
    CompressivePoolCall run(kernel, device, problem.inputs, {w.rate, w.is_max ? 1 : 0});
    run.forward();
    expect_close(run.outputs[0], pooled, tolerance_of(dtype), what);
    run.backward(problem.grad.get());
    expect_close(run.grads[0], gradient, tolerance_of(dtype), what + ", gradient");
  }
}

class PoolOn : public OnDevice {};

TEST_P(PoolOn, EqualsTheReferenceForEveryDtypeAndShape) {
  for (const DType dtype : {DType::kF32, DType::kF64, DType::kBF16, DType::kF16}) {
    for (Windows w : cases()) {
      for (const bool is_max : {false, true}) {
        w.is_max = is_max;
        compare(GetParam(), dtype, w, random_);
      }
    }
  }
}

// 65504 is the largest f16 and 256 ones are beyond bf16's 8 bits: sums are in f32.
TEST_P(PoolOn, SumsNarrowTypesInSingle) {
  for (const DType dtype : {DType::kF16, DType::kBF16}) {
    std::vector<TestTensor> inputs;
    inputs.emplace_back(GetParam(), dtype, std::vector<int64_t>{1, 1024, 1});
    inputs[0].write(std::vector<double>(1024, dtype == DType::kF16 ? 60000.0 : 1.0));
    const Pool kernel;
    CompressivePoolCall run(kernel, GetParam(), inputs, {1024, 0});
    run.forward();
    EXPECT_EQ(run.outputs[0].read(), inputs[0].read().front() == 1.0
                                         ? std::vector<double>{1.0}
                                         : std::vector<double>{inputs[0].read().front()});
  }
}

TEST_P(PoolOn, KeepsNaNToItsWindowAndColumn) {
  for (const bool is_max : {false, true}) {
    for (const std::size_t row : {3U, 4U, 5U}) {  // first, middle and last of window 1
      const Windows w = {1, 9, 5, 3, is_max};
      PoolProblem problem(random_, GetParam(), DType::kF32, w);
      problem.rows[row * 5 + 2] = std::numeric_limits<double>::quiet_NaN();
      problem.inputs[0].write(problem.rows);
      for (const auto set : sets_on(GetParam())) {
        const Pool kernel(set);
        CompressivePoolCall run(kernel, GetParam(), problem.inputs, {w.rate, is_max ? 1 : 0});
        run.forward();
        const std::vector<double> pooled = run.outputs[0].read();
        for (std::size_t i = 0; i < 15; ++i) EXPECT_EQ(std::isnan(pooled[i]), i == 7) << i;
        run.backward(problem.grad.get());
        expect_close(run.grads[0], reference::pool_gradient(w, problem.rows, problem.arriving),
                     1e-6, name_of(set) + ", gradient");
      }
    }
  }
}

TEST_P(PoolOn, ReadsAnAbsentGradientAsZeros) {
  PoolProblem problem(random_, GetParam(), DType::kF32, {2, 7, 5, 3});
  const Pool kernel;
  CompressivePoolCall run(kernel, GetParam(), problem.inputs, {3, 0});
  run.backward(nullptr);
  EXPECT_EQ(norm(run.grads[0].read()), 0.0);
}

TEST_P(PoolOn, WritesNothingWhereNoGradientIsWanted) {
  PoolProblem problem(random_, GetParam(), DType::kF32, {2, 7, 5, 3});
  const Pool kernel;
  CompressivePoolCall run(kernel, GetParam(), problem.inputs, {3, 1});
  run.backward(problem.grad.get(), 0U);
  TestTensor untouched(GetParam(), DType::kF32, {2, 7, 5});
  EXPECT_EQ(run.grads[0].read(), untouched.read());
}

INSTANTIATE_TEST_SUITE_P(Devices, PoolOn, testing::Values(Device::kCpu, Device::kCuda),
                         [](const auto& device) { return name_of(device); });

TEST(Pool, GivesTheSameBitsHoweverTheWorkIsCut) {
  std::mt19937 random(test_seed());
  PoolProblem problem(random, Device::kCpu, DType::kF32, {3, 40, 70, 3});
  const Pool kernel;
  CompressivePoolCall run(kernel, Device::kCpu, problem.inputs, {3, 0});
  run.forward();
  run.backward(problem.grad.get());
  const std::vector<double> pooled = run.outputs[0].read();
  const std::vector<double> gradient = run.grads[0].read();
  const ReversedPieces pieces;
  run.forward();
  run.backward(problem.grad.get());
  EXPECT_EQ(run.outputs[0].read(), pooled);
  EXPECT_EQ(run.grads[0].read(), gradient);
}

TEST(Pool, RefusesWhatItCannotPool) {
  const auto error = [](DType dtype, std::vector<int64_t> shape, std::vector<int64_t> integers) {
    std::vector<TestTensor> inputs;
    inputs.emplace_back(Device::kCpu, dtype, std::move(shape));
    return infer_error(Pool(), std::move(inputs), std::move(integers));
  };
  EXPECT_EQ(error(DType::kF32, {2, 7, 5}, {3, 0}), "");
  EXPECT_EQ(error(DType::kF32, {7, 5}, {3, 0}), "3: rows: expected [B, m, D], got [7, 5]");
  EXPECT_EQ(error(DType::kI64, {2, 7, 5}, {3, 0}),
            "4: expected f32, f64, bf16 or f16, got dtype code 6");
  EXPECT_EQ(error(DType::kF32, {2, 7, 5}, {0, 0}), "1: rate: expected at least 1, got 0");
  EXPECT_EQ(error(DType::kF32, {2, 7, 5}, {3, 2}), "1: kind: expected 0 (mean) or 1 (max), got 2");
}

double objective(const Windows& w, const std::vector<double>& rows,
                 const std::vector<double>& arriving) {
  const auto pooled = reference::pool(w, rows);
  double sum = 0.0;
  for (std::size_t i = 0; i < pooled.size(); ++i) sum += pooled[i] * arriving[i];
  return sum;
}

TEST(PoolReference, GradientEqualsFiniteDifferences) {
  std::mt19937 random(test_seed());
  for (const bool is_max : {false, true}) {
    const Windows w = {2, 11, 3, 4, is_max};
    std::vector<double> rows = random_numbers(random, 2 * 11 * 3);
    const std::vector<double> arriving = random_numbers(random, 2 * 2 * 3);
    const std::vector<double> expected = reference::pool_gradient(w, rows, arriving);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const double kept = rows[i];
      double difference = 0.0;
      for (const double sign : {1.0, -1.0}) {
        rows[i] = kept + sign * 1e-6;
        difference += sign * objective(w, rows, arriving);
      }
      rows[i] = kept;
      EXPECT_NEAR(difference / 2e-6, expected[i], 1e-8 * (1.0 + norm(expected))) << i;
    }
  }
}

}  // namespace
}  // namespace mneme::test
