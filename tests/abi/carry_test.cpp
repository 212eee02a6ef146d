// Handing the state of one memory over to another.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "host/base/error.hpp"
#include "host/memory/tier/tier.hpp"
#include "host/tensor/torch.hpp"
#include "tests/abi/support.hpp"

namespace mneme::memory {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

constexpr auto kPhase = Phase::kTraining;

// The saved state of a memory that ran a few segments.
NamedState saved_by(Stack& stack, uint64_t segments = 3) {
  PlainLayer layer = test_layer(1);
  StackState state = stack.new_state(kPhase, kLanes);
  for (uint64_t s = 0; s < segments; ++s) step(stack, state, layer, random({kLanes, 5, kWidth}, s));
  state.reset({0, 1, 0});
  return state.save();
}

std::string refusal(const Stack& stack, const NamedState& saved, int64_t lanes = kLanes) {
  try {
    static_cast<void>(stack.carry(kPhase, lanes, saved, config::Carry::kRefuse));
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    return error.what();
  }
  return "accepted";
}

std::vector<std::string> names_of(const std::vector<StateCarry::Reset>& resets) {
  std::vector<std::string> out;
  for (const StateCarry::Reset& reset : resets) out.push_back(reset.name);
  return out;
}

TEST(Carry, ContinuesAnEqualMemoryBitForBit) {
  for (const char* memory : {"everything", "riders", "infini", "knn"}) {
    Stack first(manifest(memory), test_backbone(), test_loader());
    Stack second(manifest(memory), test_backbone(), test_loader());
    PlainLayer layer = test_layer(1);
    const NamedState saved = saved_by(first);
    StateCarry report;
    StackState carried = second.carry(kPhase, kLanes, saved, config::Carry::kRefuse, &report);
    StackState restored = first.restore(kPhase, kLanes, saved);
    EXPECT_THAT(report.reset, IsEmpty());
    EXPECT_THAT(report.dropped, IsEmpty());
    EXPECT_EQ(carried.segments(), 3);
    for (uint64_t s = 3; s < 6; ++s) {
      const at::Tensor x = random({kLanes, 5, kWidth}, s);
      EXPECT_TRUE(at::equal(step(first, restored, layer, x), step(second, carried, layer, x)))
          << memory << ", segment " << s;
    }
  }
}

// The number of rows is no difference: a smaller queue keeps the newest ones.
TEST(Carry, KeepsTheNewestRowsOfASmallerQueue) {
  Stack large(manifest("knn", "rows = 12"), test_backbone(), test_loader());
  Stack small(manifest("knn", "rows = 4"), test_backbone(), test_loader());
  const NamedState saved = saved_by(large);
  StateCarry report;
  const auto carried = small.carry(kPhase, kLanes, saved, config::Carry::kRefuse, &report).save();
  EXPECT_THAT(report.carried, Contains("0.test.knn.0.past"));
  const auto joined = [](const NamedState& state) {
    std::vector<at::Tensor> blocks;
    for (const auto& [name, tensor] : state.tensors) {
      if (name.starts_with("0.test.knn.0.past.") && name.ends_with(".k")) blocks.push_back(tensor);
    }
    return at::cat(blocks, 1);
  };
  EXPECT_EQ(joined(carried).size(1), 4);
  EXPECT_TRUE(at::equal(joined(carried), joined(saved).slice(1, joined(saved).size(1) - 4)));
}

TEST(Carry, StartsNewTiersAfreshAndSaysWhatIsDropped) {
  Stack first(manifest("knn"), test_backbone(), test_loader());
  Stack second(manifest("infini"), test_backbone(), test_loader());
  StateCarry report;
  const StackState state =
      second.carry(kPhase, kLanes, saved_by(first), config::Carry::kRefuse, &report);
  EXPECT_THAT(report.carried, IsEmpty());
  EXPECT_THAT(report.reset, IsEmpty());
  EXPECT_THAT(report.dropped, Contains("0.test.knn.0.past.0.k"));
  EXPECT_EQ(state.segments(), 3);
  for (const auto& [name, tensor] : state.save().tensors)
    EXPECT_EQ(tensor.abs().sum().item<double>(), 0.0) << name;
}

TEST(Carry, RefusesOrResetsWhatDoesNotFit) {
  Stack stack(manifest("everything"), test_backbone(), test_loader());
  NamedState saved = saved_by(stack);
  for (auto& [name, tensor] : saved.tensors) {
    if (name == "0.test.everything.1.carried") tensor = torch::ones({kLanes, 2}, at::kDouble);
  }
  std::string& signature = saved.metadata["tier.0.test.everything"];
  const std::size_t at = signature.find("finished:0");
  ASSERT_NE(at, std::string::npos) << signature;
  signature.replace(at, 10, "finished:7");

  const std::string text = refusal(stack, saved);
  EXPECT_THAT(text, HasSubstr("0.test.everything.1.carried: shape [3, 2] in place of [3, 6]"));
  EXPECT_THAT(text, HasSubstr("0.test.everything.model.finished: revision 7 in place of 0"));
  EXPECT_THAT(text, HasSubstr("memory.carry = \"reset\""));

  StateCarry report;
  const auto state = stack.carry(kPhase, kLanes, saved, config::Carry::kReset, &report).save();
  EXPECT_THAT(names_of(report.reset),
              ElementsAre("0.test.everything.model.finished", "0.test.everything.1.carried"));
  EXPECT_THAT(report.carried, Contains("0.test.everything.0.carried"));
  const std::map<std::string, at::Tensor> ours(state.tensors.begin(), state.tensors.end());
  const std::map<std::string, at::Tensor> theirs(saved.tensors.begin(), saved.tensors.end());
  const std::string kept = "0.test.everything.0.carried";
  EXPECT_TRUE(at::equal(ours.at(kept), theirs.at(kept)));
  EXPECT_TRUE(ours.at("0.test.everything.1.carried").eq(0.25).all().item<bool>());
  EXPECT_EQ(ours.at("0.test.everything.model.finished").abs().sum().item<double>(), 0.0);
}

// A tier's slots may have one shape and still mean something else.
TEST(Carry, RefusesOrResetsATierWithOtherTrainedOptions) {
  const std::string tiers = "[[memory.tier]]\nplugin = \"test_knn\"\n[[memory.tier]]\n";
  const auto with = [&](const std::string& options) {
    return manifest_text(tiers + "plugin = \"test_fitted\"\n" + options);
  };
  Stack first(with(""), test_backbone(), test_loader());
  const NamedState saved = saved_by(first);
  Stack same(with("tau = 0.5\nscale = 2.0"), test_backbone(), test_loader());
  EXPECT_EQ(refusal(same, saved), "accepted");
  Stack other(with("tau = 0.75\nunit = \"sum\""), test_backbone(), test_loader());
  const std::string text = refusal(other, saved);
  EXPECT_THAT(text, HasSubstr("tier 1.test.fitted: tau = 0.75, trained with 0.5\n"));
  EXPECT_THAT(text, HasSubstr("tier 1.test.fitted: unit = \"sum\", trained with \"mean\"\n"));
  EXPECT_THAT(text, HasSubstr("memory.carry = \"reset\""));

  StateCarry report;
  const auto state = other.carry(kPhase, kLanes, saved, config::Carry::kReset, &report).save();
  EXPECT_THAT(names_of(report.reset), ElementsAre("1.test.fitted", "1.test.fitted"));
  EXPECT_EQ(report.reset[0].reason, "tau = 0.75, trained with 0.5");
  EXPECT_THAT(report.carried, Contains("0.test.knn.0.past"));
  EXPECT_THAT(report.dropped, IsEmpty());
  for (const auto& [name, tensor] : state.tensors) {
    if (name.starts_with("1.test.fitted.")) {
      EXPECT_EQ(tensor.abs().sum().item<double>(), 0.0) << name;
    }
  }
  // Another plugin in its place is another tier.
  Stack elsewhere(manifest("fitted", "tau = 0.75"), test_backbone(), test_loader());
  EXPECT_EQ(refusal(elsewhere, saved), "accepted");
}

TEST(Restore, RefusesOtherTrainedOptions) {
  Stack first(manifest("fitted"), test_backbone(), test_loader());
  const NamedState saved = saved_by(first);
  EXPECT_NO_THROW(static_cast<void>(first.restore(kPhase, kLanes, saved)));
  Stack other(manifest("fitted", "widths = [2]"), test_backbone(), test_loader());
  const auto error_of = [&](const NamedState& state) -> std::string {
    try {
      static_cast<void>(other.restore(kPhase, kLanes, state));
    } catch (const Error& error) {
      return error.what();
    }
    return "restored";
  };
  EXPECT_THAT(error_of(saved), HasSubstr("widths = [2.0], trained with [0.5, 1.0]"));
  NamedState damaged = saved;
  damaged.metadata["options.0.test.fitted"] = "{tau = ";
  EXPECT_THAT(error_of(damaged), HasSubstr("memory state: options.0.test.fitted"));
}

TEST(Carry, RefusesRowsOfAnotherMake) {
  Stack stack(manifest("everything"), test_backbone(), test_loader());
  const NamedState good = saved_by(stack);
  const std::string queue = "0.test.everything.0.places";
  ASSERT_EQ(refusal(stack, good), "accepted");
  const auto changed = [&](const std::string& suffix, const auto& change) {
    NamedState saved = good;
    for (auto& [name, tensor] : saved.tensors) {
      if (name.starts_with(queue) && name.ends_with(suffix)) change(name, tensor);
    }
    return refusal(stack, saved);
  };
  EXPECT_THAT(changed(".hidden", [](auto&, auto& rows) { rows = rows.slice(2, 0, 4); }),
              HasSubstr(queue + ": rows of shape [3, "));
  EXPECT_THAT(changed(".position", [](auto& name, auto&) { name = "elsewhere"; }),
              HasSubstr(queue + ": its rows have no positions"));
  EXPECT_THAT(changed(".hidden", [&](auto& name, auto&) { name.replace(name.size() - 6, 6, "k"); }),
              HasSubstr(queue + ": rows of another kind"));
}

TEST(Carry, RefusesAnotherNumberOfLanes) {
  Stack stack(manifest("everything"), test_backbone(), test_loader());
  EXPECT_THAT(refusal(stack, saved_by(stack), 2), HasSubstr("another number of lanes"));
}

TEST(Stack, KeepsNoProjectionOfItsPredecessorCurrent) {
  Stack old(manifest("infini"), test_backbone(), test_loader());
  for (int i = 0; i < 5; ++i) old.weights_changed();
  Stack next(manifest("infini"), test_backbone(), test_loader());
  next.succeed(old);
  EXPECT_GT(next.weights_version(), old.weights_version());
}

TEST(Stack, TellsTheOptionsOfATier) {
  Stack stack(manifest_text("[[memory.tier]]\nplugin = \"test_infini\"\n"
                            "[[memory.tier]]\nplugin = \"test_knn\"\n"),
              test_backbone(), test_loader());
  std::vector<std::string> keys;
  for (const config::OptionSpec& spec : stack.tiers().at(1)->option_specs())
    keys.push_back(spec.key);
  EXPECT_THAT(keys, Contains("rows"));
  EXPECT_THAT(keys, Not(Contains("plugin")));
}

}  // namespace
}  // namespace mneme::memory
