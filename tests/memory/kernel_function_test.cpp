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
  uint32_t plan_flags = 0, call_flags = 0;
  mneme_shape planned_b = {};
  mneme_view seen_a = {}, seen_b = {};
  int64_t stride_a = 0;
};

mneme_status infer_product(void* user, mneme_kernel_plan* plan, mneme_error*) {
  TestedProduct& product = *static_cast<TestedProduct*>(user);
  product.device_type = plan->device_type;
  product.plan_flags = plan->flags;
  product.planned_b = plan->inputs[1];
  plan->outputs[0] = plan->inputs[0];
  return MNEME_OK;
}

const double* numbers_of(const mneme_view& view) { return static_cast<const double*>(view.data); }

// 1 where the view is absent.
double number_at(const mneme_view& view, int64_t i) {
  return view.data == nullptr ? 1.0 : numbers_of(view)[i * view.strides[0]];
}

mneme_status forward_product(void* user, const mneme_kernel_call* call, mneme_error*) {
  TestedProduct& product = *static_cast<TestedProduct*>(user);
  product.call_flags = call->flags;
  product.seen_a = call->inputs[0];
  product.seen_b = call->inputs[1];
  auto* const out = static_cast<double*>(call->outputs[0].data);
  product.stride_a = call->inputs[0].strides[0];
  for (int i = 0; i < 3; ++i)
    out[i] = number_at(call->inputs[0], i) * number_at(call->inputs[1], i);
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
    if (a != nullptr) a[i] = arriving * number_at(call->inputs[1], i);
    if (b != nullptr) b[i] = arriving * number_at(call->inputs[0], i);
  }
  return MNEME_OK;
}

class KernelFunctionTest : public testing::Test {
 protected:
  at::Tensor run(uint64_t constant_inputs, const at::Tensor& a, const at::Tensor& b,
                 uint64_t strided_inputs = 0, uint64_t optional_inputs = 0) {
    mneme_kernel_decl decl = MNEME_INIT(mneme_kernel_decl);
    decl.strided_inputs = strided_inputs;
    decl.optional_inputs = optional_inputs;
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

TEST_F(KernelFunctionTest, ItIsToldWhenNoBackwardFollows) {
  run(0, leaf(), leaf());
  EXPECT_EQ(product_.plan_flags, 0U);
  EXPECT_EQ(product_.call_flags, 0U);
  run(0, leaf().detach(), leaf().detach());
  EXPECT_EQ(product_.plan_flags, MNEME_KERNEL_NO_BACKWARD);
  EXPECT_EQ(product_.call_flags, MNEME_KERNEL_NO_BACKWARD);
  const at::NoGradGuard no_grad;
  run(0, leaf(), leaf());
  EXPECT_EQ(product_.call_flags, MNEME_KERNEL_NO_BACKWARD);
}

TEST_F(KernelFunctionTest, StridedInputsAreNotCopied) {
  const at::Tensor wide = at::rand({3, 2}, at::kDouble).requires_grad_();
  const at::Tensor a = wide.select(1, 1), b = leaf();
  const at::Tensor copied = run(0, a, b);
  EXPECT_NE(product_.seen_a.data, a.data_ptr());
  const at::Tensor strided = run(0, a, b, 1);
  EXPECT_EQ(product_.seen_a.data, a.data_ptr());
  EXPECT_EQ(product_.stride_a, 2);
  EXPECT_TRUE(at::equal(strided, copied));
  strided.sum().backward();
  EXPECT_TRUE(at::equal(wide.grad().select(1, 1), b.detach()));
  EXPECT_TRUE(at::equal(b.grad(), a.detach()));
  const at::Tensor one = at::rand({1}, at::kDouble).expand({3});
  EXPECT_TRUE(at::equal(run(0, one, b, 1), one * b));
  EXPECT_EQ(product_.stride_a, 0) << "broadcast";
}

TEST_F(KernelFunctionTest, OptionalInputsMayBeAbsent) {
  const at::Tensor a = leaf();
  const at::Tensor out = run(0, a, {}, 0, 2);
  EXPECT_EQ(product_.planned_b.dtype, 0U);
  EXPECT_EQ(product_.planned_b.rank, 0U);
  EXPECT_EQ(product_.seen_b.data, nullptr);
  EXPECT_EQ(product_.seen_b.ndim, 0);
  EXPECT_EQ(product_.seen_b.dtype_bits, 0);
  EXPECT_TRUE(at::equal(out, a));
  out.sum().backward();
  EXPECT_FALSE(product_.wants_b);
  EXPECT_TRUE(at::equal(a.grad(), at::ones({3}, at::kDouble)));
}

}  // namespace
}  // namespace mneme::memory
