// Keys and values that heads share, as memories see them (MNEME_TIER_GROUPED_KEYS).
#include <gtest/gtest.h>

#include "host/tensor/torch.hpp"
#include "tests/backbone/memory_session.hpp"
#include "tests/backbone/support.hpp"

namespace mneme::backbone {
namespace {

constexpr int64_t kHeads = 4, kKeyHeads = 2;

MemorySession knn_session(bool is_grouped) {
  for (const NamedConfig& one : small_decoders()) {
    if (one.name != "llama") continue;
    EXPECT_EQ(one.model.heads, kHeads);
    EXPECT_EQ(one.model.key_heads(), kKeyHeads);
    return {one.model, small_setup(),
            memory_of({MNEME_BINARY_DIR "/tests/abi_plugins"},
                      std::string("[[memory.tier]]\nplugin = \"test_knn\"\nrows = 9\n"
                                  "neighbours = 3\ngrouped = ") +
                          (is_grouped ? "true\n" : "false\n"))};
  }
  throw std::logic_error("there is no decoder of that name");
}

at::Tensor kept_keys(const memory::StackState& state) {
  for (const auto& [name, tensor] : state.save().tensors) {
    if (name.ends_with(".k") && name.find("past") != std::string::npos) return tensor;
  }
  return {};
}

TEST(GroupedKeys, AMemoryComputesTheSameWithKeysOfSharedHeadsAndOfAllHeads) {
  MemorySession grouped = knn_session(true), all = knn_session(false);
  memory::StackState a = grouped.fresh(2), b = all.fresh(2);
  for (uint64_t s = 0; s < 3; ++s) {
    const at::Tensor ids = random_ids(60 + s, 2, 7, 11);
    const at::Tensor nll = grouped.nll(a, ids);
    EXPECT_LT(largest_difference(nll, all.nll(b, ids)), 1e-12) << "segment " << s;
  }
  const at::Tensor few = kept_keys(a), many = kept_keys(b);
  ASSERT_TRUE(few.defined());
  ASSERT_TRUE(many.defined());
  EXPECT_EQ(few.size(2), kKeyHeads);
  EXPECT_EQ(many.size(2), kHeads);
  EXPECT_TRUE(many.equal(few.repeat_interleave(kHeads / kKeyHeads, 2)));
}

TEST(GroupedKeys, HaveTheSameGradients) {
  const at::Tensor ids = random_ids(70, 2, 13, 11);
  std::vector<at::Tensor> gradients;
  for (const bool is_grouped : {true, false}) {
    MemorySession session = knn_session(is_grouped);
    memory::StackState state = session.fresh(2);
    session.nll(state, ids.narrow(1, 0, 7));
    session.loss(state, ids.narrow(1, 6, 7)).backward();
    gradients.push_back(session.parameter("layers.1.attention.qkv.weight").grad());
  }
  EXPECT_GT(gradients[0].norm().item<double>(), 1e-3);
  EXPECT_LT(largest_difference(gradients[0], gradients[1]), 1e-12);
}

}  // namespace
}  // namespace mneme::backbone
