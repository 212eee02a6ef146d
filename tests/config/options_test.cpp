#include "host/config/options.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

#include "tests/base/temporary_folder.hpp"
#include "tests/base/wordings.hpp"

namespace mneme::config {
namespace {

using test::error_of;

std::vector<OptionSpec> specs() {
  using L = std::vector<std::int64_t>;
  return {
      {.key = "rows",
       .type = OptionType::kInteger,
       .default_value = std::int64_t{16},
       .integers = {1, 4096},
       .may_differ_at_evaluation = true},
      {.key = "decay", .type = OptionType::kReal, .default_value = 0.5, .reals = {0, 1}},
      {.key = "sticky",
       .type = OptionType::kBoolean,
       .default_value = false,
       .may_differ_at_evaluation = true},
      {.key = "label", .type = OptionType::kText, .default_value = std::string("x")},
      {.key = "pool",
       .type = OptionType::kChoice,
       .default_value = std::string("mean"),
       .choices = {"mean", "max"},
       .may_differ_at_evaluation = true},
      {.key = "sizes",
       .type = OptionType::kIntegerList,
       .default_value = L{1, 2},
       .integers = kPositive},
      {.key = "scales",
       .type = OptionType::kRealList,
       .default_value = std::vector<double>{0.5},
       .reals = {.max = 2}},
      {.key = "width", .type = OptionType::kInteger},
  };
}

TierConfig tier(const std::string& lines) {
  const std::string text = "[memory]\nplugins = [\"p\"]\n[[memory.tier]]\nplugin = \"pool\"\n" +
                           lines + "[data]\ntask = \"motif\"\n[train]\nsteps = 1\n";
  return parse_experiment_text(text, "e").memory.tiers[0];
}

std::string resolve_error(const std::string& lines) {
  return error_of([&] { static_cast<void>(resolve_options(tier(lines), specs())); });
}

TEST(Options, DefaultsAndValuesAreTyped) {
  const OptionValues values =
      resolve_options(tier("width = 7\ndecay = 1\nscales = [1, 0.25]\npool = \"max\"\n"), specs());
  const OptionMap& o = values.training;
  EXPECT_EQ(o.integer("rows"), 16);
  EXPECT_EQ(o.integer("width"), 7);
  EXPECT_EQ(o.real("decay"), 1.0);
  EXPECT_FALSE(o.boolean("sticky"));
  EXPECT_EQ(o.text("label"), "x");
  EXPECT_EQ(o.text("pool"), "max");
  EXPECT_EQ(o.integers("sizes"), (std::vector<std::int64_t>{1, 2}));
  EXPECT_EQ(o.reals("scales"), (std::vector<double>{1.0, 0.25}));
  EXPECT_EQ(o.values().size(), specs().size());
  EXPECT_EQ(values.evaluation, values.training);
}

TEST(Options, EvaluationDiffersWhereItSaysSo) {
  const OptionValues values = resolve_options(
      tier("width = 7\nrows = 64\neval_rows = 128\neval_sticky = true\neval_pool = \"max\"\n"),
      specs());
  EXPECT_EQ(values.training.integer("rows"), 64);
  EXPECT_EQ(values.evaluation.integer("rows"), 128);
  EXPECT_FALSE(values.training.boolean("sticky"));
  EXPECT_TRUE(values.evaluation.boolean("sticky"));
  EXPECT_EQ(values.training.text("pool"), "mean");
  EXPECT_EQ(values.evaluation.text("pool"), "max");
  EXPECT_EQ(values.evaluation.integer("width"), 7);
}

TEST(Options, RequiredOptionsMustBeGiven) {
  EXPECT_EQ(resolve_error(""),
            "2: e:3:1: memory.tier.0.width: missing: expected an integer for the plugin pool");
}

TEST(Options, BadValuesNamePlaceAndRange) {
  const auto with_width = [](const std::string& line) {
    return resolve_error("width = 7\n" + line + "\n");
  };
  test::expect_problems(with_width, "e",
                        test::read_wording_file("tests/config/messages/options/bad_values.txt"));
}

TEST(Options, UnknownKeysNameTheNearest) {
  test::expect_problems(resolve_error, "e",
                        test::read_wording_file("tests/config/messages/options/unknown_keys.txt"));
}

TEST(Options, EvaluationKeysAreChecked) {
  test::expect_problems(
      resolve_error, "e",
      test::read_wording_file("tests/config/messages/options/evaluation_keys.txt"));
  const std::vector<OptionSpec> none = {
      {.key = "rows", .type = OptionType::kInteger, .default_value = std::int64_t{1}}};
  EXPECT_EQ(error_of([&] { static_cast<void>(resolve_options(tier("eval_x = 1\n"), none)); }),
            "2: e:5:1: memory.tier.0.eval_x: unknown key; the plugin pool has no eval_ option");
  EXPECT_EQ(error_of([&] { static_cast<void>(resolve_options(tier("eval_rows = 1\n"), none)); }),
            "2: e:5:13: memory.tier.0.eval_rows: rows may not differ at evaluation: expected no "
            "eval_ option for this plugin");
}

TEST(Options, AllProblemsComeTogether) {
  EXPECT_EQ(resolve_error("rows = 0\ndecay = 2\nbanan = 1\neval_rows = -5\n"),
            "2: e:3:1: memory.tier.0.width: missing: expected an integer for the plugin pool\n"
            "e:5:8: memory.tier.0.rows: expected an integer in [1, 4096], got 0\n"
            "e:6:9: memory.tier.0.decay: expected a real number in [0, 1], got 2\n"
            "e:7:1: memory.tier.0.banan: unknown key; known keys: decay, label, pool, rows, "
            "scales, sizes, sticky, width, plugin, layers, feed, sha256, lr, weight_decay, "
            "weight\n"
            "e:8:13: memory.tier.0.eval_rows: expected an integer in [1, 4096], got -5");
}

TEST(Options, ProblemsOfSeveralTiersCanBeCollected) {
  Problems problems;
  static_cast<void>(resolve_options(tier("width = 1\nrows = 0\n"), specs(), problems));
  const OptionValues values = resolve_options(tier(""), specs(), problems);
  EXPECT_EQ(problems.size(), 2u);
  EXPECT_EQ(values.training.integer("rows"), 16);
  EXPECT_EQ(values.training.integer("width"), 0);  // stands in; the caller throws
}

TEST(Options, SchemasOfPluginsAreChecked) {
  const auto check = [](OptionSpec spec) {
    return error_of([&] { check_schema("org.p", {spec}); });
  };
  EXPECT_NO_THROW(check_schema("org.p", specs()));
  const std::string at = "3: plugin org.p: option ";
  EXPECT_EQ(check({.key = ""}),
            at + "\"\": bad key: expected small letters, digits and '_', starting with a letter");
  for (const char* key : {"a-b", "Rows", "2rows", "r ows"}) {
    EXPECT_EQ(check({.key = key}),
              at + '"' + key +
                  "\": bad key: expected small letters, digits and '_', starting with a letter");
  }
  EXPECT_EQ(check({.key = "layers"}),
            at + "\"layers\": the key belongs to the host; choose another name");
  EXPECT_EQ(check({.key = "eval_rows"}),
            at + "\"eval_rows\": keys that begin with eval_ belong to the host; choose another "
                 "name");
  EXPECT_EQ(check({.key = "c", .type = OptionType::kChoice}),
            at + "\"c\": a choice without choices");
  EXPECT_EQ(check({.key = "t", .type = OptionType::kText, .integers = {1, 2}}),
            at + "\"t\": bounds of another type: expected those of text");
  EXPECT_EQ(check({.key = "r", .integers = {1, 2}}),
            at + "\"r\": bounds of another type: expected those of real");
  EXPECT_EQ(check({.key = "r", .reals = {2, 1}}), at + "\"r\": min 2 exceeds max 1");
  EXPECT_EQ(check({.key = "i", .type = OptionType::kInteger, .integers = {2, 1}}),
            at + "\"i\": min 2 exceeds max 1");
  EXPECT_EQ(check({.key = "r", .reals = {.min = std::nan("")}}),
            at + "\"r\": a bound is not a number");
  EXPECT_EQ(check({.key = "r", .default_value = std::int64_t{1}}),
            at + "\"r\": the default has another type: expected real, got 1");
  EXPECT_EQ(check({.key = "r", .default_value = 3.0, .reals = {.max = 1}}),
            at + "\"r\": the default is out of range: expected a real number of at most 1, got "
                 "3.0");
  EXPECT_EQ(check({.key = "c",
                   .type = OptionType::kChoice,
                   .default_value = std::string("z"),
                   .choices = {"a"}}),
            at + "\"c\": the default is out of range: expected \"a\", got \"z\"");
  EXPECT_EQ(check({.key = "l",
                   .type = OptionType::kIntegerList,
                   .default_value = std::vector<std::int64_t>{1, 9},
                   .integers = {.max = 5}}),
            at + "\"l\": the default is out of range: expected a list, each an integer of at most "
                 "5, got [1, 9]");
  EXPECT_EQ(error_of([] {
              check_schema("p", {{.key = "a"}, {.key = "a"}, {.key = "lr"}});
            }),
            "3: plugin p: option \"a\": declared twice\n"
            "plugin p: option \"lr\": the key belongs to the host; choose another name");
}

TEST(Options, IntegersBeyondDoublesAreExact) {
  constexpr std::int64_t kLarge = (std::int64_t{1} << 60) + 1;
  const OptionSpec spec{.key = "k",
                        .type = OptionType::kInteger,
                        .default_value = kLarge,
                        .integers = {kLarge, kLarge + 2}};
  EXPECT_EQ(option_expectation(spec), "an integer in [1152921504606846977, 1152921504606846979]");
  check_schema("p", {spec});
}

TEST(Options, ExpectationsAndTextsCoverEveryType) {
  const std::vector<std::string> expected = {"an integer in [1, 4096]",
                                             "a real number in [0, 1]",
                                             "true or false",
                                             "a string",
                                             "\"mean\" | \"max\"",
                                             "a list, each an integer of at least 1",
                                             "a list, each a real number of at most 2",
                                             "an integer"};
  const std::vector<std::string> types = {"integer",       "real",   "boolean",
                                          "text",          "choice", "list of integers",
                                          "list of reals", "integer"};
  const std::vector<std::string> defaults = {"16",       "0.5",    "false", "\"x\"",
                                             "\"mean\"", "[1, 2]", "[0.5]"};
  const auto all = specs();
  for (std::size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(option_expectation(all[i]), expected[i]);
    EXPECT_EQ(option_type_text(all[i].type), types[i]);
    if (all[i].default_value) {
      EXPECT_EQ(option_text(*all[i].default_value), defaults[i]);
    }
  }
}

TEST(Options, WrongQuestionsOfAPluginAreItsErrors) {
  const OptionMap map("org.p", {{"rows", std::int64_t{1}}});
  EXPECT_EQ(error_of([&] { static_cast<void>(map.integer("rwos")); }),
            "3: plugin org.p: option \"rwos\": asked for, but not in the schema (did you mean "
            "\"rows\"?); declare the option");
  EXPECT_EQ(error_of([&] { static_cast<void>(map.real("rows")); }),
            "3: plugin org.p: option \"rows\": read as another type than its schema's: expected "
            "real, got 1");
  EXPECT_EQ(map.find("none"), nullptr);
}

}  // namespace
}  // namespace mneme::config
