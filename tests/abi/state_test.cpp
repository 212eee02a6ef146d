// State of a run: save and restore, clone, select, reset, byte accounting; refusals of foreign
// state.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "host/base/error.hpp"
#include "host/tensor/torch.hpp"
#include "tests/abi/support.hpp"

namespace mneme::memory {
namespace {

TEST(State, ContinuesBitEqualAfterSaveAndRestore) {
  for (const char* memory : {"everything", "riders", "infini", "knn"}) {
    Stack stack(manifest(memory), test_backbone(), test_loader());
    PlainLayer layer = test_layer(1);
    StackState state = stack.new_state(Phase::kTraining, kLanes);
    for (uint64_t s = 0; s < 3; ++s) step(stack, state, layer, random({kLanes, 5, kWidth}, s));
    state.reset({0, 1, 0});
    StackState restored = stack.restore(Phase::kTraining, kLanes, state.save());
    EXPECT_EQ(restored.segments(), 3);
    for (uint64_t s = 3; s < 6; ++s) {
      const at::Tensor x = random({kLanes, 5, kWidth}, s);
      EXPECT_TRUE(at::equal(step(stack, state, layer, x), step(stack, restored, layer, x)))
          << memory << ", segment " << s;
    }
  }
}

// A training segment without gradient, which only fills the memory, keeps no projections either:
// the weights change before most of them would be used.
TEST(State, KeepsProjectionsInEvaluationWithoutGradientOnly) {
  Stack stack(manifest("knn"), test_backbone(), test_loader());
  for (const Phase phase : {Phase::kTraining, Phase::kEvaluation}) {
    for (const bool has_grad : {false, true}) {
      const at::AutoGradMode grad(has_grad);
      StackState state = stack.new_state(phase, kLanes);
      SegmentInput input;
      input.length = 5;
      EXPECT_EQ(SegmentHooks(stack, state, input).caches_projections(),
                phase == Phase::kEvaluation && !has_grad);
      input.may_keep_projections = false;
      EXPECT_FALSE(SegmentHooks(stack, state, input).caches_projections());
    }
  }
}

TEST(State, CloneDiverges) {
  Stack stack(manifest("everything"), test_backbone(), test_loader());
  PlainLayer layer = test_layer(1);
  StackState state = stack.new_state(Phase::kTraining, kLanes);
  step(stack, state, layer, random({kLanes, 5, kWidth}, 1));
  StackState twin = state.clone();
  step(stack, twin, layer, random({kLanes, 5, kWidth}, 2));
  EXPECT_EQ(state.segments(), 1);
  const at::Tensor x = random({kLanes, 5, kWidth}, 3);
  EXPECT_FALSE(at::equal(step(stack, state, layer, x), step(stack, twin, layer, x)));
}

TEST(State, SelectReordersLanes) {
  Stack stack(manifest("everything"), test_backbone(), test_loader());
  PlainLayer layer = test_layer(1);
  StackState state = stack.new_state(Phase::kTraining, kLanes);
  step(stack, state, layer, random({kLanes, 5, kWidth}, 1));
  StackState picked = state.clone();
  picked.select({2, 0, 0, 1});
  EXPECT_EQ(picked.lanes(), 4);
  const auto whole = state.save();
  const auto part = picked.save();
  for (std::size_t i = 0; i < whole.tensors.size(); ++i) {
    EXPECT_TRUE(at::equal(part.tensors[i].second[1], whole.tensors[i].second[0]))
        << whole.tensors[i].first;
    EXPECT_TRUE(at::equal(part.tensors[i].second[0], whole.tensors[i].second[2]))
        << whole.tensors[i].first;
  }
  EXPECT_THROW(picked.select({4}), Error);
}

TEST(State, CountsBytesOfSlotsAndQueues) {
  Stack stack(manifest("everything"), test_backbone(), test_loader());
  PlainLayer layer = test_layer(1);
  StackState state = stack.new_state(Phase::kTraining, kLanes);
  // Two layers with slots carried and seen [3,6] and counts [3], one model slot [3]; f64.
  const int64_t slots = 2 * 2 * kLanes * kWidth * 8 + 2 * kLanes * 8 + kLanes * 8;
  EXPECT_EQ(state.bytes(), slots);
  step(stack, state, layer, random({kLanes, 5, kWidth}, 1));
  EXPECT_EQ(state.bytes(), slots + kLanes * 4 * kWidth * 8 + kLanes * 4 * 8)
      << "4 rows of layer 0 with their positions";
}

void expect_refused(const NamedState& saved, const std::string& memory, int64_t lanes,
                    const std::string& text) {
  Stack stack(manifest(memory), test_backbone(), test_loader());
  try {
    static_cast<void>(stack.restore(Phase::kTraining, lanes, saved));
    FAIL() << "accepted; expected: " << text;
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    EXPECT_THAT(std::string(error.what()), testing::HasSubstr(text));
  }
}

TEST(State, RefusesForeignState) {
  Stack stack(manifest("everything"), test_backbone(), test_loader());
  StackState state = stack.new_state(Phase::kTraining, kLanes);
  const NamedState saved = state.save();
  expect_refused(saved, "infini", kLanes, "the saved state has no tier of this name");
  expect_refused(saved, "everything", 2, "another number of lanes");
  NamedState broken = saved;
  broken.metadata.erase("segments");
  expect_refused(broken, "everything", kLanes, "the saved state lacks \"segments\"");
  broken = saved;
  broken.metadata["tier.0.test.everything"] = "test.everything carried:7";
  expect_refused(broken, "everything", kLanes,
                 "the saved state has other slots, queues or revisions");
  broken = saved;
  broken.tensors.erase(broken.tensors.begin());
  expect_refused(broken, "everything", kLanes,
                 "the saved state does not fit: the saved state lacks it");
  broken = saved;
  broken.tensors[0].second = torch::zeros({1, 1, 1}, at::kDouble);
  expect_refused(broken, "everything", kLanes,
                 "the saved state does not fit: shape [1, 1, 1] in place of [3]");
}

// A checkpoint whose counts or shapes were changed is refused by name, not by a crash later.
TEST(State, RefusesDamagedState) {
  Stack stack(manifest("everything"), test_backbone(), test_loader());
  PlainLayer layer = test_layer(1);
  StackState state = stack.new_state(Phase::kTraining, kLanes);
  step(stack, state, layer, random({kLanes, 5, kWidth}, 1));
  const NamedState saved = state.save();
  const auto with_metadata = [&](const std::string& key, const std::string& value) {
    NamedState broken = saved;
    broken.metadata[key] = value;
    return broken;
  };
  expect_refused(with_metadata("segments", "two"), "everything", kLanes,
                 "the saved \"segments\" holds something else: expected counts, got \"two\"");
  expect_refused(with_metadata("previous_length", "-5"), "everything", kLanes,
                 "the saved \"previous_length\" holds something else");
  expect_refused(with_metadata("reset", "0,0,256"), "everything", kLanes,
                 "the saved \"reset\" holds something else");
  expect_refused(with_metadata("tokens", "5,5"), "everything", kLanes,
                 "the saved \"tokens\" has another number of lanes: expected 3, got 2");
  const auto with_rows = [&](const std::string& field, const at::Tensor& tensor) {
    NamedState broken = saved;
    for (auto& [name, value] : broken.tensors) {
      if (name == "0.test.everything.0.places.0." + field) value = tensor;
    }
    return broken;
  };
  expect_refused(with_rows("hidden", torch::zeros({4}, at::kDouble)), "everything", kLanes,
                 "0.test.everything.0.places.0.hidden: the saved rows do not agree");
  expect_refused(with_rows("position", torch::zeros({kLanes, 3}, at::kLong)), "everything", kLanes,
                 "0.test.everything.0.places.0.position: the saved rows do not agree");
  const NamedState narrow = with_rows("hidden", torch::zeros({kLanes, 4, 5}, at::kDouble));
  expect_refused(narrow, "everything", kLanes,
                 "the saved state does not fit: rows of shape [3, 4, 5] in place of [3, 4, 6]");
}

TEST(State, ResetOfOneLaneEqualsAFreshLane) {
  for (const char* memory : {"everything", "riders", "infini", "knn"}) {
    Stack stack(manifest(memory), test_backbone(), test_loader());
    PlainLayer layer = test_layer(1);
    StackState old = stack.new_state(Phase::kEvaluation, kLanes);
    StackState fresh = stack.new_state(Phase::kEvaluation, kLanes);
    const torch::NoGradGuard no_grad;
    step(stack, old, layer, random({kLanes, 5, kWidth}, 1));
    old.reset({0, 1, 0});
    for (uint64_t s = 2; s < 5; ++s) {
      const at::Tensor x = random({kLanes, 5, kWidth}, s);
      const at::Tensor a = step(stack, old, layer, x);
      const at::Tensor b = step(stack, fresh, layer, x);
      const at::Tensor lane_a = a.slice(0, a.size(0) - x.numel()).view(x.sizes())[1];
      const at::Tensor lane_b = b.slice(0, b.size(0) - x.numel()).view(x.sizes())[1];
      EXPECT_TRUE(at::equal(lane_a, lane_b)) << memory << ", segment " << s;
    }
  }
}

TEST(State, RefusesSegmentsThatAreNone) {
  Stack stack(manifest("everything"), test_backbone(), test_loader());
  StackState state = stack.new_state(Phase::kTraining, kLanes);
  EXPECT_THROW(SegmentHooks(stack, state, {.length = 0}), Error);
  EXPECT_THROW(SegmentHooks(stack, state, {.length = 3, .valid_count = {3, 3}}), Error);
  EXPECT_THROW(state.reset({1}), Error);
  EXPECT_THROW(stack.new_state(Phase::kTraining, 0), Error);
}

TEST(Stack, RefusesLayersThatDoNotExist) {
  config::MemoryConfig memory = manifest("infini");
  memory.tiers[0].layers = std::vector<int64_t>{0, 7};
  try {
    Stack stack(memory, test_backbone(), test_loader());
    FAIL() << "layer 7 of 2 was accepted";
  } catch (const Error& error) {
    EXPECT_THAT(std::string(error.what()),
                testing::HasSubstr("layers: a layer does not exist: expected 0 to 1, got 7"));
  }
}

TEST(Stack, InitialisesParametersFromSeedAndNameAlone) {
  Stack alone(manifest("everything"), test_backbone(), test_loader());
  Stack twice(manifest_text("[[memory.tier]]\nplugin = "
                            "\"test_everything\"\n[[memory.tier]]\nplugin = \"test_infini\"\n"),
              test_backbone(), test_loader());
  ASSERT_FALSE(alone.parameters().empty());
  for (std::size_t i = 0; i < alone.parameters().size(); ++i) {
    EXPECT_EQ(alone.parameters()[i].name, twice.parameters()[i].name);
    EXPECT_TRUE(at::equal(alone.parameters()[i].tensor, twice.parameters()[i].tensor))
        << alone.parameters()[i].name;
  }
}

}  // namespace
}  // namespace mneme::memory
