// Bits and values that the host does not know are refused in every field that a plugin sets, so
// that a later minor may give them a meaning; all that it knows are taken.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <span>

#include "host/base/error.hpp"
#include "host/base/log.hpp"
#include "host/memory/abi/groups.hpp"
#include "host/plugin/file/note.hpp"
#include "host/plugin/host_groups.hpp"
#include "host/plugin/known_fields.hpp"
#include "host/plugin/negotiate.hpp"
#include "host/tensor/torch.hpp"
#include "mneme/sdk.h"
#include "tests/abi/support.hpp"

namespace mneme::memory {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

std::string fields_message_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kPlugin) << error.what();
    return error.what();
  }
  return "no error";
}

// One segment of a tier whose plugin sets `field`.
std::string run_with(const std::string& field, uint64_t value) {
  return fields_message_of([&] {
    HookDriver driver(
        manifest("fields", str("field = \"", field, "\"\nvalue = ", static_cast<int64_t>(value))),
        test_backbone(), test_loader(), Phase::kTraining, kLanes);
    PlainLayer layer = test_layer(1);
    driver.begin({.length = 5});
    const at::Tensor x = random({kLanes, 5, kWidth}, 1);
    pass_layer(driver, layer, x);
    driver.hooks().finish(x, {x, x}, {}, {});
    driver.commit();
  });
}

// What the host reads of a plugin before an instance is made.
struct Shown {
  mneme_option option = MNEME_INIT(mneme_option);
  mneme_plugin table = MNEME_INIT(mneme_plugin);
  uint32_t answer_flags = 0;
};
Shown shown;

mneme_status never_created(const mneme_host*, mneme_setup*, const mneme_model_info*,
                           mneme_tier_traits*, void**, mneme_error*) {
  return MNEME_E_INTERNAL;
}
void never_destroyed(void*) {}
mneme_status never_begun(void*, mneme_ctx*, const mneme_segment*, mneme_riders*, mneme_error*) {
  return MNEME_E_INTERNAL;
}
mneme_status entry(const mneme_host_offer* offer, mneme_plugin_answer* answer) {
  answer->flags = shown.answer_flags;
  return mneme_sdk_negotiate(offer, answer, &shown.table);
}

mneme_note good_note() {
  mneme_note note = MNEME_INIT(mneme_note);
  note.abi_min = note.abi_target = MNEME_ABI_VERSION;
  std::snprintf(note.id, sizeof(note.id), "test.fields");
  std::snprintf(note.version, sizeof(note.version), "0.1.0");
  return note;
}

std::string negotiate_with(const std::string& field, uint64_t value) {
  const auto bits = static_cast<uint32_t>(value);
  shown = Shown();
  shown.option.key = "rows";
  shown.option.type = MNEME_OPTION_INTEGER;
  shown.table.id = "test.fields";
  shown.table.version = "0.1.0";
  shown.table.options = &shown.option;
  shown.table.option_count = 1;
  shown.table.option_stride = sizeof(mneme_option);
  shown.table.create = never_created;
  shown.table.destroy = never_destroyed;
  shown.table.begin = never_begun;
  if (field == "mneme_option.flags") shown.option.flags = bits;
  if (field == "mneme_plugin.flags") shown.table.flags = bits;
  if (field == "mneme_plugin_answer.flags") shown.answer_flags = bits;
  const mneme_note note = good_note();
  const mneme_host host = plugin::host_of(note, memory::find_group);
  return fields_message_of(
      [&] { static_cast<void>(plugin::negotiate(&entry, note, host, "plugin test.fields")); });
}

std::string read_note_with(const std::string& /*field*/, uint64_t value) {
  mneme_note_record record{};
  record.name_size = sizeof(MNEME_NOTE_NAME);
  record.descriptor_size = sizeof(mneme_note);
  record.type = MNEME_NOTE_TYPE;
  std::snprintf(record.name, sizeof(record.name), "%s", MNEME_NOTE_NAME);
  record.note = good_note();
  record.note.flags = static_cast<uint32_t>(value);
  return fields_message_of([&] {
    static_cast<void>(
        plugin::parse_note({std::as_bytes(std::span(&record, 1))}, "plugin test.fields"));
  });
}

using Set = std::string (*)(const std::string& field, uint64_t value);

// A field of bits: which are known, and how a message calls it.
struct Bits {
  std::string field;
  std::string called;
  uint64_t known;
  Set set = run_with;
  int width = 32;
};
void PrintTo(const Bits& bits, std::ostream* out) { *out << bits.field; }

class KnownBits : public testing::TestWithParam<Bits> {};

