// What the expectation says about inputs that do not fit and launches that fail.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "plugins/continuous_ltm/basis_grid.hpp"
#include "plugins/continuous_ltm/kernels/expectation.hpp"
#include "tests/plugins/kernel_run.hpp"

namespace mneme::test {
namespace {

using continuous_ltm::Expectation;

std::vector<TestTensor> inputs_of(const std::vector<std::vector<int64_t>>& shapes,
                                  const std::vector<DType>& types) {
  std::vector<TestTensor> inputs;
  for (std::size_t i = 0; i < 3; ++i) inputs.emplace_back(Device::kCpu, types[i], shapes[i]);
  return inputs;
}

TEST(Expectation, RefusesInputsThatDoNotFitTogether) {
  const Expectation kernel(continuous_ltm::make_grid(8, {0.1, 0.2}));
  const std::vector<std::vector<int64_t>> good = {{2, 3, 5}, {2, 3, 5}, {2, 8, 3, 4}};
  const std::vector<DType> floats(3, DType::kF32);
  EXPECT_EQ(infer_error(kernel, inputs_of(good, floats)), "");
  EXPECT_EQ(infer_error(kernel, inputs_of({{2, 3}, {2, 3}, {2, 8, 3, 4}}, floats)),
            "3: mu: expected [B, H, T], got [2, 3]");
  EXPECT_EQ(infer_error(kernel, inputs_of({{2, 3, 5}, {2, 3, 6}, {2, 8, 3, 4}}, floats)),
            "3: variance: expected [2, 3, 5], got [2, 3, 6]");
  EXPECT_EQ(infer_error(kernel, inputs_of({{2, 3, 5}, {2, 3, 5}, {2, 8, 12}}, floats)),
            "3: values: expected [B, N, H, d], got [2, 8, 12]");
  EXPECT_EQ(infer_error(kernel, inputs_of({{2, 3, 5}, {2, 3, 5}, {2, 6, 3, 4}}, floats)),
            "3: values: expected [2, 8, 3, 4], got [2, 6, 3, 4]");
  EXPECT_EQ(infer_error(kernel, inputs_of(good, {DType::kF32, DType::kF64, DType::kF32})),
            "4: mu and variance: expected f32 or f64 for both, got dtype codes 1 and 4");
  EXPECT_EQ(infer_error(kernel, inputs_of(good, {DType::kBF16, DType::kBF16, DType::kBF16})),
            "4: mu and variance: expected f32 or f64 for both, got dtype codes 2 and 2");
  EXPECT_EQ(infer_error(kernel, inputs_of(good, {DType::kF32, DType::kF32, DType::kF64})),
            "4: values: expected f32, bf16 or f16, got dtype code 4");
  EXPECT_EQ(infer_error(kernel, inputs_of(good, {DType::kF64, DType::kF64, DType::kF32})),
            "4: values: expected f64 with f64 densities, got dtype code 1");
}

#ifdef MNEME_HAS_CUDA
// The launchers check what they are given before anything is put on a stream: no device needed.
TEST(Expectation, SaysWhyALaunchFailed) {
  std::vector<TestTensor> tensors =
      inputs_of({{2, 3, 5}, {2, 3, 5}, {2, 8, 3, 4}}, std::vector<DType>(3, DType::kF32));
  TestTensor context(Device::kCpu, DType::kF32, {2, 5, 3, 4});
  std::vector<mneme_view> inputs;
  for (TestTensor& input : tensors) inputs.push_back(input.view());
  const mneme_view output = context.view();
  mneme_kernel_call raw = MNEME_INIT(mneme_kernel_call);  // without workspace
  raw.inputs = inputs.data();
  raw.outputs = &output;
  raw.grad_outputs = &output;
  raw.grad_inputs = inputs.data();
  const KernelCall call(raw, Expectation::kName);
  const Expectation kernel(continuous_ltm::make_grid(8, {0.1, 0.2}));
  for (const bool is_forward : {true, false}) {
    try {
      is_forward ? kernel.forward_cuda(call) : kernel.backward_cuda(call);
      ADD_FAILURE() << "no error";
    } catch (const Failure& failure) {
      EXPECT_EQ(failure.code(), MNEME_E_CUDA);
      EXPECT_STREQ(failure.what(), "launch failed: invalid argument");
    }
  }
}
#endif

}  // namespace
}  // namespace mneme::test
