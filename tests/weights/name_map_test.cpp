#include "host/weights/name_map.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "host/base/error.hpp"
#include "host/base/text.hpp"
#include "host/weights/names.hpp"
#include "tests/backbone/support.hpp"
#include "tests/base/temporary_folder.hpp"

namespace mneme::backbone {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kHead = "format = \"other\"\nplugin = \"org.x.y\"\n";

constexpr const char* kMap = R"(format = "other"
plugin = "org.x.y"
position = ["disentangled", "none"]

[backbone]
"layers.{layer}.attention.qkv.weight" = [
  { name = "blocks.{layer}.q", rows = 1 },
  { name = "blocks.{layer}.kv", rows = 2 },
]
"attention.content_bias" = "u"

[memory]
"model.ahead" = "w"
"{layer}.gain" = "blocks.{layer}.gain"

[unused]
"blocks.{layer}.zero" = { shape = [1, 2], value = 0.5 }
"stamp" = { shape = [3] }

[[argument]]
name = "kind"
value = 3
[[argument]]
name = "kind"
value = "wide"
when = { wide = true, rows = 4 }
)";

class NameMapTest : public testing::Test {
 protected:
  weights::NameMap read(const std::string& text) const {
    return weights::NameMap::read(folder_.write("x.names.toml", text));
  }
  std::string error(const std::string& text) const {
    return error_of([&] { static_cast<void>(read(text)); });
  }
  static config::Value options(const std::string& text) { return config::parse_toml(text, "o"); }

  test::TemporaryFolder folder_;
};

TEST_F(NameMapTest, CutsAParameterIntoParts) {
  const weights::NameMap map = read(kMap);
  EXPECT_EQ(map.format, "other");
  EXPECT_EQ(map.plugin, "org.x.y");
  const auto parts =
      weights::official_parts("layers.12.attention.qkv.weight", {24, 8}, small_config(), &map);
  ASSERT_EQ(parts.size(), 2U);
  EXPECT_EQ(parts[0].names, std::vector<std::string>{"blocks.12.q"});
  EXPECT_EQ(parts[0].first, 0);
  EXPECT_EQ(parts[0].rows, 8);
  EXPECT_EQ(parts[1].names, std::vector<std::string>{"blocks.12.kv"});
  EXPECT_EQ(parts[1].first, 8);
  EXPECT_EQ(parts[1].rows, 16);
  const auto bias = weights::official_parts("attention.content_bias", {2, 4}, small_config(), &map);
  ASSERT_EQ(bias.size(), 1U);
  EXPECT_EQ(bias[0].names, std::vector<std::string>{"u"});
  EXPECT_EQ(bias[0].rows, 2);
}

TEST_F(NameMapTest, LeavesWhatItDoesNotNameToTheOfficialTransformerXl) {
  const weights::NameMap map = read(kMap);
  const auto parts = weights::official_parts("embedding.0.weight", {11, 8}, small_config(), &map);
  ASSERT_EQ(parts.size(), 1U);
  EXPECT_EQ(parts[0].names,
            (std::vector<std::string>{"word_emb.emb_layers.0.weight", "crit.out_layers.0.weight"}));
  EXPECT_EQ(parts[0].rows, 11);
  EXPECT_TRUE(weights::official_parts("position.embedding", {6, 8}, small_config(), &map).empty());
}

TEST_F(NameMapTest, RefusesRowsThatCannotBeCut) {
  const weights::NameMap map = read(kMap);
  const std::string text = error_of([&] {
    weights::official_parts("layers.0.attention.qkv.weight", {25, 8}, small_config(), &map);
  });
  EXPECT_THAT(text, HasSubstr("layers.0.attention.qkv.weight: the rows cannot be cut"));
  EXPECT_THAT(text, HasSubstr("expected a multiple of 3 rows, got 25"));
}

