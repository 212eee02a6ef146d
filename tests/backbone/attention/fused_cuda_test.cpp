// The products that complete the gradients of attention on CUDA, on the CPU.
#include "host/backbone/attention/kernels/fused_cuda.hpp"

#include <gtest/gtest.h>

#include "host/tensor/torch.hpp"

namespace mneme::backbone {
namespace {

TEST(FusedCuda, ProductsWithTheTableEqualThoseOfEachQuery) {
  const auto numbers = [](std::vector<std::int64_t> sizes) {
    return at::randn(sizes, at::kDouble).to(at::kBFloat16).to(at::kDouble);
  };
  const std::int64_t lanes = 2, queries = 3, heads = 4, width = 5, rows = 7;
  const at::Tensor keys = numbers({lanes, queries, heads, width}),
                   positions = numbers({heads, lanes, queries, rows}),
                   q = numbers({lanes, queries, heads, width}),
                   table = numbers({heads, rows, width}), bias = numbers({heads, width});
  const QueryGradients got = with_table(keys, positions, q, table, bias, true);
  const at::Tensor of_q = at::einsum("hbtr,hrd->bthd", {positions, table});
  EXPECT_TRUE(at::allclose(got.q, keys + of_q));
  EXPECT_TRUE(at::allclose(got.table, at::einsum("hbtr,bthd->hrd", {positions, q + bias})));
  EXPECT_TRUE(at::allclose(got.content_bias, keys.sum(at::IntArrayRef{0, 1}).to(at::kFloat)));
  EXPECT_TRUE(
      at::allclose(got.position_bias, of_q.sum(at::IntArrayRef{0, 1}).to(at::kFloat), 1e-4, 1e-5));
  const at::Tensor plain = with_table(keys, positions, q, table, {}, false).table;
  EXPECT_TRUE(at::allclose(plain, at::einsum("hbtr,bthd->hrd", {positions, q})));

  const QueryGradients none = with_table(keys, {}, q, {}, {}, false);
  EXPECT_TRUE(at::equal(none.q, keys));
  EXPECT_FALSE(none.table.defined() || none.content_bias.defined() || none.position_bias.defined());
}

}  // namespace
}  // namespace mneme::backbone
