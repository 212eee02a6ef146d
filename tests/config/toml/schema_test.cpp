#include "host/config/toml/schema.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <string>

#include "tests/base/temporary_folder.hpp"

namespace mneme::config {
namespace {

using test::error_of;

enum class Fruit { kApple, kPear, kFig };
constexpr auto words_of(Fruit) { return std::array{"apple", "pear", "fig"}; }

// The problems that `read` reports for `text`.
std::string reading(const std::string& text, const std::function<void(Reader&)>& read) {
  return error_of([&] {
    const Value root = parse_toml(text, "f");
    Problems problems;
    Reader reader(root, problems);
    read(reader);
    problems.throw_if_any();
  });
}

TEST(Schema, ReadsEveryType) {
  const std::string text =
      "i = 3\nr = 2\nb = true\ns = \"x\"\nc = \"pear\"\nli = [1, 2]\nlr = [1, 0.5]\n"
      "lb = [true]\nw = \"two\"\np = \"sub/../file\"\nlp = [\"/a\", \"b\"]\n[t]\nk = 1\n[[l]]\n"
      "[[l]]\n";
  const Value root = parse_toml(text, "f", "/base");
  Problems problems;
  Reader reader(root, problems);
  EXPECT_EQ(reader.integer("i", 0), 3);
  EXPECT_EQ(reader.seed("i", 0), 3u);
  EXPECT_EQ(reader.real("r", 0), 2.0);
  EXPECT_TRUE(reader.boolean("b", false));
  EXPECT_EQ(reader.text("s", ""), "x");
  EXPECT_EQ(reader.choice("c", Fruit::kApple), Fruit::kPear);
  EXPECT_EQ(reader.integers("li"), (std::vector<std::int64_t>{1, 2}));
  EXPECT_EQ(reader.reals("lr"), (std::vector<double>{1.0, 0.5}));
  EXPECT_EQ(reader.booleans("lb"), std::vector<bool>{true});
  EXPECT_EQ(reader.choice("w", {"one", "two"}), "two");
  EXPECT_EQ(reader.path("p"), "/base/file");
  EXPECT_EQ(reader.paths("lp"), (std::vector<std::filesystem::path>{"/a", "/base/b"}));
  EXPECT_EQ(reader.table("t")->find("k")->as_integer(), 1);
  EXPECT_EQ(reader.tables("l").size(), 2u);
  EXPECT_TRUE(reader.require("i", "a number"));
  reader.finish();
  EXPECT_TRUE(problems.empty());
}

TEST(Schema, AbsentKeysGiveTheFallback) {
  const Value root = parse_toml("", "f");
  Problems problems;
  Reader reader(root, problems);
  EXPECT_EQ(reader.integer("i", 7, kPositive), 7);
  EXPECT_EQ(reader.seed("i", 9), 9u);
  EXPECT_EQ(reader.real("r", 0.5), 0.5);
  EXPECT_TRUE(reader.boolean("b", true));
  EXPECT_EQ(reader.text("s", "d"), "d");
  EXPECT_EQ(reader.choice("c", Fruit::kPear), Fruit::kPear);
  EXPECT_EQ(reader.choice("w", {"one"}), "");
  EXPECT_EQ(reader.path("p"), "");
  EXPECT_TRUE(reader.paths("lp").empty());
  EXPECT_FALSE(reader.optional_integer("i"));
  EXPECT_FALSE(reader.optional_real("i"));
  EXPECT_FALSE(reader.integers("i"));
  EXPECT_FALSE(reader.reals("i"));
  EXPECT_FALSE(reader.booleans("i"));
  EXPECT_EQ(reader.table("t"), nullptr);
  EXPECT_TRUE(reader.tables("t").empty());
  EXPECT_TRUE(problems.empty());
}

TEST(Schema, WrongKindsSayWhatWasExpected) {
  const auto check = [](const std::string& value, const std::string& expected,
                        const std::function<void(Reader&)>& read) {
    EXPECT_EQ(reading("k = " + value, read), "2: f:1:5: k: " + expected);
  };
  check("1.5", "expected an integer, got 1.5", [](Reader& r) { r.integer("k", 0); });
  check("\"5\"", "expected an integer, got \"5\" (a string)", [](Reader& r) { r.integer("k", 0); });
  check("true", "expected a real number, got true", [](Reader& r) { r.real("k", 0); });
  check("nan", "expected a real number, got nan", [](Reader& r) { r.real("k", 0); });
  check("inf", "expected a real number of at least 0, got inf",
        [](Reader& r) { r.real("k", 0, {.min = 0}); });
  check("1", "expected true or false, got 1", [](Reader& r) { r.boolean("k", false); });
  check("1", "expected a string, got 1", [](Reader& r) { r.text("k", ""); });
  check("[1]", "expected a path (a string), got an array", [](Reader& r) { r.path("k"); });
  check("\"\"", "expected a path (a string), got \"\" (a string)", [](Reader& r) { r.path("k"); });
  check("1", "expected a list of integers, such as [1, 2], got 1",
        [](Reader& r) { r.integers("k"); });
  check("1", "expected a list of real numbers, such as [0.5, 1.0], got 1",
        [](Reader& r) { r.reals("k"); });
  check("1", "expected a list of booleans, such as [false, true], got 1",
        [](Reader& r) { r.booleans("k"); });
  check("\"a\"", "expected a list of paths, such as [\"folder\"], got \"a\" (a string)",
        [](Reader& r) { r.paths("k"); });
  check("1", "expected a table, [k], got 1", [](Reader& r) { r.table("k"); });
  check("{ a = 1 }", "expected an array of tables, [[k]], got a table",
        [](Reader& r) { r.tables("k"); });
  check("-1", "expected an integer of at least 0, got -1", [](Reader& r) { r.seed("k", 0); });
}

TEST(Schema, WrongItemsAreNamedByIndex) {
  const auto check = [](const std::string& value, const std::string& expected,
                        const std::function<void(Reader&)>& read) {
    EXPECT_EQ(reading("k = " + value, read), "2: " + expected);
  };
  check("[1, 2.5, 0]",
        "f:1:9: k.1: expected an integer of at least 1, got 2.5\n"
        "f:1:14: k.2: expected an integer of at least 1, got 0",
        [](Reader& r) { EXPECT_FALSE(r.integers("k", kPositive)); });
  check("[true]", "f:1:6: k.0: expected a real number, got true",
        [](Reader& r) { EXPECT_FALSE(r.reals("k")); });
  check("[1]", "f:1:6: k.0: expected true or false, got 1",
        [](Reader& r) { EXPECT_FALSE(r.booleans("k")); });
  check("[1, \"\"]",
        "f:1:6: k.0: expected a path (a string), got 1\n"
        "f:1:9: k.1: expected a path (a string), got \"\" (a string)",
        [](Reader& r) { r.paths("k"); });
  check("[1]", "f:1:6: k.0: expected a table, [[k]], got 1", [](Reader& r) { r.tables("k"); });
}

TEST(Schema, RangesAreChecked) {
  const auto integer = [](const std::string& value, IntegerRange range) {
    return reading("k = " + value, [&](Reader& r) { EXPECT_EQ(r.integer("k", 42, range), 42); });
  };
  EXPECT_EQ(integer("0", {1, 9}), "2: f:1:5: k: expected an integer in [1, 9], got 0");
  EXPECT_EQ(integer("10", {1, 9}), "2: f:1:5: k: expected an integer in [1, 9], got 10");
  EXPECT_EQ(integer("0", kPositive), "2: f:1:5: k: expected an integer of at least 1, got 0");
  EXPECT_EQ(integer("10", {.max = 9}), "2: f:1:5: k: expected an integer of at most 9, got 10");
  const auto real = [](const std::string& value, RealRange range) {
    return reading("k = " + value, [&](Reader& r) { r.real("k", 0, range); });
  };
  const RealRange half_open{.min = 0, .max = 1, .is_open_max = true};
  EXPECT_EQ(real("1.0", half_open), "2: f:1:5: k: expected a real number in [0, 1), got 1.0");
  EXPECT_EQ(real("0.0", half_open), "no error");
  const RealRange above{.min = 0, .is_open_min = true};
  EXPECT_EQ(real("0", above), "2: f:1:5: k: expected a real number above 0, got 0");
  EXPECT_EQ(real("3", {.max = 2}), "2: f:1:5: k: expected a real number of at most 2, got 3");
  const RealRange below{.max = 2, .is_open_max = true};
  EXPECT_EQ(real("2", below), "2: f:1:5: k: expected a real number below 2, got 2");
}

TEST(Schema, ChoicesNameTheirWords) {
  const auto fruit = [](const std::string& value) {
    return reading("k = " + value,
                   [](Reader& r) { EXPECT_EQ(r.choice("k", Fruit::kPear), Fruit::kPear); });
  };
  EXPECT_EQ(fruit("\"aple\""),
            "2: f:1:5: k: expected \"apple\" | \"pear\" | \"fig\", got \"aple\" (did you mean "
            "\"apple\"?)");
  EXPECT_EQ(fruit("\"banana\""),
            "2: f:1:5: k: expected \"apple\" | \"pear\" | \"fig\", got \"banana\"");
  EXPECT_EQ(fruit("3"), "2: f:1:5: k: expected \"apple\" | \"pear\" | \"fig\", got 3");
  EXPECT_EQ(reading("k = \"x\"",
                    [](Reader& r) {
                      r.choice("k", {"a", "b"});
                    }),
            "2: f:1:5: k: expected \"a\" | \"b\", got \"x\"");
  EXPECT_EQ(to_word(Fruit::kFig), "fig");
}

TEST(Schema, UnknownKeysNameTheNearest) {
  const auto read = [](Reader& r) {
    r.integer("layers", 1);
    r.integer("heads", 1);
    r.finish({"rows"});
  };
  EXPECT_EQ(reading("[m]\n", [](Reader& r) { r.finish(); }), "2: f:1:2: m: unknown key");
  EXPECT_EQ(reading("layres = 1\n", read),
            "2: f:1:1: layres: unknown key (did you mean \"layers\"?)");
  EXPECT_EQ(reading("row = 1\n", read), "2: f:1:1: row: unknown key (did you mean \"rows\"?)");
  EXPECT_EQ(reading("banana = 1\n", read),
            "2: f:1:1: banana: unknown key; known keys: heads, layers, rows");
}

TEST(Schema, MissingKeysPointAtTheirTable) {
  EXPECT_EQ(reading("\n[t]\nx = 1\n",
                    [](Reader& r) {
                      Problems problems;
                      Reader inner(*r.table("t"), problems);
                      EXPECT_FALSE(inner.require("need", "a number"));
                      problems.throw_if_any();
                    }),
            "2: f:2:1: t.need: missing: expected a number");
}

TEST(Schema, AllProblemsComeTogetherInOrder) {
  EXPECT_EQ(reading("b = 1\na = 2\nc = 3\n",
                    [](Reader& r) {
                      r.text("c", "");
                      r.text("a", "");
                      r.boolean("b", false);
                    }),
            "2: f:1:5: b: expected true or false, got 1\n"
            "f:2:5: a: expected a string, got 2\n"
            "f:3:5: c: expected a string, got 3");
}

TEST(Schema, TheFirstProblemsStandForMany) {
  std::string text;
  for (int i = 0; i < 103; ++i) text += "k" + std::to_string(i) + " = 1\n";
  const std::string said = reading(text, [](Reader& r) { r.finish(); });
  EXPECT_EQ(std::ranges::count(said, '\n'), 100);
  EXPECT_TRUE(said.ends_with("f:100:1: k99: unknown key\nand 3 more problems")) << said;
}

TEST(Schema, PathsHaveNoZeroByte) {
  EXPECT_EQ(reading("p = \"a\\u0000b\"\nl = [\"\\u0000\"]\n",
                    [](Reader& r) {
                      static_cast<void>(r.path("p"));
                      static_cast<void>(r.paths("l"));
                    }),
            "2: f:1:5: p: expected a path (a string), got \"a\\u0000b\" (a string)\n"
            "f:2:6: l.0: expected a path (a string), got \"\\u0000\" (a string)");
}

TEST(Schema, PathsAreUtf8) {
  const auto read = [](const std::string& text) {
    return error_of([&] {
      const Value root = parse_toml(text, "f", "/home/caf\xe9");
      Problems problems;
      Reader reader(root, problems);
      static_cast<void>(reader.path("p"));
      static_cast<void>(reader.paths("l"));
      problems.throw_if_any();
    });
  };
  const std::string failed =
      "a run could not keep this path in its experiment.toml: expected a name in UTF-8, got "
      "/home/caf\\xe9/";
  const std::string hint = "; rename the folder or file whose name has other bytes";
  EXPECT_EQ(read("p = \"a.txt\"\nl = [\"/b\", \"c\"]\n"),
            "2: f:1:5: p: " + failed + "a.txt" + hint + "\nf:2:12: l.1: " + failed + "c" + hint);
  EXPECT_EQ(read("p = \"/a.txt\"\nl = [\"/caf\u00e9\"]\n"), "no error");
}

TEST(Schema, OverridesAreNotNamedTwice) {
  EXPECT_EQ(error_of([] {
              Value root = parse_toml("", "f");
              apply_override(root, {"k", "1.5"});
              Problems problems;
              Reader(root, problems).integer("k", 0);
              problems.throw_if_any();
            }),
            "2: --set k: expected an integer, got 1.5");
}

TEST(Schema, ProblemsTakeOtherErrors) {
  Problems problems;
  EXPECT_NO_THROW(problems.throw_if_any());
  problems.add(Error(ErrorKind::kPlugin, "one\ntwo"));
  EXPECT_EQ(problems.size(), 1u);
  EXPECT_EQ(error_of([&] { problems.throw_if_any(); }), "2: one\ntwo");
}

TEST(Schema, TheRestCanBeTaken) {
  const Value root = parse_toml("a = 1\nb = 2\nc = 3\n", "f");
  Problems problems;
  Reader reader(root, problems);
  reader.integer("b", 0);
  const std::vector<Member> rest = reader.take_rest();
  ASSERT_EQ(rest.size(), 2u);
  EXPECT_EQ(rest[0].key, "a");
  EXPECT_EQ(rest[1].key, "c");
  reader.finish();
  EXPECT_TRUE(problems.empty());
}

}  // namespace
}  // namespace mneme::config
