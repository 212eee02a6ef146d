// A memory whose code throws, or that uses the host against its rules, written against the C
// headers: an error that names plugin, tier, hook and layer, and no crash.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ostream>

#include "host/base/error.hpp"
#include "host/base/log.hpp"
#include "host/tensor/torch.hpp"
#include "tests/abi/support.hpp"

namespace mneme::memory {
namespace {

using testing::AllOf;
using testing::HasSubstr;

struct Act {
  std::string name;
  std::string where;  // hook and layer in the message
  std::string text;
};

std::ostream& operator<<(std::ostream& out, const Act& act) { return out << act.name; }

class Hostile : public testing::TestWithParam<Act> {};

// Runs one segment of a tier with the option `act`, with its backward pass; returns the message.
std::string hostile_message_of(const std::string& act) {
  try {
    HookDriver driver(manifest("hostile", "act = \"" + act + "\""), test_backbone(), test_loader(),
                      Phase::kTraining, kLanes);
    PlainLayer layer = test_layer(1);
    driver.begin({.length = 5});
    const at::Tensor x = random({kLanes, 5, kWidth}, 1).requires_grad_(true);
    if (driver.hooks().riders().count > 0) {
      const at::Tensor rows = random({kLanes, 6, kHeads, kHeadWidth}, 2);
      driver.hooks().ride(0, x.narrow(1, 0, 1), rows.narrow(1, 0, 1), rows, rows, layer);
    }
    pass_layer(driver, layer, x).projected.sum().backward();
    driver.hooks().finish(x, {}, {}, {});
    driver.commit();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kPlugin) << error.what();
    return error.what();
  }
  return "no error";
}

TEST_P(Hostile, IsNamedWithPluginTierHookAndLayer) {
  const std::string message = hostile_message_of(GetParam().name);
  EXPECT_THAT(message, AllOf(HasSubstr("plugin test.hostile"), HasSubstr(GetParam().where),
                             HasSubstr(GetParam().text)));
}

std::string left(const std::string& function) {
  return "a C++ exception left it: std::runtime_error: thrown in " + function + "; catch it";
}

const Act kActs[] = {
    {"throw_in_create", "test.toml:3:1: plugin test.hostile: create",
     "a C++ exception left it: std::out_of_range: thrown in create; catch it there and return a "
     "code (code 13: an error of its own)"},
    {"throw_no_exception", "create", "a C++ exception left it: int; catch it"},
    {"throw_in_begin", "tier 0, hook begin", left("begin")},
    {"throw_in_absorb", "tier 0, hook absorb, layer 0", left("absorb")},
    {"throw_in_context", "tier 0, hook context, layer 0", left("context")},
    {"throw_in_ride", "tier 0, hook ride, layer 0", left("ride")},
    {"throw_in_read", "tier 0, hook read, layer 0", left("read")},
    {"throw_in_finish", "tier 0, hook finish", left("finish")},
    {"throw_in_infer", "hook read, layer 0", "kernel zero: infer: " + left("infer")},
    {"throw_in_forward", "hook read, layer 0", "kernel zero: " + left("forward")},
    {"throw_in_body", "hook read, layer 0", "kernel zero: " + left("body")},
    {"throw_in_backward", "hook read, layer 0, backward", "kernel zero: " + left("backward")},
    {"no_shape", "hook read, layer 0",
     "kernel zero: infer: an output: dtype: expected one of MNEME_F32 to MNEME_BOOL, got 0"},
    {"no_instance", "plugin test.hostile: create",
     "MNEME_OK without an instance: expected its address in *instance, got NULL"},
    {"null_setup", "create", "the mneme_setup is NULL: give the one that create got"},
    {"stale_setup", "hook begin", "the mneme_setup belongs to no running create"},
    {"ctx_as_setup", "hook begin", "the mneme_setup belongs to no running create"},
    {"null_ctx", "hook absorb, layer 0", "the mneme_ctx is NULL: give the one that hook got"},
    {"stale_ctx", "hook absorb, layer 0", "the mneme_ctx belongs to no running hook"},
    {"made_up_ctx", "hook absorb, layer 0", "the mneme_ctx belongs to no running hook"},
    {"write_tokens", "hook begin", "a change in its segment->tokens"},
    {"write_valid_count", "hook begin", "a change in its segment->valid_count"},
    {"write_reset", "hook begin", "a change in its segment->reset"},
    {"undeclared_riders", "tier 0, hook begin",
     "gives 1 rows, 1 of them riders, but context_rows declares at most 0"},
    {"write_segment", "hook begin", "a change in its mneme_segment"},
};
INSTANTIATE_TEST_SUITE_P(All, Hostile, testing::ValuesIn(kActs),
                         [](const auto& test) { return test.param.name; });

TEST(Hostile, NoneIsNoError) { EXPECT_EQ(hostile_message_of("none"), "no error"); }

// Passes two segments of five tokens through a tier; the rows that reads of the second one used.
int64_t read_rows_of(const std::string& name, const std::string& options) {
  HookDriver driver(manifest(name, options), test_backbone(), test_loader(), Phase::kEvaluation,
                    kLanes);
  PlainLayer layer = test_layer(1);
  for (const uint64_t seed : {1, 2}) {
    driver.begin({.length = 5});
    pass_layer(driver, layer, random({kLanes, 5, kWidth}, seed));
    if (seed == 2) break;
    driver.commit();
  }
  return driver.hooks().read_rows();
}

std::string refusal_of(const std::string& name, const std::string& options) {
  try {
    read_rows_of(name, options);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kPlugin) << error.what();
    return error.what();
  }
  return "no error";
}

TEST(DeclaredRows, HoldTheContext) {
  EXPECT_EQ(refusal_of("sinks", "rows = 4\ndeclared = 4"), "no error");
  EXPECT_THAT(refusal_of("sinks", "rows = 4\ndeclared = 3"),
              HasSubstr("plugin test.sinks, tier 0, hook context, layer 0: gives 4 rows, but "
                        "context_rows declares at most 3"));
}

TEST(DeclaredRows, AreMeasuredInReadsAndHoldThem) {
  EXPECT_EQ(read_rows_of("knn", "rows = 8"), 5);
  EXPECT_EQ(read_rows_of("knn", "rows = 4"), 4);
  EXPECT_EQ(read_rows_of("knn", "rows = 8\ndeclared = 8"), 8);
  EXPECT_EQ(read_rows_of("sinks", "rows = 4"), 0);
  EXPECT_THAT(
      refusal_of("knn", "rows = 8\ndeclared = 3"),
      HasSubstr("plugin test.knn, tier 0, hook read, layer 0: reads 5 rows of its queues, but "
                "read_rows declares at most 3"));
}

// An instance is destroyed after the run: the results stay, and the error is reported.
TEST(Hostile, WhatDestroyThrowsIsSaid) {
  std::vector<std::string> said;
  {
    const LogListener listener([&](LogLevel level, std::string_view line) {
      if (level == LogLevel::kError) said.emplace_back(line);
      return false;
    });
    EXPECT_EQ(hostile_message_of("throw_in_destroy"), "no error");
  }
  ASSERT_EQ(said.size(), 1U);
  EXPECT_THAT(said.front(),
              AllOf(HasSubstr("plugin test.hostile: destroy: "), HasSubstr(left("destroy"))));
}

}  // namespace
}  // namespace mneme::memory