TEST_P(KnownBits, AreTakenAndNoOthers) {
  const Bits& field = GetParam();
  for (int bit = 0; bit < field.width; ++bit) {
    const uint64_t value = uint64_t{1} << bit;
    const std::string message = field.set(field.field, value);
    if ((field.known & value) != 0) {
      EXPECT_THAT(message, Not(HasSubstr(field.called + ": expected"))) << "bit " << bit;
      EXPECT_THAT(message, Not(HasSubstr("unknown bits"))) << "bit " << bit;
    } else {
      EXPECT_THAT(message,
                  AllOf(HasSubstr("plugin test.fields"), HasSubstr(field.called + ": expected "),
                        HasSubstr("the unknown bits 0x" + digits_text(value, 16))))
          << "bit " << bit;
    }
  }
}

constexpr uint64_t kWantBits = 0xFF | (uint64_t{0xFF} << 16) | (uint64_t{0x1F} << 32);
const Bits kBits[] = {
    {"mneme_note.flags", "flags", 1, read_note_with},
    {"mneme_plugin_answer.flags", "its flags", 0, negotiate_with},
    {"mneme_plugin.flags", "its flags", 0, negotiate_with},
    {"mneme_option.flags", "option \"rows\", flags", 15, negotiate_with},
    {"mneme_tier_traits.flags", "traits.flags", 63},
    {"mneme_tier_traits.wants", "traits.wants", kWantBits, run_with, 64},
    {"mneme_tier_traits.sites", "traits.sites", 3},
    {"mneme_parameter_decl.flags", "mneme_parameter_decl \"parameter\": flags", 0},
    {"mneme_slot_decl.flags", "mneme_slot_decl \"slot\": flags", 1},
    {"mneme_queue_decl.flags", "mneme_queue_decl \"queue\": flags", 0},
    {"mneme_queue_decl.attributes", "mneme_queue_decl \"queue\": attributes", 3},
    {"mneme_kernel_decl.flags", "mneme_kernel_decl \"kernel\": flags", 3},
    {"mneme_kernel_decl.keep_inputs", "mneme_kernel_decl \"kernel\": keep_inputs", 1, run_with, 64},
    {"mneme_kernel_decl.keep_outputs", "mneme_kernel_decl \"kernel\": keep_outputs", 1, run_with,
     64},
    {"mneme_kernel_decl.constant_inputs", "mneme_kernel_decl \"kernel\": constant_inputs", 1,
     run_with, 64},
    {"mneme_kernel_decl.optional_inputs", "mneme_kernel_decl \"kernel\": optional_inputs", 1,
     run_with, 64},
    {"mneme_kernel_decl.strided_inputs", "mneme_kernel_decl \"kernel\": strided_inputs", 1,
     run_with, 64},
    {"mneme_kernel_plan.flags", "kernel kernel: infer: plan: flags", 4},
    {"mneme_shape.flags", "shape: flags", 0},
    {"mneme_riders.flags", "mneme_riders: flags", 0},
    {"mneme_rows.flags", "mneme_rows: flags", 0},
    {"mneme_block.flags", "mneme_block: flags", 0},
    {"mneme_attention.flags", "mneme_attention: flags", 7},
    {"mneme_read.flags", "mneme_read: flags", 0},
    {"mneme_error.flags", "mneme_error flags", 0},
    {"norm.flags", "norm: flags", 1},
    {"project.flags", "project: flags", 1},
    {"weight.flags", "weight: flags", 1},
    {"positions.flags", "positions: flags", 1},
};
INSTANTIATE_TEST_SUITE_P(All, KnownBits, testing::ValuesIn(kBits), [](const auto& test) {
  std::string name = test.param.field;
  std::ranges::replace(name, '.', '_');
  return name;
});

// A field that holds one of several values, from 0 or `least` to `most`.
struct Values {
  std::string field;
  std::string called;
  uint64_t least;
  uint64_t most;
};
void PrintTo(const Values& values, std::ostream* out) { *out << values.field; }

class KnownValues : public testing::TestWithParam<Values> {};

TEST_P(KnownValues, AreTakenAndNoOthers) {
  const Values& field = GetParam();
  for (uint64_t value = field.least; value <= field.most; ++value) {
    EXPECT_THAT(run_with(field.field, value), Not(HasSubstr(field.called + ": expected one of")))
        << value;
  }
  std::vector<uint64_t> unknown = {field.most + 1, 0xFFFFFFFF};
  if (field.least > 0) unknown.push_back(field.least - 1);
  for (const uint64_t value : unknown) {
    EXPECT_THAT(run_with(field.field, value), AllOf(HasSubstr("plugin test.fields"),
                                                    HasSubstr(field.called + ": expected one of "),
                                                    HasSubstr(str(", got ", value))));
  }
}

