// Attention by the kernels of a device, for which their definitions stand on the CPU, in a trace.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "host/backbone/attention/kernels/fused.hpp"
#include "host/backbone/attention/kernels/fused_cuda.hpp"
#include "host/backbone/rows/dropout.hpp"
#include "host/tensor/device.hpp"
#include "host/tensor/dispatch/trace.hpp"
#include "host/tensor/torch.hpp"
#include "tests/backbone/support.hpp"

namespace mneme::backbone {
namespace {

// Without a table.
constexpr DeviceAttention kDefinitions = {
    .attend =
        [](const kernel::AttentionShape& shape, const kernel::AttentionInputs& inputs,
           const kernel::AttentionResults& results, at::Device device) {
          static_cast<void>(tensor::stream_of(device));  // as a launch does
          kernel::attend_by_definition(shape, inputs, results);
        },
    .differentiate =
        [](const kernel::AttentionShape& shape, const kernel::AttentionInputs& inputs,
           const kernel::AttentionPass& pass, const kernel::CudaAttentionGradients& gradients,
           at::Device device) {
          static_cast<void>(tensor::stream_of(device));
          kernel::AttentionGradients to;
          to.q = gradients.q;
          to.pieces = gradients.pieces;
          kernel::attend_backward_by_definition(shape, inputs, pass, to);
        }};

TEST(TracedAttention, HasTheMasksOfLaterSegmentsWhenItIsRunAgain) {
  const WithDeviceAttention kernels(kDefinitions);
  const auto leaf = [](std::uint64_t seed, std::int64_t rows) {
    return random_tensor(seed, {2, rows, 2, 5}).set_requires_grad(true);
  };
  const std::vector<at::Tensor> leaves = {leaf(1, 4), leaf(2, 3), leaf(3, 3), leaf(4, 4),
                                          leaf(5, 4)};
  Noise noise(3);
  noise.next_segment();
  const auto run = [&] {
    AttentionArgs args;
    args.q = leaves[0];
    args.scale = 0.5;
    args.dropout = 0.3;
    args.noise = &noise;
    const at::Tensor z = attend_fused(args, {{leaves[1], leaves[2]}, {leaves[3], leaves[4]}}, {}).z;
    std::vector<at::Tensor> out = torch::autograd::grad({z}, leaves, {at::cos(z.detach())});
    out.push_back(z.detach());
    return out;
  };
  tensor::Trace trace;
  std::vector<at::Tensor> first;
  {
    const tensor::TraceScope scope(trace);
    first = run();
  }
  for (const at::Tensor& result : first) trace.add_output(result);
  const std::vector<at::Tensor> again = trace.replay({}, 0);
  for (std::size_t i = 0; i < first.size(); ++i) EXPECT_TRUE(again[i].equal(first[i])) << i;
  noise.seek(0);
  noise.next_segment();
  const std::vector<at::Tensor> by_value = run();
  for (std::size_t i = 0; i < first.size(); ++i) EXPECT_TRUE(by_value[i].equal(first[i])) << i;
  noise.next_segment();
  noise.next_segment();
  const std::vector<at::Tensor> later = run(), ours = trace.replay({}, 2);
  for (std::size_t i = 0; i < first.size(); ++i) {
    EXPECT_TRUE(ours[i].equal(later[i])) << i;
    EXPECT_FALSE(ours[i].equal(first[i])) << i;
  }
}

}  // namespace
}  // namespace mneme::backbone
