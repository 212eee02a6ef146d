// A memory that keeps what one call or one instance was given and uses it in another: an error that
// says so, wherever the other is. Nothing of another segment, run, layer or tier is taken as alive.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ostream>
#include <thread>

#include "host/base/error.hpp"
#include "host/base/text.hpp"
#include "host/memory/call/boundary.hpp"
#include "host/memory/call/handle_table.hpp"
#include "host/tensor/torch.hpp"
#include "tests/abi/support.hpp"

namespace mneme::memory {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// A tier of the plugin; tiers and stacks with one key share what is kept.
std::string tier(const std::string& act, int64_t key) {
  return "[[memory.tier]]\nplugin = \"test_keeping\"\nact = \"" + act +
         "\"\nkey = " + std::to_string(key) + "\n";
}

int64_t fresh_key() {
  static int64_t last = 0;
  return ++last;
}

template <typename Body>
std::string message_of(const Body& body) {
  try {
    body();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kPlugin) << error.what();
    return error.what();
  }
  return "no error";
}

// A stack with one state, which takes segments.
struct OneRun {
  Stack stack;
  PlainLayer layer = test_layer(1);
  StackState state;

  explicit OneRun(const std::string& tiers, Phase phase = Phase::kTraining)
      : stack(manifest_text(tiers), test_backbone(), test_loader()),
        state(stack.new_state(phase, kLanes)) {}
  std::string segment() { return segment_of(state); }
  std::string segment_of(StackState& other) {
    return message_of([&] { step(stack, other, layer, random({kLanes, 5, kWidth}, 1)); });
  }
};

constexpr const char* kElsewhere =
    "is not alive: it was obtained in another hook call: handles die when their hook returns";

// --- Tensor handles ---

class Handles : public testing::TestWithParam<const char*> {};

TEST_P(Handles, OfTheSegmentBeforeAreDead) {
  OneRun run(tier(GetParam(), fresh_key()));
  ASSERT_EQ(run.segment(), "no error");
  for (int i = 0; i < 3; ++i)
    EXPECT_THAT(run.segment(), AllOf(HasSubstr("plugin test.keeping, tier 0, hook read, layer 0"),
                                     HasSubstr(kElsewhere)));
}

TEST_P(Handles, OfAnotherStateAreDead) {
  OneRun run(tier(GetParam(), fresh_key()));
  ASSERT_EQ(run.segment(), "no error");
  StackState other = run.stack.new_state(Phase::kEvaluation, kLanes);
  EXPECT_THAT(run.segment_of(other), HasSubstr(kElsewhere));
}

TEST_P(Handles, OfAnotherStackAreDead) {
  const int64_t key = fresh_key();
  OneRun one(tier(GetParam(), key)), two(tier(GetParam(), key));
  ASSERT_EQ(one.segment(), "no error");
  EXPECT_THAT(two.segment(), HasSubstr(kElsewhere));
}

TEST_P(Handles, OfAnotherTierAreDead) {
  const int64_t key = fresh_key();
  OneRun run(tier(GetParam(), key) + tier(GetParam(), key));
  EXPECT_THAT(run.segment(), AllOf(HasSubstr("tier 1, hook read"), HasSubstr(kElsewhere)));
}

TEST_P(Handles, OfAnotherThreadAreDead) {
  const int64_t key = fresh_key();
  OneRun one(tier(GetParam(), key)), two(tier(GetParam(), key));
  ASSERT_EQ(one.segment(), "no error");
  std::string message;
  std::thread([&] { message = two.segment(); }).join();
  EXPECT_THAT(message, HasSubstr(kElsewhere));
}

TEST_P(Handles, OfAnotherLayerAreDead) {
  HookDriver driver(manifest_text(tier(GetParam(), fresh_key())), test_backbone(), test_loader(),
                    Phase::kTraining, kLanes);
  PlainLayer layer = test_layer(1);
  const at::Tensor x = random({kLanes, 5, kWidth}, 1);
  driver.begin({.length = 5});
  pass_layer(driver, layer, x, 0);
  EXPECT_THAT(message_of([&] { pass_layer(driver, layer, x, 1); }),
              AllOf(HasSubstr("hook read, layer 1"), HasSubstr(kElsewhere)));
}

// "result" is given back by the hook, the others go to functions of the host.
INSTANTIATE_TEST_SUITE_P(All, Handles, testing::Values("handle", "retain", "release", "result"),
                         [](const auto& test) { return std::string(test.param); });