const Values kValues[] = {
    {"mneme_tier_traits.absorb", "traits.absorb", 0, 2},
    {"mneme_parameter_decl.scope", "mneme_parameter_decl \"parameter\": scope", 0, 1},
    {"mneme_parameter_decl.init", "mneme_parameter_decl \"parameter\": init", 0, 5},
    {"mneme_slot_decl.scope", "mneme_slot_decl \"slot\": scope", 0, 1},
    {"mneme_slot_decl.dtype", "mneme_slot_decl \"slot\": dtype", 0, 7},
    {"mneme_slot_decl.gradient", "mneme_slot_decl \"slot\": gradient", 0, 1},
    {"mneme_slot_decl.lifetime", "mneme_slot_decl \"slot\": lifetime", 0, 1},
    {"mneme_slot_decl.start", "mneme_slot_decl \"slot\": start", 0, 2},
    {"mneme_queue_decl.scope", "mneme_queue_decl \"queue\": scope", 0, 1},
    {"mneme_queue_decl.kind", "mneme_queue_decl \"queue\": kind", 0, 2},
    {"mneme_shape.dtype", "shape: dtype", 1, 7},
    {"mneme_rows.kind", "mneme_rows: kind", 0, 2},
    {"mneme_block.position_kind", "mneme_block: position_kind", 0, 2},
    {"mneme_attention.mask", "mneme_attention: mask", 0, 2},
    {"mneme_read.merge", "mneme_read: merge", 0, 4},
};
INSTANTIATE_TEST_SUITE_P(All, KnownValues, testing::ValuesIn(kValues), [](const auto& test) {
  std::string name = test.param.field;
  std::ranges::replace(name, '.', '_');
  return name;
});

TEST(KnownFields, WidthsOfHeadsBelongToTiersThatReplaceTheAttention) {
  for (const char* const width : {"key_width", "value_width"}) {
    const std::string field = str("mneme_tier_traits.", width);
    EXPECT_EQ(run_with(field, 0), "no error");
    EXPECT_THAT(run_with(field, 3), HasSubstr("traits.key_width and value_width are those of a "
                                              "tier that replaces the attention"));
    EXPECT_THAT(run_with(field, ~uint64_t{0}), HasSubstr("a width in traits is negative"));
  }
}

TEST(KnownFields, AnUnknownLevelOfTheLogIsSaidInTheLog) {
  std::vector<std::pair<LogLevel, std::string>> lines;
  const mneme::LogListener listener([&](LogLevel level, std::string_view line) {
    lines.emplace_back(level, line);
    return false;
  });
  EXPECT_EQ(run_with("log.level", MNEME_LOG_INFO), "no error");
  EXPECT_EQ(run_with("log.level", 9), "no error");
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_EQ(lines[0].first, LogLevel::kInfo);
  EXPECT_EQ(lines[0].second, "test.fields: a line");
  EXPECT_EQ(lines[1].first, LogLevel::kWarning);
  EXPECT_EQ(lines[1].second,
            "test.fields: a line (logged at the unknown level 9: expected one of MNEME_LOG_*)");
}

// The groups that a plugin is given are those of its note.
TEST(Groups, AreThoseThatTheNoteLists) {
  mneme_note note = good_note();
  std::snprintf(note.features, sizeof(note.features), "mneme.op/1 mneme.log/1? mneme.telepathy/3?");
  const mneme_host host = plugin::host_of(note, memory::find_group);
  EXPECT_EQ(plugin::host_group(&host, MNEME_GROUP_OP), op_api());
  EXPECT_EQ(plugin::host_group(&host, MNEME_GROUP_LOG), log_api());
  EXPECT_EQ(plugin::host_group(&host, "mneme.telepathy/3"), nullptr);
  EXPECT_EQ(plugin::host_group(&host, "mneme.log/1?"), nullptr);
  EXPECT_EQ(plugin::host_group(&host, nullptr), nullptr);
  const char* const unlisted[] = {MNEME_GROUP_TENSOR, MNEME_GROUP_KERNEL, MNEME_GROUP_STATE,
                                  MNEME_GROUP_LAYER,  MNEME_GROUP_CONFIG, MNEME_GROUP_RANDOM,
                                  MNEME_GROUP_PROBE,  MNEME_GROUP_REPORT, MNEME_GROUP_PARALLEL,
                                  MNEME_GROUP_TORCH};
  for (const char* const id : unlisted) EXPECT_EQ(plugin::host_group(&host, id), nullptr) << id;
  const mneme_host none = plugin::host_of(good_note(), memory::find_group);
  EXPECT_EQ(plugin::host_group(&none, MNEME_GROUP_OP), nullptr);
}

}  // namespace
}  // namespace mneme::memory
