#include "host/config/toml/toml.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

#include "tests/base/temporary_folder.hpp"

namespace mneme::config {
namespace {

using test::error_of;

Value parse(const std::string& text) { return parse_toml(text, "f.toml"); }

std::string parse_error(const std::string& text) {
  return error_of([&] { static_cast<void>(parse(text)); });
}

TEST(Toml, ReadsEveryKind) {
  const Value root = parse(
      "s = \"text\"\ni = -5\nr = 2.5\nb = true\na = [1, \"x\", [2.0]]\n[t]\nk = 1\n[[l]]\nv = 1\n"
      "[[l]]\nv = 2\n");
  EXPECT_EQ(root.find("s")->as_string(), "text");
  EXPECT_EQ(root.find("i")->as_integer(), -5);
  EXPECT_EQ(root.find("i")->as_real(), -5.0);
  EXPECT_EQ(root.find("r")->as_real(), 2.5);
  EXPECT_TRUE(root.find("b")->as_boolean());
  EXPECT_EQ(root.find("a")->items()[2].items()[0].as_real(), 2.0);
  EXPECT_EQ(root.find("t")->find("k")->as_integer(), 1);
  EXPECT_EQ(root.find("l")->items()[1].find("v")->as_integer(), 2);
  EXPECT_EQ(root.find("none"), nullptr);
}

TEST(Toml, KeepsTheOrderOfTheFile) {
  const Value root = parse("z = 1\na = 2\n[m]\ny.b = 1\ny.a = 2\n[c]\n");
  std::string order;
  for (const Member& member : root.members()) order += member.key;
  EXPECT_EQ(order, "zamc");
  EXPECT_EQ(root.find("m")->find("y")->members()[0].key, "b");
}

TEST(Toml, KnowsPositionsAndPaths) {
  const Value root = parse("a = 1\n\n[memory]\n  x = [ 1,\n 2 ]\n[[memory.tier]]\n rows = 64\n");
  const Value* memory = root.find("memory");
  EXPECT_EQ(memory->position().text(), "f.toml:3:1");
  EXPECT_EQ(memory->members()[0].key_position.text(), "f.toml:4:3");
  EXPECT_EQ(memory->find("x")->position().text(), "f.toml:4:7");
  EXPECT_EQ(memory->find("x")->items()[1].position().text(), "f.toml:5:2");
  EXPECT_EQ(memory->find("x")->items()[1].path(), "memory.x.1");
  const Value& rows = *memory->find("tier")->items()[0].find("rows");
  EXPECT_EQ(rows.position().text(), "f.toml:7:9");
  EXPECT_EQ(rows.path(), "memory.tier.0.rows");
  EXPECT_EQ(root.path(), "");
  EXPECT_EQ(parse("\"a b\".c = 1").find("a b")->find("c")->path(), "\"a b\".c");
  EXPECT_EQ(Position{}.text(), "");
}

TEST(Toml, SyntaxErrorsNameThePlace) {
  EXPECT_TRUE(parse_error("a = 1\nb = = 2\n").starts_with("2: f.toml:2:5: "))
      << parse_error("b ==");
  EXPECT_TRUE(parse_error("[model\n").starts_with("2: f.toml:1:7: ")) << parse_error("[model\n");
  EXPECT_TRUE(parse_error("a = \"open\n").starts_with("2: f.toml:1:")) << parse_error("a = \"o\n");
  EXPECT_TRUE(parse_error("a = \"\xff\"").starts_with("2: f.toml:1:"));
  const std::string twice = parse_error("a = 1\na = 2\n");
  EXPECT_TRUE(twice.starts_with("2: f.toml:2:")) << twice;
  EXPECT_NE(twice.find("redefine"), std::string::npos) << twice;
}

TEST(Toml, RefusesDates) {
  EXPECT_EQ(parse_error("x = 1\nwhen = 2020-01-02\n"),
            "2: f.toml:2:8: when: dates and times have no use here: expected a table, an array, a "
            "string, a number or a boolean; quote it to make it a string");
}

TEST(Toml, RefusesDeepNesting) {
  std::string key = "a";
  for (int i = 0; i < 32; ++i) key += ".a";
  EXPECT_EQ(parse_error(key + " = 1"), "no error");
  EXPECT_EQ(parse_error("\n" + key + ".a = 1"),
            "2: f.toml:2:66: too many parts in a key: expected at most 33, got more");
  std::string endless = "[";
  for (int i = 0; i < 1'000'000; ++i) endless += "a .";
  EXPECT_EQ(parse_error(endless + "a]"),
            "2: f.toml:1:100: too many parts in a key: expected at most 33, got more");
  EXPECT_NE(parse_error("[" + key + "]\n" + key + " = 1").find("nested too deeply"),
            std::string::npos);
  EXPECT_NE(parse_error("a = " + std::string(1'000'000, '[')), "no error");
}

TEST(Toml, TheDeepestTextThatTheGuardPassesIsSafe) {
  std::string key = "k";
  for (int i = 0; i < 32; ++i) key += ".k";
  std::string text = "[" + key + "]\n" + key + " = ";
  for (int i = 0; i < 120; ++i) text += "[{ " + key + " = ";
  text += '1';
  for (int i = 0; i < 120; ++i) text += " }]";
  EXPECT_NE(parse_error(text).find("nested too deeply"), std::string::npos) << parse_error(text);
}

TEST(Toml, TheGuardOfKeysSkipsStringsAndComments) {
  const std::string dots(100, '.');
  EXPECT_EQ(
      parse_error("# " + dots + "\na = \"" + dots + "\\\"" + dots + "\"\nb = '" + dots +
                  "'\nc = \"\"\"\n" + dots + "\n\"" + dots + "\"\"\"\nd = '''" + dots + "'''\n"),
      "no error");
  // A quoted part cannot hide a long key behind it.
  std::string hidden = "a";
  for (int i = 0; i < 1000; ++i) hidden += ".\"=\"";
  EXPECT_NE(parse_error(hidden + " = 1").find("too many parts"), std::string::npos);
}

TEST(Toml, TheGuardEndsTextsWhereTheParserDoes) {
  std::string key = "k";
  for (int i = 0; i < 1000; ++i) key += ".k";
  // Quotes before the three at a text's end belong to it; what follows is a comment, and no text
  // that a backslash at the line's end would continue.
  for (const std::string text :
       {"t = \"\"\"x\"\"\"\" # \\\n", "t = \"\"\"x\"\"\"\"\" # \\\n", "t = '''x'''' # \\\n"}) {
    EXPECT_NE(parse_error(text + key + " = 1").find("2:66: too many parts in a key"),
              std::string::npos)
        << text;
    EXPECT_EQ(parse_error(text + "k = 1"), "no error") << text;
  }
}

TEST(Toml, RefusesTablesOfTooManyKeys) {
  std::string keys;
  for (int i = 0; i < 4096; ++i) keys += "k" + std::to_string(i) + " = 1\n";
  EXPECT_EQ(parse_error(keys), "no error");
  EXPECT_NE(parse_error(keys + "more = 1")
                .find("too many keys in a table: expected at most 4096, got 4097"),
            std::string::npos);
}

TEST(Toml, ANumberThatIsNoneEqualsItself) {
  const Value a = parse("x = [nan, inf]"), b = parse("x = [-nan, inf]");
  EXPECT_EQ(a, b);
  EXPECT_FALSE(a == parse("x = [1.0, inf]"));
}

TEST(Toml, FilesKnowTheirFolder) {
  const test::TemporaryFolder folder;
  const auto path = folder.write("e.toml", "a = 1\nb = \n");
  EXPECT_TRUE(error_of([&] {
                static_cast<void>(parse_toml_file(path));
              }).starts_with("2: " + path.string() + ":2:"));
  const Value root = parse_toml_file(folder.write("g.toml", "a = 1\n"));
  EXPECT_EQ(*root.find("a")->position().folder, folder.path());
  EXPECT_EQ(error_of([&] { static_cast<void>(parse_toml_file("no.toml")); }),
            "1: no.toml: cannot open: No such file or directory; check the path");
}

TEST(Toml, WritesValuesThatReadBack) {
  const std::string text =
      "s = \"q\\\" \\\\ \\n\\t\\u0001 \u00e9\"\ni = -9223372036854775808\nr = 0.1\nl = 1e+300\n"
      "n = [inf, -inf]\nb = [true, false]\nt = { \"a b\" = 1, c = {} }\ne = []\n";
  const Value root = parse(text);
  std::string written;
  for (const Member& member : root.members()) {
    written += toml_key(member.key) + " = " + member.value.toml() + "\n";
  }
  EXPECT_EQ(parse(written), root) << written;
  EXPECT_EQ(parse("x = " + root.toml()).members()[0].value, root);
}

TEST(Toml, EqualityIgnoresPlaceAndOrderOnly) {
  EXPECT_EQ(parse("a = 1\nb = 2"), parse("\n b = 2\n a = 1"));
  EXPECT_FALSE(parse("a = 1") == parse("a = 1.0"));
  EXPECT_FALSE(parse("a = 1") == parse("a = 2"));
  EXPECT_FALSE(parse("a = 1") == parse("b = 1"));
  EXPECT_FALSE(parse("a = 1") == parse("a = 1\nb = 1"));
  EXPECT_FALSE(parse("a = [1]") == parse("a = [1, 1]"));
  EXPECT_FALSE(parse("a = \"x\"") == parse("a = \"y\""));
  EXPECT_FALSE(parse("a = true") == parse("a = false"));
}

TEST(Toml, EditsTables) {
  Value root = parse("a = 1\nb = 2\n");
  root.set("a", {}, Value::string("x", {}, "a"));
  root.set("c", {}, Value::boolean(true, {}, "c"));
  EXPECT_EQ(root, parse("a = \"x\"\nb = 2\nc = true"));
  EXPECT_TRUE(root.erase("b"));
  EXPECT_FALSE(root.erase("b"));
  EXPECT_EQ(root.members().size(), 2u);
}

TEST(Toml, HasFlatKeys) {
  std::string text;
  for (const FlatKey& one : flat_keys(
           parse_toml("a = 1\n[b]\nc = [1, 2]\n[[b.d]]\ne = \"x\"\n[[b.d]]\nf = []\n", "text")))
    text += one.key + " = " + one.value.toml() + "\n";
  EXPECT_EQ(text, "a = 1\nb.c = [1, 2]\nb.d.0.e = \"x\"\nb.d.1.f = []\n");
}

TEST(Toml, ReadingAnotherKindIsAMistakeOfOurs) {
  const Value root = parse("a = 1\n");
  EXPECT_THROW(static_cast<void>(root.find("a")->as_string()), std::logic_error);
  EXPECT_THROW(static_cast<void>(root.find("a")->as_boolean()), std::logic_error);
  EXPECT_THROW(static_cast<void>(root.find("a")->items()), std::logic_error);
  EXPECT_THROW(static_cast<void>(root.find("a")->members()), std::logic_error);
  EXPECT_THROW(static_cast<void>(root.as_real()), std::logic_error);
  EXPECT_THROW(static_cast<void>(root.as_integer()), std::logic_error);
}

TEST(Toml, AStringThatIsNotClosedIsSaidToBe) {
  EXPECT_EQ(parse_error("[data]\nvocabulary = \"byte\n[train]\nlr = 1.0\n"),
            "2: f.toml:2:14: the string that begins here is not closed: expected \" before the end "
            "of the line");
  EXPECT_EQ(
      parse_error("a = 'x"),
      "2: f.toml:1:5: the string that begins here is not closed: expected ' before the end of "
      "the line");
  EXPECT_EQ(parse_error("a = 1\nb = \"\"\"x\ny\n"),
            "2: f.toml:2:5: the string that begins here is not closed: expected \"\"\" at its end");
  EXPECT_EQ(parse_error("# it's a comment\na = 1\n"), "no error");
  EXPECT_EQ(parse_error("a = \"it's\"  # it's\n"), "no error");
}

// The last part of the message.
std::string hint(const std::string& text) {
  const std::string error = parse_error(text);
  return error.substr(error.rfind("; ") + 2);
}

TEST(Toml, SyntaxErrorsSayWhatWasMeant) {
  EXPECT_EQ(hint("optimizer = adam"), "a string has quotation marks: optimizer = \"adam\"");
  EXPECT_EQ(hint("train = /data/x.txt  # a file"),
            "a string has quotation marks: train = \"/data/x.txt\"");
  EXPECT_EQ(hint("tie = True"), "write tie = true");
  EXPECT_EQ(hint("tie = no"), "write tie = false");
  EXPECT_EQ(hint("clip = None"), "leave the key out");
  EXPECT_EQ(hint("a = \u201cbyte\u201d"), "write plain quotation marks, \"");
  EXPECT_EQ(hint("lr = 1,5"), "write a decimal point in place of the comma, or a list as [1, 2]");
  EXPECT_EQ(hint("lr = .5"), "write a digit before the decimal point");
  EXPECT_EQ(hint("lr: 1"), "write lr = 1");
  EXPECT_EQ(hint("train: x.txt"), "a string has quotation marks: train = \"x.txt\"");
  EXPECT_EQ(hint("lr =\nb = 1"), "write a value behind the =, or remove the line");
  EXPECT_EQ(hint("// a comment"), "comments begin with #");
  EXPECT_EQ(hint("a = 1\na = 2"), "remove one of the two lines");
  for (const char* path : {"C:\\data", "C:\\Users\\me", "C:\\x"}) {
    EXPECT_EQ(hint(str("a = \"", path, "\"")),
              "write \\\\ for a backslash, or put the text between apostrophes, 'C:\\data'");
  }
  EXPECT_EQ(hint("[m.tier]\na = 1\n[m.tier]\na = 2\n"),
            "of several alike each begins with [[m.tier]]");
}

TEST(Toml, FilesOfAnotherEncodingOrLanguageAreNamed) {
  using namespace std::string_literals;
  EXPECT_EQ(hint("a = 1  # caf\xe9\n"), "convert the file (iconv -t UTF-8)");
  for (const std::string& text : {"\xFF\xFE"
                                  "a\0=\0001\0"s,
                                  "\xFE\xFF\0a\0=\0001"s, "a\0=\0001\0"s, "\0a\0=\0001"s}) {
    EXPECT_EQ(hint(text), "convert the file (iconv -f UTF-16 -t UTF-8)");
  }
  for (const char* text :
       {"{\"data\": {\"train\": \"x\"}}", "\xEF\xBB\xBF{\n  \"data\": {\n", " {"}) {
    EXPECT_EQ(hint(text), "this is JSON and not TOML: write key = value, below [section]") << text;
  }
  for (const char* text : {"data:\n  train: x", "---\na: 1", "a = 1\n- b", "data:  # of mine"}) {
    EXPECT_EQ(hint(text), "this is YAML and not TOML: write key = value, below [section]") << text;
  }
}

TEST(Toml, AFolderOrALibraryIsNoFileOfKeys) {
  const test::TemporaryFolder folder;
  const auto error = [](const std::filesystem::path& path) {
    return error_of([&] { static_cast<void>(parse_toml_file(path)); });
  };
  EXPECT_THAT(error(folder.path()), testing::HasSubstr("expected a TOML file, got a folder"));
  std::filesystem::create_directory(folder / "run");
  const std::filesystem::path run = folder.write("run/experiment.toml", "").parent_path();
  EXPECT_THAT(error(run), testing::AllOf(testing::HasSubstr("got the folder of a run"),
                                         testing::HasSubstr("mneme train --resume ")));
  EXPECT_THAT(error(folder.write("my_memory.so", "\x7f")),
              testing::AllOf(testing::HasSubstr("got a plugin's library"),
                             testing::HasSubstr("[[memory.tier]] with plugin = \"my_memory\"")));
  const std::filesystem::path python = folder.write("my_memory.py", "\"\"\"Means.\"\"\"");
  EXPECT_THAT(error(python),
              testing::AllOf(testing::HasSubstr("got a Python file"),
                             testing::HasSubstr(str("it: a [[memory.tier]] with plugin = \"",
                                                    python.string(), '"'))));
}

}  // namespace
}  // namespace mneme::config
