#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "host/base/error.hpp"
#include "host/plugin/plugin_options.hpp"

namespace mneme::memory {
namespace {

using config::OptionSpec;
using config::OptionType;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::vector<OptionSpec> schema() {
  return {{.key = "tau", .type = OptionType::kReal, .default_value = 0.5, .is_trained = true},
          {.key = "widths",
           .type = OptionType::kRealList,
           .default_value = std::vector<double>{0.25, 1.0},
           .is_trained = true},
          {.key = "basis",
           .type = OptionType::kInteger,
           .default_value = std::int64_t{8},
           .integers = {.max = 64},
           .is_trained = true},
          {.key = "unit",
           .type = OptionType::kChoice,
           .default_value = std::string("mean"),
           .choices = {"mean", "sum"},
           .is_trained = true},
          {.key = "must", .type = OptionType::kBoolean, .is_trained = true},
          {.key = "free", .type = OptionType::kReal, .default_value = 1.0}};
}

config::Value table(const std::string& toml) { return config::parse_toml(toml, "here"); }

config::OptionMap resolved(const std::string& toml) {
  config::TierConfig tier;
  tier.options = table(toml);
  return config::resolve_options(tier, schema()).training;
}

// The changes from `trained` to `now`, both TOML.
std::vector<std::string> changes(const std::string& trained, const std::string& now) {
  std::vector<std::string> lines;
  for (const plugin::OptionChange& change :
       plugin::changed_options("0.id", schema(), table(trained), resolved(now))) {
    EXPECT_EQ(change.tier, "0.id");
    lines.push_back(change.text());
  }
  return lines;
}

TEST(TrainedOptions, AreComparedAsTheSchemaResolvesThem) {
  EXPECT_THAT(changes("must = true", "must = true\nfree = 3"), IsEmpty());
  EXPECT_THAT(changes("must = true\ntau = 1", "must = true\ntau = 1.0"), IsEmpty());
  EXPECT_THAT(changes("must = true",
                      "must = true\ntau = 0.5\nwidths = [0.25, 1]\nbasis = 8\n"
                      "unit = \"mean\""),
              IsEmpty());
  EXPECT_THAT(
      changes("must = true\nbasis = 16",
              "must = false\ntau = 0.25\nwidths = [0.25]\n"
              "unit = \"sum\""),
      ElementsAre("tau = 0.25, trained with 0.5", "widths = [0.25], trained with [0.25, 1.0]",
                  "basis = 8, trained with 16", "unit = \"sum\", trained with \"mean\"",
                  "must = false, trained with true"));
}

// Whatever wrote them: an option that is gone, bounds and types that have changed, one that is new.
TEST(TrainedOptions, MayComeFromAnotherVersionOfThePlugin) {
  EXPECT_THAT(changes("must = true\ngone = 3\nfree = \"x\"", "must = true"), IsEmpty());
  EXPECT_THAT(changes("must = true\nbasis = 100\ntau = \"half\"\nunit = \"max\"", "must = true"),
              ElementsAre("tau = 0.5, trained with \"half\"", "basis = 8, trained with 100",
                          "unit = \"mean\", trained with \"max\""));
  EXPECT_THAT(changes("", "must = true"), ElementsAre("must = true, trained with no value"));
}

TEST(TrainedOptions, AreWrittenWithEveryDefault) {
  const config::Value options =
      plugin::trained_options(schema(), resolved("must = true\nfree = 2"));
  EXPECT_EQ(options, table("tau = 0.5\nwidths = [0.25, 1.0]\nbasis = 8\nunit = \"mean\"\n"
                           "must = true"));
  EXPECT_EQ(plugin::parse_options(plugin::to_text(options), "there"), options);
  EXPECT_TRUE(plugin::trained_options({}, {}).members().empty());
}

TEST(TrainedOptions, AreOneTable) {
  for (const char* const text : {"1", "[]", "{}\nmore = {}"}) {
    std::string said;
    try {
      static_cast<void>(plugin::parse_options(text, "there"));
    } catch (const Error& error) {
      said = error.what();
    }
    EXPECT_EQ(said,
              "there: the options of a tier cannot be read: expected one table, { key = value "
              "}, got " +
                  config::toml_string(text));
  }
}

TEST(TrainedOptions, AreRefusedAllAtOnce) {
  const std::vector<plugin::OptionChange> changes = {
      {.tier = "0.a", .option = "tau", .trained = "0.5", .now = "0.25"},
      {.tier = "2.b", .option = "basis", .trained = "8", .now = "16"}};
  EXPECT_TRUE(plugin::is_changed(changes, "2.b"));
  EXPECT_FALSE(plugin::is_changed(changes, "1.b"));
  const auto refusal = [&](const auto&... hint) -> std::string {
    try {
      plugin::throw_changed_options("run", changes, hint...);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kUsage);
      return error.what();
    }
    return "no error";
  };
  EXPECT_THAT(refusal(), HasSubstr("run: the memory was trained with other options:\n"
                                   "  tier 0.a: tau = 0.25, trained with 0.5\n"
                                   "  tier 2.b: basis = 16, trained with 8\n"));
  EXPECT_THAT(refusal(), HasSubstr("memory.carry = \"reset\""));
  EXPECT_THAT(refusal("restore them"), testing::EndsWith("restore them"));
}

}  // namespace
}  // namespace mneme::memory
