#include "host/plugin/plugin_options.hpp"

#include "mneme/plugin.h"
#include "tests/plugin/loader_support.hpp"

namespace mneme::memory {
namespace {

using config::OptionSpec;
using config::OptionType;
using config::OptionValue;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

mneme_option option(const char* key, std::uint32_t type) {
  auto result = MNEME_INIT(mneme_option);
  result.key = key;
  result.type = type;
  result.help = "what it does";
  return result;
}

mneme_plugin table_of(const std::vector<mneme_option>& options) {
  auto table = MNEME_INIT(mneme_plugin);
  table.options = options.data();
  table.option_count = static_cast<std::uint32_t>(options.size());
  table.option_stride = sizeof(mneme_option);
  return table;
}

OptionSpec spec_of(const mneme_option& one) {
  const std::vector<mneme_option> options = {one};
  return plugin::option_specs(table_of(options), "here").at(0);
}

std::string spec_refusal(const mneme_option& one) {
  return refusal([&] { static_cast<void>(spec_of(one)); });
}

std::string spec_read_refusal(const mneme_option& one) {
  const std::vector<mneme_option> options = {one};
  return refusal([&] { static_cast<void>(plugin::read_options(table_of(options), "here")); });
}

std::string read_refusal(const mneme_plugin& table) {
  return refusal([&] { static_cast<void>(plugin::read_options(table, "here")); });
}

TEST(PluginOptions, NumbersKeepTypeDefaultAndBounds) {
  mneme_option rows = option("rows", MNEME_OPTION_INTEGER);
  rows.flags = MNEME_OPTION_BOUNDED | MNEME_OPTION_AT_EVALUATION;
  rows.default_integer = 8;
  rows.min_integer = 1;
  rows.max_integer = 64;
  const OptionSpec spec = spec_of(rows);
  EXPECT_EQ(spec.key, "rows");
  EXPECT_EQ(spec.type, OptionType::kInteger);
  EXPECT_EQ(spec.default_value, OptionValue(std::int64_t{8}));
  EXPECT_EQ(spec.integers, (config::IntegerRange{1, 64}));
  EXPECT_EQ(spec.text, "what it does");
  EXPECT_TRUE(spec.may_differ_at_evaluation);

  mneme_option decay = option("decay", MNEME_OPTION_REAL);
  decay.default_real = 0.5;
  const OptionSpec real = spec_of(decay);
  EXPECT_EQ(real.default_value, OptionValue(0.5));
  EXPECT_EQ(real.reals, config::RealRange{});
  EXPECT_FALSE(real.may_differ_at_evaluation);
}

TEST(PluginOptions, FlagsTextsAndChoicesKeepTheirDefaults) {
  mneme_option sticky = option("sticky", MNEME_OPTION_BOOLEAN);
  sticky.default_integer = 1;
  EXPECT_EQ(spec_of(sticky).default_value, OptionValue(true));

  mneme_option title = option("title", MNEME_OPTION_TEXT);
  EXPECT_EQ(spec_of(title).default_value, OptionValue(std::string()));

  mneme_option basis = option("basis", MNEME_OPTION_CHOICE);
  const char* const words[] = {"rectangular", "gaussian"};
  basis.choices = words;
  basis.choice_count = 2;
  basis.default_text = "gaussian";
  EXPECT_EQ(spec_of(basis).default_value, OptionValue(std::string("gaussian")));
  EXPECT_THAT(spec_of(basis).choices, ElementsAre("rectangular", "gaussian"));
}

TEST(PluginOptions, ListsHaveTheirEntriesAsDefaults) {
  mneme_option layers = option("pyramid", MNEME_OPTION_INTEGERS);
  const std::int64_t taps[] = {1, 2, 4};
  layers.default_integers = taps;
  layers.default_count = 3;
  EXPECT_EQ(spec_of(layers).default_value, OptionValue(std::vector<std::int64_t>{1, 2, 4}));
  mneme_option widths = option("widths", MNEME_OPTION_REALS);
  const double numbers[] = {1.0, 2.5};
  widths.default_reals = numbers;
  widths.default_count = 2;
  EXPECT_EQ(spec_of(widths).default_value, OptionValue(std::vector<double>{1.0, 2.5}));
  widths.default_count = 0;
  EXPECT_EQ(spec_of(widths).default_value, OptionValue(std::vector<double>{}));
}

TEST(PluginOptions, RequiredOptionsHaveNoDefault) {
  mneme_option rows = option("rows", MNEME_OPTION_INTEGER);
  rows.flags = MNEME_OPTION_REQUIRED;
  EXPECT_FALSE(spec_of(rows).default_value.has_value());
}

TEST(PluginOptions, WiderOptionsOfALaterMinorAreCut) {
  struct Wide {
    mneme_option known;
    std::uint64_t later[2];
  };
  std::vector<Wide> wide(3);
  const char* const keys[] = {"a", "b", "c"};
  for (std::size_t i = 0; i < 3; ++i) {
    wide[i].known = option(keys[i], MNEME_OPTION_REAL);
    wide[i].known.struct_size = sizeof(Wide);
  }
  auto table = MNEME_INIT(mneme_plugin);
  table.options = &wide[0].known;
  table.option_count = 3;
  table.option_stride = sizeof(Wide);
  const std::vector<mneme_option> options = plugin::read_options(table, "here");
  ASSERT_EQ(options.size(), 3U);
  EXPECT_STREQ(options[2].key, "c");
  EXPECT_EQ(options[2].struct_size, sizeof(mneme_option));
}

TEST(PluginOptions, RefusesBadStrideCountAndArray) {
  const std::vector<mneme_option> one = {option("rows", MNEME_OPTION_REAL)};
  mneme_plugin table = table_of(one);
  for (const std::uint32_t stride : {0U, 112U, 124U, 0x7ffffff8U}) {
    table.option_stride = stride;
    EXPECT_THAT(read_refusal(table),
                StartsWith(str("here: bad option schema: option_stride is out of range: expected "
                               "120 to 65536, a multiple of 8, got ",
                               stride)));
  }
  table = table_of(one);
  table.option_count = 2000;
  EXPECT_THAT(read_refusal(table), HasSubstr("too many options: expected at most 1024, got 2000"));
  table = table_of(one);
  table.options = nullptr;
  EXPECT_THAT(read_refusal(table), HasSubstr("no array: expected 1 options, got NULL"));
}

TEST(PluginOptions, RefusesBadEntries) {
  const auto refusal_with = [](const mneme_option& one) {
    const std::vector<mneme_option> options = {option("first", MNEME_OPTION_REAL), one};
    return read_refusal(table_of(options));
  };
  mneme_option bad = option("rows", MNEME_OPTION_REAL);
  bad.struct_size = 8;
  EXPECT_THAT(refusal_with(bad), HasSubstr("option 1 has a struct_size out of range: expected 120 "
                                           "to 120 (the stride), got 8"));
  bad = option("rows", MNEME_OPTION_REAL);
  bad.reserved = 3;
  EXPECT_THAT(refusal_with(bad), HasSubstr("option \"rows\", reserved field: expected 0, got 3"));
  for (const char* const key : {"", "Rows", "2rows", "my-rows", "r ows"}) {
    EXPECT_THAT(spec_refusal(option(key, MNEME_OPTION_REAL)),
                HasSubstr(str("option \"", key,
                              "\": bad key: expected small letters, digits and '_', starting with "
                              "a letter")));
  }
  EXPECT_THAT(refusal_with(option(nullptr, MNEME_OPTION_REAL)),
              HasSubstr("option 1 has a bad key: expected a text, got NULL"));
  bad = option("rows", MNEME_OPTION_REAL);
  const std::string long_help(4097, 'h');
  bad.help = long_help.c_str();
  EXPECT_THAT(refusal_with(bad), HasSubstr("option \"rows\", help: expected a text of at most 4096 "
                                           "bytes, got a longer text"));
}

TEST(PluginOptions, RefusesBadTypesAndDefaults) {
  EXPECT_THAT(spec_refusal(option("rows", 9)),
              HasSubstr("option \"rows\", type: expected 1 to 7 (MNEME_OPTION_*), got 9"));
  mneme_option bad = option("sticky", MNEME_OPTION_BOOLEAN);
  bad.default_integer = 2;
  EXPECT_THAT(spec_refusal(bad), HasSubstr("option \"sticky\", default: expected 0 or 1, got 2"));
  bad = option("pyramid", MNEME_OPTION_INTEGERS);
  bad.default_count = 2;
  EXPECT_THAT(spec_read_refusal(bad),
              HasSubstr("option \"pyramid\", default: expected 2 entries, got NULL"));
  bad = option("widths", MNEME_OPTION_REALS);
  bad.default_count = 5000;
  EXPECT_THAT(spec_read_refusal(bad),
              HasSubstr("option \"widths\", default: expected at most 4096 entries, got 5000"));
  bad = option("basis", MNEME_OPTION_CHOICE);
  bad.choice_count = 1;
  EXPECT_THAT(spec_read_refusal(bad),
              HasSubstr("option \"basis\", choices: expected 1 entries, got NULL"));
  const char* const words[] = {"a", nullptr};
  bad.choices = words;
  bad.choice_count = 2;
  EXPECT_THAT(spec_read_refusal(bad), HasSubstr("option \"basis\", choice 1: expected a text of at "
                                                "most 4096 bytes, got NULL"));
  bad = option("label", MNEME_OPTION_TEXT);
  bad.flags = MNEME_OPTION_BOUNDED;
  EXPECT_THAT(spec_refusal(bad), HasSubstr("option \"label\", flags: expected MNEME_OPTION_BOUNDED "
                                           "for numbers alone, got text"));
}

TEST(PluginOptions, TrainedOnesMayNotDifferAtEvaluation) {
  mneme_option tau = option("tau", MNEME_OPTION_REAL);
  EXPECT_FALSE(spec_of(tau).is_trained);
  tau.flags = MNEME_OPTION_TRAINED;
  EXPECT_TRUE(spec_of(tau).is_trained);
  tau.flags = MNEME_OPTION_TRAINED | MNEME_OPTION_AT_EVALUATION;
  EXPECT_THAT(spec_refusal(tau),
              HasSubstr("option \"tau\": an option with whose value parameters are trained may not "
                        "differ at evaluation"));
}

TEST(PluginOptions, RefusesWhatTheSchemaRefuses) {
  mneme_option bad = option("rows", MNEME_OPTION_INTEGER);
  bad.flags = MNEME_OPTION_BOUNDED;
  bad.min_integer = 1;
  bad.max_integer = 4;
  EXPECT_THAT(spec_refusal(bad), HasSubstr("here"));
  bad = option("basis", MNEME_OPTION_CHOICE);
  EXPECT_THAT(spec_refusal(bad), HasSubstr("basis"));
  EXPECT_THAT(spec_refusal(option("feed", MNEME_OPTION_REAL)), HasSubstr("feed"));
  EXPECT_THAT(spec_refusal(option("eval_rows", MNEME_OPTION_REAL)), HasSubstr("eval_"));
}

}  // namespace
}  // namespace mneme::memory
