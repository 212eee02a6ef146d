// The products that complete the gradients of attention on CUDA, on the CPU, and, on a GPU, the
// dropout of such attention.
#include "host/backbone/attention/kernels/fused_cuda.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <vector>

#include "host/backbone/attention/kernels/fused.hpp"
#include "host/backbone/attention/positions.hpp"
#include "host/kernel/cuda/attention.hpp"
#include "host/tensor/device.hpp"
#include "host/tensor/torch.hpp"
#include "tests/backbone/support.hpp"

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

TEST(FusedOnAGpu, TrainsWithTheMasksOfTheOperations) {
  if (!tensor::has_cuda_driver() || !kernel::CudaAttention::is_built()) {
    GTEST_SKIP() << "no GPU or no CUDA sources";
  }
  const at::Device device = tensor::open_device("cuda");
  const auto leaf = [&](std::uint64_t seed, at::IntArrayRef shape) {
    return random_tensor(seed, shape).to(device, at::kBFloat16).requires_grad_();
  };
  const std::int64_t lanes = 2, tokens = 70, rows = 120, heads = 4, width = 41;
  const std::vector<at::Tensor> leaves = {
      leaf(1, {lanes, tokens, heads, width}), leaf(2, {lanes, rows, heads, width}),
      leaf(3, {lanes, rows, heads, width}), leaf(4, {heads, rows + 1, width})};
  const at::Tensor sent = random_tensor(5, {lanes, tokens, heads, width}).to(device, at::kBFloat16);
  AttentionArgs args;
  args.q = leaves[0];
  args.table = leaves[3];
  args.scale = 0.3;
  args.dropout = 0.2;
  const auto results = [&](const std::function<AttentionOutput()>& attend_once) {
    Noise noise(3);
    noise.set_lanes({1, lanes, 5});
    args.noise = &noise;
    const at::Tensor z = attend_once().z;
    std::vector<at::Tensor> out = torch::autograd::grad({z}, leaves, {sent});
    out.push_back(z);
    return out;
  };
  const std::vector<at::Tensor> fused = results([&] {
    return attend_fused(args, {{leaves[1], leaves[2]}}, {});
  });
  MaskCache masks;
  const std::vector<at::Tensor> plain = results([&] {
    AttentionArgs all = args;
    all.k = leaves[1].permute({2, 0, 1, 3}).contiguous();
    all.v = leaves[2].permute({2, 0, 1, 3}).contiguous();
    all.mask = masks.causal({0, rows - tokens, tokens}, 0, {}, 0,
                            at::TensorOptions().dtype(at::kFloat).device(device));
    return attend(all);
  });
  for (std::size_t i = 0; i < plain.size(); ++i) {
    const at::Tensor theirs = plain[i].to(at::kDouble);
    const double size = std::max(1.0, theirs.abs().max().item<double>());
    EXPECT_LT(largest_difference(fused[i].to(at::kDouble), theirs), 5e-2 * size) << i;
  }
}

}  // namespace
}  // namespace mneme::backbone