TEST_F(NameMapTest, NamesTheParametersOfItsPluginsTier) {
  const weights::NameMap map = read(kMap);
  EXPECT_EQ(map.name_of_tier_parameter("memory.0.org.x.y.model.ahead"), "w");
  EXPECT_EQ(map.name_of_tier_parameter("memory.13.org.x.y.7.gain"), "blocks.7.gain");
  for (const char* name : {"memory.0.org.x.z.model.ahead", "memory.0.org.x.y.model.other",
                           "memory.0.org.x.y.x.gain", "layers.0.gain", "memory.0"}) {
    EXPECT_EQ(map.name_of_tier_parameter(name), "") << name;
  }
}

TEST_F(NameMapTest, ListsUnusedTensorsOfEveryLayer) {
  const auto unused = read(kMap).unused(2);
  ASSERT_EQ(unused.size(), 3U);
  EXPECT_EQ(unused[1].official, "blocks.1.zero");
  EXPECT_EQ(unused[1].shape, (std::vector<std::int64_t>{1, 2}));
  EXPECT_EQ(unused[1].value, 0.5);
  EXPECT_EQ(unused[2].official, "stamp");
  EXPECT_EQ(unused[2].value, 0.0);
}

TEST_F(NameMapTest, TheLastArgumentWhoseConditionsHoldCounts) {
  const weights::NameMap map = read(kMap);
  EXPECT_EQ(map.arguments(options("")).at("kind"), 3);
  EXPECT_EQ(map.arguments(options("wide = true")).at("kind"), 3);
  EXPECT_EQ(map.arguments(options("wide = true\nrows = 5")).at("kind"), 3);
  EXPECT_EQ(map.arguments(options("wide = true\nrows = 4")).at("kind"), "wide");
}

TEST_F(NameMapTest, DoesNotHoldForTheOptionsOfUnless) {
  const weights::NameMap map = read(std::string(kHead) + "unless = { wide = false, rows = 4 }\n");
  EXPECT_TRUE(map.excludes(options("wide = false\nrows = 4\nmore = 1")));
  EXPECT_FALSE(map.excludes(options("wide = false")));
  EXPECT_FALSE(map.excludes(options("wide = true\nrows = 4")));
  EXPECT_FALSE(read(kHead).excludes(options("wide = false")));
}

TEST_F(NameMapTest, KnowsItsOwnNames) {
  const weights::NameMap map = read(kMap);
  for (const char* name : {"blocks.3.q", "u", "w", "blocks.0.gain", "blocks.10.zero", "stamp"}) {
    EXPECT_TRUE(map.has_own(name)) << name;
  }
  for (const char* name : {"blocks.q", "blocks..q", "blocks.x.q", "r_w_bias", "blocks.{layer}.q"}) {
    EXPECT_FALSE(map.has_own(name)) << name;
  }
}

TEST_F(NameMapTest, SaysWhichPositionsItsCodeHas) {
  config::ModelConfig c = small_config();
  const weights::NameMap map = read(kMap);
  EXPECT_EQ(weights::unofficial_settings(c, &map),
            (std::vector<std::string>{"model.position: expected \"disentangled\" or \"none\", got "
                                      "\"relative\""}));
  c.position = config::PositionScheme::kNone;
  EXPECT_TRUE(weights::unofficial_settings(c, &map).empty());
  const weights::NameMap plain = read(kHead);
  EXPECT_EQ(plain.positions, std::vector<std::string>{"relative"});
}

TEST_F(NameMapTest, IsFoundBesideALibrary) {
  folder_.write("thing.names.toml", kHead);
  EXPECT_EQ(weights::NameMap::beside(folder_ / "thing.so")->format, "other");
  EXPECT_FALSE(weights::NameMap::beside(folder_ / "another.so").has_value());
}