TEST(Handles, OfTheForwardPassAreDeadInTheBackwardPass) {
  HookDriver driver(manifest_text(tier("backward", fresh_key())), test_backbone(), test_loader(),
                    Phase::kTraining, kLanes);
  PlainLayer layer = test_layer(1);
  const at::Tensor x = random({kLanes, 5, kWidth}, 1).requires_grad_(true);
  driver.begin({.length = 5});
  const at::Tensor out = pass_layer(driver, layer, x).projected;
  driver.commit();
  EXPECT_THAT(message_of([&] { out.sum().backward(); }),
              AllOf(HasSubstr("hook read, layer 0, backward"),
                    HasSubstr("the mneme_ctx belongs to no running hook")));
}

// Numbers of the table's own: a call with more handles than a block has, and numbers that no call
// ever gave out.
TEST(HandleTable, KnowsItsHandlesByTheHundredThousand) {
  HandleTable table, other;
  table.begin_call("read", 0);
  other.begin_call("read", 0);
  constexpr int64_t kHandles = 3 * static_cast<int64_t>(HandleTable::kBlockSize) / 2;
  std::vector<mneme_tensor> handles, foreign;
  for (int64_t i = 0; i < kHandles; ++i) {
    handles.push_back(table.give(torch::full({}, i, at::kLong)));
    foreign.push_back(other.give(torch::full({}, -1, at::kLong)));
  }
  const auto message = [&](mneme_tensor handle) {
    try {
      return str("the value ", table.get(handle).item<int64_t>());
    } catch (const CallError& error) {
      return std::string(error.what());
    }
  };
  for (int64_t i = 0; i < kHandles; i += 1009) {
    EXPECT_EQ(message(handles[static_cast<std::size_t>(i)]), str("the value ", i));
    EXPECT_THAT(message(foreign[static_cast<std::size_t>(i)]), HasSubstr(kElsewhere));
  }
  EXPECT_THAT(message(handles.back() + 1), HasSubstr("no such handle was given out"));
  EXPECT_THAT(message(~mneme_tensor{0}), HasSubstr("no such handle was given out"));
  EXPECT_THAT(message(7), HasSubstr("no such handle was given out"));
  EXPECT_THAT(message(0), HasSubstr("it is 0, no tensor"));
  table.release(handles[70000]);
  EXPECT_THAT(message(handles[70000]), HasSubstr("it was released"));
  table.begin_call("read", 0);
  EXPECT_THAT(message(handles[5]), HasSubstr(kElsewhere));
}

// --- Ids of what an instance declared ---

struct Id {
  const char* act;
  const char* text;
};

std::ostream& operator<<(std::ostream& out, const Id& id) { return out << id.act; }

class Ids : public testing::TestWithParam<Id> {};

TEST_P(Ids, ServeTheirInstance) {
  OneRun run(tier(GetParam().act, fresh_key()));
  EXPECT_EQ(run.segment(), "no error");
  EXPECT_EQ(run.segment(), "no error");
}

TEST_P(Ids, OfAnotherInstanceAreRefused) {
  const int64_t key = fresh_key();
  const std::string message = message_of([&] {
    OneRun run(tier("none", key) + tier(GetParam().act, key));
    step(run.stack, run.state, run.layer, random({kLanes, 5, kWidth}, 1));
  });
  EXPECT_THAT(message, HasSubstr(GetParam().text));
}

const Id kIds[] = {
    {"parameter",
     "does not exist in this instance: use what add_parameter gave in its create, and keep it in "
     "the instance"},
    {"slot",
     "does not exist in this instance: use what add_slot gave in its create, and keep it in the "
     "instance"},
    {"queue",
     "does not exist in this instance: use what add_queue gave in its create, and keep it in the "
     "instance"},
    {"block", "hook context, layer 0: queue "},
    {"kernel",
     "does not exist in this instance: use what add gave in its create, and keep it in the "
     "instance"},
    {"start_parameter", "create: slot \"value\": start_parameter is no parameter of this instance"},
};
INSTANTIATE_TEST_SUITE_P(All, Ids, testing::ValuesIn(kIds),
                         [](const auto& test) { return std::string(test.param.act); });

TEST(Ids, OfAnotherKindAreRefused) {
  OneRun run(tier("slot_of_queue", fresh_key()));
  EXPECT_THAT(run.segment(),
              AllOf(HasSubstr("hook read, layer 0: slot "),
                    HasSubstr("does not exist in this instance: use what add_slot")));
}

TEST(Ids, OfOpsAreResolvedInCreateAlone) {
  OneRun run(tier("resolve", fresh_key()));
  EXPECT_THAT(run.segment(), HasSubstr("the mneme_setup belongs to no running create"));
}

}  // namespace
}  // namespace mneme::memory
