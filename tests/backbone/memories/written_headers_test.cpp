// A plugin in C whose layers have no attention, built with the headers of ABI 1.2 as they were
// written down (sdk/abi/1.2) and with today's. FrozenPlugin runs what that version had before.
#include <gtest/gtest.h>

#include "host/tensor/torch.hpp"
#include "tests/backbone/memories/naive_llama.hpp"
#include "tests/backbone/memory_session.hpp"
#include "tests/backbone/support.hpp"

namespace mneme::backbone {
namespace {

constexpr int64_t kTurnedKeys = 4, kTurnedValues = 3;

// What tests/abi/plugins/turned_heads.c computes in layer l of "llama", which has 4 heads, 2 of keys.
at::Tensor turned_heads(const NaiveLlama& llama, int64_t l, const at::Tensor& normed) {
  const std::string layer = str("layers.", l, ".attention.");
  const std::vector<at::Tensor> qkv =
      at::linear(normed, llama.weight(layer + "qkv.weight"))
          .split_with_sizes({4 * kTurnedKeys, 2 * kTurnedKeys, 2 * kTurnedValues}, 2);
  const at::Tensor k = NaiveLlama::heads(qkv[1], 2).repeat_interleave(2, 2),
                   v = NaiveLlama::heads(qkv[2], 2).repeat_interleave(2, 2);
  const at::Tensor places = at::arange(normed.size(1), at::kDouble).view({-1, 1, 1}),
                   angles = at::cat({places, places * 0.01}, 2);  // 10000^(-2/4) of the second
  const std::vector<at::Tensor> q = NaiveLlama::heads(qkv[0], 4).chunk(2, 3);
  const at::Tensor turned = at::cat(
      {q[0] * angles.cos() - q[1] * angles.sin(), q[1] * angles.cos() + q[0] * angles.sin()}, 3);
  const at::Tensor z = (turned * k).sum(3, true) * v;
  return at::linear(z.flatten(2), llama.weight(layer + "output.weight"));
}

TEST(WrittenHeaders, ReplaceTheAttentionWithHeadsOfTwoWidths) {
  const at::Tensor ids = random_ids(80, 2, 7, 11);
  std::vector<at::Tensor> losses;
  for (const char* const plugin : {"test_turned_heads_1_2", "test_turned_heads"}) {
    SCOPED_TRACE(plugin);
    MemorySession session(small_decoders().at(1).model, small_setup(),
                          memory_of({MNEME_BINARY_DIR "/tests/abi_plugins"},
                                    str("[[memory.tier]]\nplugin = \"", plugin, "\"\n")));
    const NaiveLlama llama{session};
    memory::StackState state = session.fresh(2);
    losses.push_back(session.nll(state, ids).detach());
    const at::Tensor expected = llama.nll(
        ids, [&](int64_t l, const at::Tensor& normed) { return turned_heads(llama, l, normed); });
    EXPECT_LT(largest_difference(losses.back(), expected), 1e-12);
  }
  EXPECT_TRUE(losses[0].equal(losses[1]));
}

}  // namespace
}  // namespace mneme::backbone
