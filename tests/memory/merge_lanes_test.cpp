// The states of several ranks' lanes as one (memory::StackState::merge).
#include "host/base/error.hpp"
#include "host/memory/state/stack_state.hpp"
#include "host/tensor/torch.hpp"

namespace mneme::memory {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

NamedState part(std::int64_t lanes, const std::string& streams, const std::string& tokens) {
  NamedState out;
  out.metadata = {{"lanes", str(lanes)},   {"segments", "7"},    {"previous_length", "4"},
                  {"reset", tokens},       {"streams", streams}, {"tokens", tokens},
                  {"tier.0.x", "x rows:1"}};
  return out;
}

at::Tensor find(const NamedState& saved, const std::string& name) {
  for (const auto& [own, tensor] : saved.tensors) {
    if (own == name) return tensor;
  }
  return {};
}

TEST(MergeLanes, PutsLanesBehindOneAnother) {
  NamedState first = part(1, "0", "5"), second = part(2, "1,2", "6,7");
  first.tensors = {{"0.x.0.mean", torch::full({1, 3}, 1.0)},
                   {"0.x.0.rows.0.hidden", torch::full({1, 2, 3}, 10.0)},
                   {"0.x.0.rows.1.hidden", torch::full({1, 4, 3}, 11.0)}};
  second.tensors = {{"0.x.0.mean", torch::full({2, 3}, 2.0)},
                    {"0.x.0.rows.0.hidden", torch::full({2, 2, 3}, 20.0)},
                    {"0.x.0.rows.1.hidden", torch::full({2, 4, 3}, 21.0)}};
  const NamedState merged = StackState::merge({first, second});
  EXPECT_EQ(merged.metadata.at("lanes"), "3");
  EXPECT_EQ(merged.metadata.at("streams"), "0,1,2");
  EXPECT_EQ(merged.metadata.at("tokens"), "5,6,7");
  EXPECT_EQ(merged.metadata.at("segments"), "7");
  EXPECT_EQ(merged.metadata.at("tier.0.x"), "x rows:1");
  EXPECT_EQ(merged.tensors.size(), 3u);
  EXPECT_TRUE(at::equal(find(merged, "0.x.0.mean").select(1, 0), torch::tensor({1.0, 2.0, 2.0})));
  EXPECT_TRUE(at::equal(find(merged, "0.x.0.rows.1.hidden").select(1, 0).select(1, 0),
                        torch::tensor({11.0, 21.0, 21.0})));
}

// A rank whose lanes were all reset has fewer rows than others.
TEST(MergeLanes, PadsShorterQueuesWithInvalidRowsInFront) {
  NamedState first = part(1, "0", "5"), second = part(1, "1", "6"), third = part(1, "2", "7");
  first.tensors = {{"0.x.0.rows.0.hidden", torch::full({1, 2, 3}, 1.0)},
                   {"0.x.0.rows.1.hidden", torch::full({1, 3, 3}, 2.0)}};
  second.tensors = {{"0.x.0.rows.0.hidden", torch::full({1, 2, 3}, 3.0)},
                    {"0.x.0.rows.0.valid", torch::tensor({{false, true}})}};
  const NamedState merged = StackState::merge({first, second, third});
  const at::Tensor hidden = find(merged, "0.x.0.rows.0.hidden");
  ASSERT_EQ(hidden.sizes(), (std::vector<std::int64_t>{3, 5, 3}));
  EXPECT_TRUE(at::equal(hidden.select(2, 0), torch::tensor({{1.0, 1.0, 2.0, 2.0, 2.0},
                                                            {0.0, 0.0, 0.0, 3.0, 3.0},
                                                            {0.0, 0.0, 0.0, 0.0, 0.0}})));
  EXPECT_TRUE(at::equal(find(merged, "0.x.0.rows.0.valid"),
                        torch::tensor({{true, true, true, true, true},
                                       {false, false, false, false, true},
                                       {false, false, false, false, false}})));
  EXPECT_EQ(merged.tensors.size(), 2u);
}

TEST(MergeLanes, RefusesSlotsOfDifferentExtents) {
  NamedState first = part(1, "0", "5"), second = part(1, "1", "6");
  first.tensors = {{"0.x.0.grown", torch::zeros({1, 3})}};
  second.tensors = {{"0.x.0.grown", torch::zeros({1, 4})}};
  try {
    static_cast<void>(StackState::merge({first, second}));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kRun);
    EXPECT_THAT(error.what(),
                AllOf(HasSubstr("state of 0.x.0.grown: its extents differ between the processes"),
                      HasSubstr("expected [1, 3], got [1, 4]"), HasSubstr("data.reset")));
  }
}

}  // namespace
}  // namespace mneme::memory
