// --set key=value
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "host/config/toml/toml.hpp"
#include "tests/base/temporary_folder.hpp"

namespace mneme::config {
namespace {

using test::error_of;

Value with(const std::string& text, const std::string& argument) {
  Value root = parse_toml(text, "f.toml");
  apply_override(root, parse_override(argument));
  return root;
}

std::string error_with(const std::string& text, const std::string& argument) {
  return error_of([&] { static_cast<void>(with(text, argument)); });
}

TEST(Override, ReplacesAndAddsValues) {
  EXPECT_EQ(with("[a]\nb = 1\n", "a.b=2"), parse_toml("[a]\nb = 2", "x"));
  EXPECT_EQ(with("", "a.b.c = 2.5"), parse_toml("a.b.c = 2.5", "x"));
  EXPECT_EQ(with("a = 1", "a=[1, 2]"), parse_toml("a = [1, 2]", "x"));
  EXPECT_EQ(with("a = 1", "a={ b = true }"), parse_toml("a = { b = true }", "x"));
}

TEST(Override, BareWordsAreStrings) {
  EXPECT_EQ(with("", "a=f64"), parse_toml("a = \"f64\"", "x"));
  EXPECT_EQ(with("", "a=../some/path.txt"), parse_toml("a = \"../some/path.txt\"", "x"));
  EXPECT_EQ(with("", "a=x=y"), parse_toml("a = \"x=y\"", "x"));
  EXPECT_EQ(with("", "a="), parse_toml("a = \"\"", "x"));
  EXPECT_EQ(with("", "a=true"), parse_toml("a = true", "x"));
  EXPECT_EQ(with("", "a='quoted'"), parse_toml("a = \"quoted\"", "x"));
  EXPECT_EQ(with("", "a=1e-3"), parse_toml("a = 0.001", "x"));
  EXPECT_EQ(with("", "a=1e-"), parse_toml("a = \"1e-\"", "x"));
}

TEST(Override, IndexesArrays) {
  const std::string tiers = "[[memory.tier]]\nrows = 1\n[[memory.tier]]\nrows = 2\n";
  const Value root = with(tiers, "memory.tier.1.rows=7");
  EXPECT_EQ(root.find("memory")->find("tier")->items()[0].find("rows")->as_integer(), 1);
  const Value& rows = *root.find("memory")->find("tier")->items()[1].find("rows");
  EXPECT_EQ(rows.as_integer(), 7);
  EXPECT_EQ(rows.path(), "memory.tier.1.rows");
  EXPECT_EQ(rows.position().text(), "--set memory.tier.1.rows");
  EXPECT_EQ(with("a = [1, 2]", "a.0=5"), parse_toml("a = [5, 2]", "x"));
}

TEST(Override, PathsAreRelativeToTheCurrentFolder) {
  EXPECT_EQ(*with("", "a=x").find("a")->position().folder, std::filesystem::current_path());
}

TEST(Override, BadArgumentsAreRefused) {
  const auto parse = [](const std::string& text) {
    return error_of([&] { static_cast<void>(parse_override(text)); });
  };
  EXPECT_EQ(parse("train.lr"),
            "2: --set: expected key=value, such as train.steps=100, got \"train.lr\"");
  EXPECT_EQ(parse(" =5"), "2: --set: expected key=value, such as train.steps=100, got \" =5\"");
  const Override override = parse_override(" a.b = c d ");
  EXPECT_EQ(override.key, "a.b");
  EXPECT_EQ(override.value, "c d");
}

TEST(Override, BadKeysAreRefused) {
  EXPECT_EQ(error_with("a = [1, 2]", "a.2=5"),
            "2: --set a.2: a has 2 items: expected an index from 0 to 1, got \"2\"");
  EXPECT_EQ(error_with("a = [1]", "a.x=5"),
            "2: --set a.x: a has 1 item: expected an index from 0 to 0, got \"x\"");
  EXPECT_EQ(error_with("a = []", "a.0=5"),
            "2: --set a.0: a has 0 items: expected no index, got \"0\"");
  EXPECT_EQ(error_with("a = [1]", "a.-1=5"),
            "2: --set a.-1: a has 1 item: expected an index from 0 to 0, got \"-1\"");
  EXPECT_EQ(error_with("a = 1", "a.b=5"),
            "2: --set a.b: a has no keys: expected a table, got an integer");
  EXPECT_EQ(error_with("", "a..b=5"),
            "2: --set a..b: a part of the key is empty: expected key.key=value");
  std::string deep = "a";
  for (int i = 0; i < 33; ++i) deep += ".a";
  EXPECT_EQ(error_with("", deep + "=1"),
            "2: --set " + deep + ": too many parts in a key: expected at most 33, got 34");
}

TEST(Override, BadValuesAreRefused) {
  const std::string broken = error_with("", "a=[1, 2");
  EXPECT_TRUE(
      broken.starts_with("2: --set a: cannot read the value \"[1, 2\": expected one TOML "
                         "value or a bare word, got value:1:"))
      << broken;
  EXPECT_EQ(error_with("", "a=1\nb = 2"),
            "2: --set a: cannot read the value \"1\\nb = 2\": expected one TOML value or a bare "
            "word, got several lines");
}

TEST(Override, RemovesKeysBeforeItSetsOthers) {
  const auto after = [](const std::string& text, const std::vector<Override>& overrides) {
    Value root = parse_toml(text, "f.toml");
    apply_overrides(root, overrides);
    return root;
  };
  const std::string text = "[train]\nepochs = 3\nlr = 1.0\n[[memory.tier]]\nrows = 1\n";
  EXPECT_EQ(after(text, {parse_override("train.steps=5"), parse_removal("train.epochs")}),
            parse_toml("[train]\nlr = 1.0\nsteps = 5\n[[memory.tier]]\nrows = 1\n", "x"));
  EXPECT_EQ(after(text, {parse_removal("memory.tier.0.rows"), parse_removal(" train ")}),
            parse_toml("[[memory.tier]]\n", "x"));
}

TEST(Override, RemovalsThatRemoveNothingAreRefused) {
  const auto error = [](const std::string& argument) {
    return error_of([&] {
      Value root = parse_toml("[train]\nepochs = 3\nbetas = [0.5, 0.5]\n", "f.toml");
      apply_overrides(root, {parse_removal(argument)});
    });
  };
  EXPECT_EQ(error("train.epoch"),
            "2: --unset train.epoch: the experiment does not have this key (did you mean "
            "\"epochs\"?); leave out --unset train.epoch");
  EXPECT_EQ(error("model.adaptive"),
            "2: --unset model.adaptive: the experiment does not have this key; leave out --unset "
            "model.adaptive");
  EXPECT_EQ(error("train.betas.0"),
            "2: --unset train.betas.0: an item of a list cannot be removed: expected a key, got an "
            "item of train.betas; give the list without it, or edit the file");
  EXPECT_EQ(error("train.epochs=3"),
            "2: --unset: expected a key, such as train.epochs, got \"train.epochs=3\"");
  EXPECT_EQ(error(" "), "2: --unset: expected a key, such as train.epochs, got \" \"");
}

}  // namespace
}  // namespace mneme::config
