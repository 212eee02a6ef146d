// A memory that breaks a rule gets a message that names plugin, tier, hook, layer and cause, and
// the state stays as it was.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ostream>

#include "host/base/error.hpp"
#include "host/memory/abi/groups.hpp"
#include "host/memory/abi/hook_call.hpp"
#include "host/memory/tier/setup.hpp"
#include "host/tensor/torch.hpp"
#include "tests/abi/support.hpp"

namespace mneme::memory {
namespace {

struct Fault {
  std::string name;
  std::string where;  // hook and layer in the message
  std::string text;
};

std::ostream& operator<<(std::ostream& out, const Fault& fault) { return out << fault.name; }

class Faults : public testing::TestWithParam<Fault> {};

// Runs one segment of a tier with the fault; returns the message.
std::string faults_message_of(const std::string& fault) {
  try {
    HookDriver driver(manifest("faulty", "fault = \"" + fault + "\""), test_backbone(),
                      test_loader(), Phase::kTraining, kLanes);
    PlainLayer layer = test_layer(1);
    driver.begin({.length = 5});
    const at::Tensor x = random({kLanes, 5, kWidth}, 1).requires_grad_(true);
    pass_layer(driver, layer, x).projected.sum().backward();
    driver.hooks().finish(x, {}, {}, {});
    driver.commit();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kPlugin) << error.what();
    return error.what();
  }
  return "no error";
}

TEST_P(Faults, NamePluginTierHookLayerAndCause) {
  const std::string message = faults_message_of(GetParam().name);
  EXPECT_THAT(message, testing::HasSubstr("plugin test.faulty"));
  EXPECT_THAT(message, testing::HasSubstr(GetParam().where));
  EXPECT_THAT(message, testing::HasSubstr(GetParam().text));
}

const Fault kFaults[] = {
    {"error", "tier 0, hook absorb, layer 0",
     "the ridge matrix is not positive definite (code 8: numeric"},
    {"exception", "hook absorb, layer 0", "index 7 of 3"},
    {"read_shape", "hook read, layer 0",
     "read: out: expected [3, 5, 6] (B and T may be 1), got [3, 5, 1]"},
    {"read_dtype", "hook read, layer 0",
     "read: out: expected a floating-point tensor, got i64: no gradient passes through it"},
    {"lse_at_out", "hook read, layer 0", "MNEME_MERGE_LSE belongs to MNEME_SITE_HEADS"},
    {"slot_shape", "hook absorb, layer 0", "slot \"state\": expected shape [3, 6], got [3, 5, 6]"},
    {"slot_dtype", "hook absorb, layer 0", "slot \"state\": expected dtype f64, got bf16"},
    {"counts_as_tensor", "hook absorb, layer 0",
     "slot \"counted\" holds counts: use counts_get and counts_set"},
    {"tensor_as_counts", "hook absorb, layer 0",
     "slot \"state\" holds a tensor: use slot_get and slot_set"},
    {"counts_size", "hook absorb, layer 0", "slot \"counted\" holds 3 counts, got room for 1"},
    {"dead_handle", "hook absorb, layer 0", "is not alive: it was released"},
    {"borrowed_release", "hook absorb, layer 0", "is borrowed: it may not be released"},
    {"no_layer", "hook finish", "\"state\" belongs to a layer, and this hook has none"},
    {"release_undeclared", "hook absorb, layer 0", "release needs MNEME_TIER_RELEASES"},
    {"token_bias_undeclared", "hook context, layer 0", "a token bias needs MNEME_TIER_TOKEN_BIAS"},
    {"rows_shape", "hook absorb, layer 0", "rows.hidden: expected shape [3, 5, 6], got [3, 5, 1]"},
    {"rows_size", "hook absorb, layer 0", "rows.rows is 6, but the tensor has 5 rows"},
    {"counts_of_others", "hook absorb, layer 0",
     "rows.counts[1] is 4, but 5 rows of this lane are valid"},
    {"rows_counts", "hook absorb, layer 0", "rows.counts[1]: expected 0 to 5, got 6"},
    {"carried", "hook absorb, layer 0", "assign: carried is 10, but the queue has 0 rows"},
    {"mixed_dtypes", "hook absorb, layer 0", "add/1"},
    {"kernel_fails", "hook absorb, layer 0", "the kernel found no pivot"},
    {"aux_shape", "hook absorb, layer 0", "\"loss\": value and weight are [B] or [], B = 3"},
    {"aux_undeclared", "hook absorb, layer 0",
     "aux: the plugin does not declare the auxiliary loss \"los\" (did you mean \"loss\"?); "
     "declared: \"loss\"; add it to mneme_plugin.losses (C++: static constexpr const char* "
     "kLosses)"},
    {"emit_in_read", "hook read, layer 0", "blocks are emitted in the context hook only"},
    {"block_mask", "hook context, layer 0",
     "block.bias: expected numbers that are added to scores, got bool: of a mask make 0 and -inf "
     "with where/1 (code 4: dtype"},
    {"token_mask", "hook context, layer 0",
     "token bias: expected numbers that are added to scores"},
    {"attention_mask", "hook absorb, layer 0", "attention: bias: expected numbers that are added"},
    {"distance_missing", "hook context, layer 0", "MNEME_POSITION_EXPLICIT needs distances"},
    {"null_output", "hook absorb, layer 0", "out is NULL"},
    {"null_key", "hook absorb, layer 0", "key is NULL"},
    {"null_ops", "hook absorb, layer 0", "inputs is NULL"},
    {"null_data", "hook absorb, layer 0", "out is NULL"},
    {"no_struct_size", "hook absorb, layer 0", "mneme_rows.struct_size is 0: expected "},
    {"pop_size", "hook absorb, layer 0", "mneme_rows.struct_size is 0: expected "},
    {"shape_size", "hook absorb, layer 0", "mneme_shape.struct_size is 0: expected "},
    {"negative_keys", "hook absorb, layer 0", "attention: key_count: expected at least 0, got -2"},
    {"riders_unseen", "tier 0, hook begin", "riders: unseen: expected 0 to 2, got 3"},
    {"position_count", "hook absorb, layer 0", "positions: count: expected at least 1, got 0"},
    {"positions_missing", "hook absorb, layer 0",
     "positions: the layer has position biases and a table of positions only with model.position = "
     "\"relative\" or \"disentangled\", not with"},
    {"biases_missing", "hook absorb, layer 0",
     "weight: the layer has position biases and a table of positions only with"},
    {"kernel_without_inputs", "hook absorb, layer 0", "a kernel without inputs runs"},
    {"reserved_rows", "hook absorb, layer 0", "mneme_rows: a reserved field is 3: expected 0"},
    {"reserved_block", "hook context, layer 0", "mneme_block: a reserved field is 4: expected 0"},
    {"backward_fails", "hook read, layer 0, backward", "kernel one_way: the gradient overflows"},
    {"backward_memory", "hook read, layer 0, backward", "kernel one_way: "},
    {"create_fails", "create", "basis must be a multiple of widths"},
    {"twice_the_same_name", "create", "slot \"state\": the name is already taken"},
    {"bad_name", "create", "slot \"Bad Name\": a name holds a-z, 0-9 and _ only"},
    {"no_name", "create", "a parameter needs a name"},
    {"host_name", "create", "the name \"waiting\" belongs to the host"},
    {"scope", "create",
     "mneme_parameter_decl \"source\": scope: expected one of MNEME_SCOPE_*, got 5"},
    {"parameter_extent", "create", "parameter \"source\": dims[0]: expected at least 1, got 0"},
    {"parameter_init", "create",
     "mneme_parameter_decl \"source\": init: expected one of MNEME_PARAMETER_*, got 9"},
    {"parameter_rate", "create", "parameter \"source\": lr_factor: expected at least 0, got -1"},
    {"parameter_fan_in", "create", "parameter \"source\": fan_in: expected at least 0, got -2"},
    {"slot_extent", "create",
     "slot \"wrong\": dims[1]: expected at least 1, MNEME_ANY, or MNEME_LANES in front, got -1"},
    {"slot_gradient", "create",
     "mneme_slot_decl \"other\": gradient: expected one of MNEME_GRADIENT_*, got 7"},
    {"slot_flags", "create",
     "mneme_slot_decl \"wrong\": flags: expected bits of MNEME_SLOT_* alone, got the unknown bits "
     "0x4"},
    {"counts_gradient", "create", "slot \"wrong\": counts are of dtype 0 or MNEME_I64"},
    {"start_unknown", "create", "slot \"wrong\": start_parameter is no parameter of this instance"},
    {"start_any", "create", "slot \"wrong\": a start parameter and MNEME_ANY do not go together"},
    {"start_shape", "create", "must have the same scope and shape [3], got [4]"},
    {"queue_kind", "create",
     "mneme_queue_decl \"more\": kind: expected one of MNEME_ROWS_*, got 9"},
    {"queue_attributes", "create",
     "mneme_queue_decl \"more\": attributes: expected bits of MNEME_ATTRIBUTE_* alone, got the "
     "unknown bits 0x40"},
    {"queue_rows", "create",
     "queue \"more\": start_rows must be at least 0, and capacity at least -1 (no rows)"},
    {"parameter_group", "create",
     "parameter \"source\": group: expected NULL or \"none\", got \"fast\""},
    {"unwanted_handle", "hook absorb, layer 0",
     "tensor handle 0 is not alive: it is 0, no tensor; traits.wants does not ask for these inputs "
     "of absorb, which are 0 then: x (MNEME_WANT_ABSORB_X), z (MNEME_WANT_ABSORB_Z), lse "
     "(MNEME_WANT_ABSORB_LSE), q (MNEME_WANT_ABSORB_Q), k (MNEME_WANT_ABSORB_K), v "
     "(MNEME_WANT_ABSORB_V), mass (MNEME_WANT_ABSORB_MASS), the context's k and v "
     "(MNEME_WANT_ABSORB_CONTEXT_KV)"},
    {"unwanted_input", "hook absorb, layer 0",
     "op mean/1: input \"x\" is no tensor (handle 0); traits.wants does not ask for these inputs "
     "of "
     "absorb, which are 0 then: x (MNEME_WANT_ABSORB_X)"},
    {"unwanted_result", "hook read, layer 0",
     "traits.wants does not ask for these inputs of read, which are 0 then: q (MNEME_WANT_READ_Q)"},
    {"unwanted_local", "hook absorb, layer 0",
     "local().z in absorb is empty, because the tier does not want it: say "
     "wants(MNEME_WANT_ABSORB_Z) in the constructor"},
    {"heads_at_out", "hook read, layer 0",
     "read: out: expected [3, 5, 6] (B and T may be 1), got [3, 5, 2, 4]: this is a result for "
     "MNEME_SITE_HEADS, but traits.sites says MNEME_SITE_OUT: say reads_at(MNEME_SITE_HEADS) in "
     "the "
     "constructor, or set traits.sites"},
    {"out_at_heads", "hook read, layer 0",
     "read: out: expected [3, 5, 2, 4] (B and T may be 1), got [3, 5, 6]: this is a result for "
     "MNEME_SITE_OUT, but traits.sites says MNEME_SITE_HEADS: say reads_at(MNEME_SITE_OUT)"},
    {"heads_at_both", "hook read, layer 0",
     "this is a result for MNEME_SITE_HEADS, but the site of this call is MNEME_SITE_OUT"},
    {"create_wants", "create",
     "absorb runs before reading, where z, lse, q, k, v, mass and the context"},
};
INSTANTIATE_TEST_SUITE_P(All, Faults, testing::ValuesIn(kFaults),
                         [](const auto& test) { return test.param.name; });

// The answers of the host's function groups for `create`, called without a plugin.
TEST(SetupFaults, NameTheNullPointer) {
  const config::OptionMap options("test", {{"mode", std::string("mean")},
                                           {"taps", std::vector<int64_t>{1}},
                                           {"weights", std::vector<double>{0.5}}});
  mneme_setup setup;
  setup.options = &options;
  const CallHandle call(HandleKind::kCreate, &setup);
  const mneme_config_api& api = *config_api();
  mneme_error error = MNEME_INIT(mneme_error);
  const auto expect = [&](mneme_status status, const std::string& text) {
    EXPECT_EQ(status, MNEME_E_INVALID_ARGUMENT);
    EXPECT_EQ(error.message, text);
  };
  const char* text = nullptr;
  const int64_t* integers = nullptr;
  uint64_t count = 0;
  ASSERT_EQ(api.text(call.setup(), "mode", &text, &error), MNEME_OK) << error.message;
  EXPECT_STREQ(text, "mean");
  expect(api.text(call.setup(), "mode", nullptr, &error), "out is NULL");
  expect(api.text(call.setup(), nullptr, &text, &error), "key is NULL");
  expect(api.integer(call.setup(), nullptr, nullptr, &error), "key is NULL");
  expect(api.integers(call.setup(), "taps", nullptr, &count, &error), "out is NULL");
  expect(api.integers(call.setup(), "taps", &integers, nullptr, &error), "count is NULL");
  expect(api.reals(call.setup(), "weights", nullptr, &count, &error), "out is NULL");
  const char* const names[] = {"add/1", nullptr};
  mneme_op ops[2] = {};
  expect(op_api()->resolve(call.setup(), names, 2, ops, &error), "names[1] is NULL");
}

TEST(SegmentFaults, NameTheLaneWhoseCountIsNoCount) {
  HookDriver driver(manifest("faulty", "fault = \"none\""), test_backbone(), test_loader(),
                    Phase::kTraining, kLanes);
  const auto message = [&](const std::vector<int64_t>& counts) {
    try {
      driver.begin({.length = 5, .valid_count = counts});
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  EXPECT_EQ(message({5, 0, 3}), "no error");
  EXPECT_THAT(message({5, 6, 3}),
              testing::HasSubstr("valid_count of lane 1: expected 0 to 5, got 6"));
  EXPECT_THAT(message({5, 5, -1}),
              testing::HasSubstr("valid_count of lane 2: expected 0 to 5, got -1"));
  EXPECT_THAT(message({5, 5}), testing::HasSubstr("valid_count: expected 3 lanes, got 2"));
}

// The file that the author wrote, not a header of the SDK.
TEST(Faults, NameTheAuthorsFile) {
  for (const char* const fault :
       {"mixed_dtypes", "slot_shape", "dead_handle", "rows_size", "token_bias_undeclared",
        "unwanted_local", "no_layer", "bad_name", "queue_kind", "kernel_fails"}) {
    EXPECT_THAT(faults_message_of(fault), testing::HasSubstr(", at faulty.cpp:")) << fault;
  }
}

TEST(Faults, NoneIsNoError) { EXPECT_EQ(faults_message_of("none"), "no error"); }

TEST(Faults, LeaveTheStateAsItWas) {
  HookDriver driver(manifest("everything"), test_backbone(), test_loader(), Phase::kTraining,
                    kLanes);
  PlainLayer layer = test_layer(1);
  const auto run = [&](uint64_t seed, bool commit) {
    driver.begin({.length = 5});
    const at::Tensor x = random({kLanes, 5, kWidth}, seed);
    const LayerPass pass = pass_layer(driver, layer, x);
    if (commit) driver.commit();
    return pass.projected.detach();
  };
  run(1, true);
  const auto before = driver.state().save();
  run(2, false);  // dropped
  const auto after = driver.state().save();
  ASSERT_EQ(before.tensors.size(), after.tensors.size());
  for (std::size_t i = 0; i < before.tensors.size(); ++i)
    EXPECT_TRUE(at::equal(before.tensors[i].second, after.tensors[i].second))
        << before.tensors[i].first;
  EXPECT_EQ(before.metadata, after.metadata);
}

}  // namespace
}  // namespace mneme::memory
