#include "host/tensor/dispatch/shapes_alone.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "host/tensor/torch.hpp"

namespace mneme::test {
namespace {

at::TensorOptions meta(at::ScalarType type = at::kFloat) {
  return at::TensorOptions(type).device(at::kMeta);
}

void expect_shape(const at::Tensor& t, at::IntArrayRef sizes, at::ScalarType type = at::kFloat) {
  EXPECT_TRUE(t.is_meta());
  EXPECT_EQ(t.sizes(), sizes);
  EXPECT_EQ(t.scalar_type(), type);
}

// Operations of each kind that LibTorch's own meta device lacks: with one result and several, in
// place, into a given tensor of another size, and with a backward pass.
TEST(ShapesAlone, CoversOperationsThatTheMetaDeviceLacks) {
  const at::Tensor x = at::empty({3, 4}, meta()).requires_grad_();
  const at::Tensor index = at::empty({5}, meta(at::kLong));
  EXPECT_THROW(static_cast<void>(at::index_select(x.detach(), 0, index)), c10::Error);
  const tensor::ShapesAlone shapes_alone;
  const at::Tensor picked = at::index_select(x, 0, index);
  expect_shape(picked, {5, 4});
  const at::Tensor dropped = at::dropout(picked, 0.5, /*train=*/true);
  expect_shape(dropped, {5, 4});
  const auto gradients = torch::autograd::grad({dropped.sum()}, {x});
  expect_shape(gradients.at(0), {3, 4});

  const at::NoGradGuard no_grad;
  expect_shape(at::arange(9, 2, -1, meta(at::kLong)), {7}, at::kLong);
  const auto [mean, variance, count] = at::native_batch_norm(x, {}, {}, {}, {}, true, 0.1, 1e-5);
  expect_shape(mean, {3, 4});
  expect_shape(variance, {4});
  expect_shape(count, {4});
  at::Tensor mask = at::empty({2, 3}, meta(at::kBool));
  EXPECT_TRUE(mask.logical_and_(mask).is_same(mask));
  at::Tensor out = at::empty({0}, meta());
  expect_shape(at::index_select_out(out, x, 1, index), {3, 5});
  expect_shape(out, {3, 5});
}

TEST(ShapesAlone, EndsWithItsObject) {
  { const tensor::ShapesAlone shapes_alone; }
  const at::Tensor x = at::empty({3, 4}, meta());
  EXPECT_THROW(static_cast<void>(at::index_select(x, 0, at::empty({5}, meta(at::kLong)))),
               c10::Error);
  const at::Tensor y = at::arange(6.0).view({2, 3});  // other devices compute
  EXPECT_EQ(at::index_select(y, 1, at::tensor({2, 0})).sum().item<double>(), 10.0);
}

}  // namespace
}  // namespace mneme::test
