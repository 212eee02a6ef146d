// What the reconstruction error says about inputs that do not fit and calls that make no sense.
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "tests/plugins/compressive/kernels/reconstruction_cases.hpp"

namespace mneme::test {
namespace {

using compressive::Reconstruction;

using Shapes = std::vector<std::vector<int64_t>>;

const Shapes& good_shapes() {
  static const Shapes shapes = {{2, 5, 3, 4}, {2, 8, 3, 4}, {2, 8, 3, 4},
                                {2, 6, 3, 4}, {2, 6, 3, 4}, {2, 2}};
  return shapes;
}

std::string error_of(const Shapes& shapes, std::vector<DType> types = {}, int64_t wants = 1,
                     double scale = 1.0) {
  types.resize(5, types.empty() ? DType::kF32 : types[0]);
  types.push_back(DType::kI64);
  std::vector<TestTensor> inputs;
  for (std::size_t i = 0; i < 6; ++i) inputs.emplace_back(Device::kCpu, types[i], shapes[i]);
  return infer_error(Reconstruction(), std::move(inputs), {wants}, {scale});
}

// good_shapes() with another one for input i.
Shapes with(std::size_t i, std::vector<int64_t> shape) {
  Shapes shapes = good_shapes();
  shapes[i] = std::move(shape);
  return shapes;
}

TEST(Reconstruction, RefusesShapesThatDoNotFitTogether) {
  EXPECT_EQ(error_of(good_shapes()), "");
  EXPECT_EQ(error_of(with(0, {2, 5, 12})), "3: q: expected [B, T, H, d], got [2, 5, 12]");
  EXPECT_EQ(error_of(with(1, {2, 8, 12})), "3: k_old: expected [B, E, H, d], got [2, 8, 12]");
  EXPECT_EQ(error_of(with(1, {2, 8, 2, 6})), "3: k_old: expected [2, 8, 3, 4], got [2, 8, 2, 6]");
  EXPECT_EQ(error_of(with(2, {2, 7, 3, 4})), "3: v_old: expected [2, 8, 3, 4], got [2, 7, 3, 4]");
  EXPECT_EQ(error_of(with(3, {2, 6, 12})), "3: k_new: expected [B, N, H, d], got [2, 6, 12]");
  EXPECT_EQ(error_of(with(3, {1, 6, 3, 4})), "3: k_new: expected [2, 6, 3, 4], got [1, 6, 3, 4]");
  EXPECT_EQ(error_of(with(4, {2, 6, 3, 5})), "3: v_new: expected [2, 6, 3, 4], got [2, 6, 3, 5]");
  EXPECT_EQ(error_of(with(5, {2})), "3: counts: expected [2, 2], got [2]");
}

TEST(Reconstruction, RefusesTypesThatDoNotFitTogether) {
  EXPECT_EQ(error_of(good_shapes(), {DType::kF16}),
            "4: q: expected f32, f64 or bf16, got dtype code 3");
  const DType f32 = DType::kF32;
  const DType f64 = DType::kF64;
  EXPECT_EQ(error_of(good_shapes(), {f32, f64}),
            "4: k_old: expected the type of q, code 1, got dtype code 4");
  EXPECT_EQ(error_of(good_shapes(), {f64, f64, f64, f64, f32}),
            "4: v_new: expected the type of q, code 4, got dtype code 1");
  std::vector<TestTensor> inputs;
  for (std::size_t i = 0; i < 6; ++i) inputs.emplace_back(Device::kCpu, f32, good_shapes()[i]);
  EXPECT_EQ(infer_error(Reconstruction(), std::move(inputs), {1}, {1.0}),
            "4: counts: expected i64, got dtype code 1");
}

TEST(Reconstruction, RefusesScalarsThatMakeNoSense) {
  EXPECT_EQ(error_of(good_shapes(), {}, 2), "1: wants_gradient: expected 0 or 1, got 2");
  EXPECT_EQ(error_of(good_shapes(), {}, 1, std::numeric_limits<double>::infinity()),
            "1: scale: expected a finite number, got inf");
}

TEST(Reconstruction, RefusesABackwardPassWithoutDerivatives) {
  std::mt19937 random(1);
  ReconstructionProblem problem(random, Device::kCpu, DType::kF32, {1, 2, 1, 3, 4, 2});
  const Reconstruction kernel;
  KernelRun<Reconstruction> run(kernel, Device::kCpu, problem.inputs, {0}, {1.0});
  run.forward();
  try {
    run.backward(problem.grad.get());
    ADD_FAILURE() << "no error";
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.code(), MNEME_E_INVALID_ARGUMENT);
    EXPECT_STREQ(failure.what(),
                 "wants_gradient was 0 in the forward pass, which made no derivatives");
  }
}

#ifdef MNEME_HAS_CUDA
// The launchers check what they are given before anything is put on a stream: no device needed.
TEST(Reconstruction, SaysWhyALaunchFailed) {
  std::mt19937 random(1);
  ReconstructionProblem problem(random, Device::kCpu, DType::kF32, {1, 2, 1, 3, 4, 2});
  TestTensor error(Device::kCpu, DType::kF32, {1});
  TestTensor saved_rows(Device::kCpu, DType::kF32, {1, 2, 1, 3});
  std::vector<mneme_view> inputs;
  for (TestTensor& input : problem.inputs) inputs.push_back(input.view());
  const mneme_view output = error.view();
  const std::vector<mneme_view> saved(2, saved_rows.view());
  const int64_t wants_gradient = 1;
  const double scale = 1.0;
  mneme_kernel_call raw = MNEME_INIT(mneme_kernel_call);  // without workspace
  raw.inputs = inputs.data();
  raw.outputs = &output;
  raw.saved = saved.data();
  raw.integers = &wants_gradient;
  raw.n_integers = 1;
  raw.reals = &scale;
  raw.n_reals = 1;
  const Reconstruction kernel;
  try {
    kernel.forward_cuda(KernelCall(raw, Reconstruction::kName));
    ADD_FAILURE() << "no error";
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.code(), MNEME_E_CUDA);
    EXPECT_STREQ(failure.what(), "launch failed: invalid argument");
  }
}
#endif

}  // namespace
}  // namespace mneme::test
