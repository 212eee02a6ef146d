// Products in padded sizes, beside those of LibTorch in their own: on the CPU, in every type.
#include "host/tensor/padded_product.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <tuple>
#include <utility>
#include <vector>

#include "host/tensor/device.hpp"
#include "host/tensor/torch.hpp"

namespace mneme::tensor {
namespace {

at::Tensor numbers(at::IntArrayRef sizes, at::ScalarType type) {
  return torch::randn(sizes, at::kDouble).to(type);
}

// Result and gradients of x, weight and, where there is one, bias.
template <typename Linear>
std::vector<at::Tensor> all_of(const std::vector<at::Tensor>& given, const Linear& linear) {
  std::vector<at::Tensor> leaves;
  for (const at::Tensor& t : given) leaves.push_back(t.detach().clone().requires_grad_());
  const at::Tensor out = linear(leaves[0], leaves[1], leaves.size() > 2 ? leaves[2] : at::Tensor());
  // Rows of gradients lie densely, and one that is the same for all rows has no distance.
  (out * at::arange(out.size(1), out.options())).sum().backward();
  std::vector<at::Tensor> all = {out.detach()};
  for (const at::Tensor& t : leaves) all.push_back(t.grad());
  return all;
}

TEST(PaddedProduct, GivesTheProductOfItsOwnSizes) {
  torch::manual_seed(3);
  for (const auto& [type, error] : {std::pair{at::kDouble, 1e-13}, std::pair{at::kFloat, 1e-5},
                                    std::pair{at::kBFloat16, 2e-2}}) {
    for (const auto& [rows, inputs, outputs] : {std::tuple{5, 13, 16}, std::tuple{5, 16, 13},
                                                std::tuple{1, 41, 10}, std::tuple{9, 8, 1}}) {
      for (const bool has_bias : {false, true}) {
        SCOPED_TRACE(testing::Message() << at::toString(type) << ' ' << rows << ' ' << inputs << ' '
                                        << outputs << (has_bias ? " bias" : ""));
        std::vector<at::Tensor> given = {numbers({rows, inputs}, type),
                                         numbers({outputs, inputs}, type)};
        if (has_bias) given.push_back(numbers({outputs}, type));
        const std::vector<at::Tensor> got = all_of(given, padded_linear);
        const std::vector<at::Tensor> expected =
            all_of(given, [](const at::Tensor& x, const at::Tensor& w, const at::Tensor& bias) {
              return bias.defined() ? at::linear(x, w, bias) : at::linear(x, w);
            });
        EXPECT_EQ(got[0].stride(0), padded_size(outputs));
        for (std::size_t i = 0; i < got.size(); ++i) {
          EXPECT_EQ(got[i].sizes(), expected[i].sizes());
          EXPECT_TRUE(at::allclose(got[i], expected[i], error, error)) << i;
        }
      }
    }
  }
}

TEST(PaddedProduct, MakesNoGradientThatIsNotAskedFor) {
  const at::Tensor x = numbers({2, 5}, at::kFloat).requires_grad_();
  const at::Tensor w = numbers({3, 5}, at::kFloat);
  padded_linear(x, w, {}).sum().backward();
  EXPECT_TRUE(at::allclose(x.grad()[1], w.sum(0)));
  EXPECT_FALSE(w.grad().defined());
}

// Where they have room in their memory, sizes are padded without a copy.
TEST(PaddedProduct, ReadsCopiesWithRoomWhereTheyLie) {
  const at::Tensor weight = numbers({21, 13}, at::kFloat);
  const at::Tensor copy = copy_with_room(weight, at::kBFloat16);
  EXPECT_TRUE(at::equal(copy, weight.to(at::kBFloat16)));
  EXPECT_EQ(copy.stride(0), 16);
  for (const auto& [first, count] :
       {std::pair{0, 21}, std::pair{0, 7}, std::pair{7, 14}, std::pair{20, 1}}) {
    const at::Tensor part = copy.narrow(0, first, count), wide = padded(part);
    EXPECT_EQ(wide.const_data_ptr(), part.const_data_ptr());
    EXPECT_EQ(wide.sizes(), (std::vector<std::int64_t>{padded_size(count), 16}));
    EXPECT_TRUE(at::equal(wide.narrow(0, 0, count).narrow(1, 0, 13), part));
    EXPECT_EQ(wide.narrow(1, 13, 3).abs().sum().item<float>(), 0.0F);
  }
  EXPECT_EQ(padded(copy).narrow(0, 21, 3).abs().sum().item<float>(), 0.0F);
  const at::Tensor bias = copy_with_room(weight.select(1, 0), at::kBFloat16);
  EXPECT_EQ(padded(bias.narrow(0, 7, 14)).const_data_ptr(), bias.narrow(0, 7, 14).const_data_ptr());
}

TEST(PaddedProduct, CopiesWhatHasNoRoom) {
  const at::Tensor weight = numbers({21, 13}, at::kFloat);
  for (const at::Tensor& t : {weight, weight.t(), weight.narrow(1, 2, 9), weight.select(0, 20)}) {
    const at::Tensor wide = padded(t);
    EXPECT_NE(wide.const_data_ptr(), t.const_data_ptr());
    at::Tensor own = wide;
    for (std::int64_t d = 0; d < t.dim(); ++d) own = own.narrow(d, 0, t.size(d));
    EXPECT_TRUE(at::equal(own, t));
    EXPECT_NEAR(wide.abs().sum().item<float>(), t.abs().sum().item<float>(), 1e-3);
  }
  const at::Tensor whole = numbers({16, 8}, at::kFloat);
  EXPECT_EQ(padded(whole).const_data_ptr(), whole.const_data_ptr());
  EXPECT_TRUE(padded_rows(whole).is_same(whole));
}

TEST(PaddedProduct, IsForBf16OnCuda) {
  const std::vector<std::int64_t> odd = {16, 410}, even = {16, 416}, vocabulary = {50257, 768};
  for (const auto& sizes : {odd, vocabulary}) {
    EXPECT_TRUE(pads_products(at::kCUDA, at::kBFloat16, sizes));
    EXPECT_FALSE(pads_products(at::kCUDA, at::kFloat, sizes));
    EXPECT_FALSE(pads_products(at::kCPU, at::kBFloat16, sizes));
    EXPECT_FALSE(pads_products(at::kMeta, at::kBFloat16, sizes));
  }
  EXPECT_FALSE(pads_products(at::kCUDA, at::kBFloat16, even));
  const WithPaddedProducts on_the_cpu;
  EXPECT_TRUE(pads_products(at::kCPU, at::kBFloat16, odd));
  EXPECT_FALSE(pads_products(at::kCPU, at::kFloat, odd));
}

// In a process of its own: LibTorch looks for GPUs when it computes for the first time.
TEST(PaddedProductOnAGpu, EqualsTheProductInF64) {
  if (!has_cuda_driver()) GTEST_SKIP() << "no GPU";
  const at::Device device = open_device("cuda");
  for (const auto& [inputs, outputs] :
       {std::pair{410, 1230}, std::pair{410, 2100}, std::pair{64, 5003}}) {
    const at::Tensor x = numbers({300, inputs}, at::kBFloat16).to(device).requires_grad_();
    const at::Tensor w =
        copy_with_room(numbers({outputs, inputs}, at::kFloat).to(device), at::kBFloat16)
            .requires_grad_();
    const at::Tensor grad = numbers({300, outputs}, at::kBFloat16).to(device);
    const at::Tensor out = padded_linear(x, w, {});
    out.backward(grad);
    const auto expect_near = [](const at::Tensor& got, const at::Tensor& expected) {
      const double error = (got.to(at::kDouble) - expected).norm().item<double>();
      EXPECT_LT(error, 4e-3 * expected.norm().item<double>());
    };
    const auto wide = [](const at::Tensor& t) { return t.detach().to(at::kDouble); };
    expect_near(out.detach(), at::mm(wide(x), wide(w).t()));
    expect_near(x.grad(), at::mm(wide(grad), wide(w)));
    expect_near(w.grad(), at::mm(wide(grad).t(), wide(x)));
  }
}

}  // namespace
}  // namespace mneme::tensor
