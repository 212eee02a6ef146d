// What a kernel is told and asked for beyond its numbers.
#include "host/memory/abi/kernel_function.hpp"

#include <gtest/gtest.h>

#include "host/tensor/torch.hpp"

namespace mneme::memory {
namespace {

// out = a * b, with gradients for those that are wanted.
struct TestedProduct {
  uint32_t device_type = 0;
  bool wants_a = false, wants_b = false;
};

mneme_status infer_product(void* user, mneme_kernel_plan* plan, mneme_error*) {
  static_cast<TestedProduct*>(user)->device_type = plan->device_type;
  plan->outputs[0] = plan->inputs[0];
  return MNEME_OK;
}

const double* numbers_of(const mneme_view& view) { return static_cast<const double*>(view.data); }

mneme_status forward_product(void*, const mneme_kernel_call* call, mneme_error*) {
  auto* const out = static_cast<double*>(call->outputs[0].data);
  for (int i = 0; i < 3; ++i)
    out[i] = numbers_of(call->inputs[0])[i] * numbers_of(call->inputs[1])[i];
  return MNEME_OK;
}

mneme_status backward_product(void* user, const mneme_kernel_call* call, mneme_error*) {
  TestedProduct& product = *static_cast<TestedProduct*>(user);
  auto* const a = static_cast<double*>(call->grad_inputs[0].data);
  auto* const b = static_cast<double*>(call->grad_inputs[1].data);
  product.wants_a = a != nullptr;
  product.wants_b = b != nullptr;
  for (int i = 0; i < 3; ++i) {
    const double arriving = numbers_of(call->grad_outputs[0])[i];
    if (a != nullptr) a[i] = arriving * numbers_of(call->inputs[1])[i];
    if (b != nullptr) b[i] = arriving * numbers_of(call->inputs[0])[i];
  }
  return MNEME_OK;
}

class KernelFunctionTest : public testing::Test {
 protected:
  at::Tensor run(uint64_t constant_inputs, const at::Tensor& a, const at::Tensor& b) {
    mneme_kernel_decl decl = MNEME_INIT(mneme_kernel_decl);
    decl.user = &product_;
    decl.n_inputs = 2;
    decl.n_outputs = 1;
    decl.keep_inputs = 3;
    decl.infer = &infer_product;
    decl.forward_cpu = &forward_product;
    decl.backward_cpu = &backward_product;
    decl.constant_inputs = constant_inputs;
    return run_kernel(decl, "product", {a, b}, {}, {}, at::kCPU, "test", nullptr).front();
  }
  static at::Tensor leaf() { return at::rand({3}, at::kDouble).requires_grad_(); }

  TestedProduct product_;
};

TEST_F(KernelFunctionTest, InferIsToldTheDevice) {
  run(0, leaf(), leaf());
  EXPECT_EQ(product_.device_type, static_cast<uint32_t>(MNEME_DEVICE_CPU));
}

TEST_F(KernelFunctionTest, NoGradientFlowsIntoConstantInputs) {
  const at::Tensor a = leaf(), b = leaf();
  run(0, a, b).sum().backward();
  EXPECT_TRUE(product_.wants_a && product_.wants_b);
  EXPECT_TRUE(at::equal(b.grad(), a.detach()));
  const at::Tensor c = leaf(), d = leaf();
  run(2, c, d).sum().backward();
  EXPECT_TRUE(product_.wants_a);
  EXPECT_FALSE(product_.wants_b);
  EXPECT_TRUE(at::equal(c.grad(), d.detach()));
  EXPECT_FALSE(d.grad().defined());
}

TEST_F(KernelFunctionTest, OutputsOfConstantInputsAloneAreConstants) {
  EXPECT_TRUE(run(2, leaf(), leaf()).requires_grad());
  EXPECT_FALSE(run(3, leaf(), leaf()).requires_grad());
  EXPECT_FALSE(run(2, leaf().detach(), leaf()).requires_grad());
}

}  // namespace
}  // namespace mneme::memory