TEST_F(NameMapTest, SaysEverythingThatIsWrong) {
  const std::string text = error(R"(position = ["sideways"]
colour = 1
[backbone]
"a.{layer}" = "b"
"c" = [{ rows = 0 }]
"d" = []
"e" = [4]
"softmax.{layer}.weight" = [{ name = "s.{layer}", rows = 9223372036854775807 }]
[memory]
"f" = "g.{layer}"
"h" = 2
[unused]
"i" = 3
"j" = { value = 1.0 }
"k" = { shape = [4000000000, 4] }
"l" = { shape = [65536, 65536] }
[[argument]]
value = [1]
)");
  for (const char* part : {"format: ",
                           "a word for the format",
                           "plugin: ",
                           "the plugin's id",
                           "words of model.position: relative, disentangled",
                           "\"sideways\"",
                           "colour",
                           "a name with {layer}",
                           "c.0.name",
                           "c.0.rows",
                           "an official name, or a list of",
                           "e.0",
                           "a table { name, rows }",
                           "expected an integer in [1, 1048576], got 9223372036854775807",
                           "a name without {layer}",
                           "memory.h",
                           "a table { shape, value }",
                           "unused.j.shape",
                           "k.shape.0: expected an integer in [1, 2147483648], got 4000000000",
                           "l.shape: expected at most 2147483648 numbers, got [65536, 65536]",
                           "argument.0.name",
                           "a number, a boolean or a string"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
  EXPECT_THAT(text, HasSubstr("x.names.toml:4:"));
}

TEST_F(NameMapTest, GivesEveryNameOneMeaning) {
  const std::string text = error(R"([backbone]
"layers.{layer}.attention.qvk.weight" = "v.{layer}"
"c" = "c"
"softmax.{layer}.weight" = [{ name = "s.{layer}.{layer}" }, { name = "t.{layer}" }]
"attention.content_bias" = "w"
"attention.position_bias" = "w"
"embedding.{layer}.weight" = "word_emb.emb_projs.{layer}"
"layers.{layer}.ff.in.bias" = "layers.{layer}.pos_ff.CoreNet.0.bias"
"position.embedding" = "positions"
[memory]
"k.{layer}.{layer}" = "k.{layer}"
"l" = "t.3"
[unused]
"pos_emb.inv_freq" = { shape = [1] }
)");
  for (const char* part :
       {"x.names.toml:2:1: ",
        "no backbone has such a parameter (did you mean \"layers.{layer}.attention.qkv.weight\"?)",
        "x.names.toml:3:1: backbone.c: no backbone has such a parameter",
        "`mneme inspect CHECKPOINT` lists a model's parameters",
        "softmax.{layer}.weight\".0: expected names with {layer} once, or without",
        "attention.position_bias\": the official name \"w\" is given before at ",
        "x.names.toml:5:28", "the official name \"word_emb.emb_projs.{layer}\" is Transformer-XL's",
        "of embedding.0.projection, to which [backbone] gives no other",
        "k.{layer}.{layer}\": expected names with {layer} once, or without",
        "memory.l: the official name \"t.3\" is given before at ",
        "the official name \"pos_emb.inv_freq\" is written for every model"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
  EXPECT_THAT(text, Not(HasSubstr("toml:8:"))) << "Transformer-XL's own name";
  EXPECT_THAT(text, Not(HasSubstr("toml:9:"))) << "a parameter that Transformer-XL lacks";
}

// A map can name whatever a backbone has.
TEST_F(NameMapTest, TakesEveryParameterOfABackbone) {
  config::ModelConfig adaptive = small_config(), learned = small_config();
  adaptive.embedding = 8;
  adaptive.tie_embedding = false;
  adaptive.adaptive = config::AdaptiveConfig{{4}, 2, 8, {false, false}};
  adaptive.untie_position_bias = true;
  learned.position = config::PositionScheme::kLearned;
  for (const config::ModelConfig& config : {small_config(), adaptive, learned}) {
    std::string text = str(kHead, "[backbone]\n");
    const auto model = make_model(config, small_setup());
    for (const Parameter& parameter : model->parameters()) {
      text += str('"', parameter.name, "\" = \"x.", parameter.name, "\"\n");
    }
    EXPECT_EQ(error(text), "");
  }
}

TEST_F(NameMapTest, SaysThatAFileIsMissing) {
  EXPECT_THAT(error_of([&] { static_cast<void>(weights::NameMap::read(folder_ / "absent.toml")); }),
              HasSubstr("absent.toml"));
}

}  // namespace
}  // namespace mneme::backbone
