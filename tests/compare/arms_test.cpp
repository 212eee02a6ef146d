#include "host/compare/arms.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "host/memory/abi/groups.hpp"
#include "tests/base/temporary_folder.hpp"
#include "tests/base/tiny_motif.hpp"

namespace mneme::compare {
namespace {

using test::error_of;
using test::TemporaryFolder;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::string kTiny = test::tiny_experiment();

class Arms : public ::testing::Test {
 protected:
  Arms() : loader_(memory::make_loader()) {}

  std::string cache(const std::string& name, int rows = 16) const {
    return folder_
        .write(name, str("[memory]\nplugins = [\"", MNEME_PLUGIN_DIR,
                         "\"]\n[[memory.tier]]\nplugin = \"xl_cache\"\nrows = ", rows, '\n'))
        .string();
  }
  std::string none() const { return folder_.write("none.toml", "[memory]\n").string(); }

  std::vector<ArmSetup> read(const std::vector<std::string>& words,
                             const std::vector<std::string>& sweeps = {},
                             const std::vector<config::Override>& overrides = {}) {
    std::vector<ArmRequest> memories;
    for (const std::string& word : words) memories.push_back(parse_arm(word));
    std::vector<Sweep> all;
    for (const std::string& word : sweeps) all.push_back(parse_sweep(word));
    return read_arms(folder_.write("tiny.toml", kTiny), memories, overrides, all, loader_);
  }
  static std::vector<std::string> names(const std::vector<ArmSetup>& arms) {
    std::vector<std::string> out;
    for (const ArmSetup& arm : arms) out.push_back(arm.name);
    return out;
  }
  static std::int64_t rows(const ArmSetup& arm) {
    return arm.experiment.memory.tiers.at(0).options.find("rows")->as_integer();
  }

  TemporaryFolder folder_;
  plugin::PluginLoader loader_;
};

TEST_F(Arms, AreNamedAfterTheirFiles) {
  const auto arms = read({none(), none()}, {}, {{"train.lr", "0.01"}});
  EXPECT_THAT(names(arms), ElementsAre("none", "none#2"));
  EXPECT_EQ(arms[1].experiment.train.lr, 0.01);
}

TEST_F(Arms, NeedAMemory) {
  EXPECT_THAT(error_of([&] { static_cast<void>(read({})); }),
              HasSubstr("2: compare: expected at least one --memory FILE"));
}

TEST_F(Arms, HaveSettingsOfTheirOwn) {
  const std::string file = cache("cache.toml");
  const auto arms = read({file, file + ",tier.0.rows=8,train.lr=0.5"});
  EXPECT_THAT(names(arms), ElementsAre("cache", "cache,rows=8,lr=0.5"));
  EXPECT_EQ(rows(arms[0]), 16);
  EXPECT_EQ(rows(arms[1]), 8);
  EXPECT_EQ(arms[1].experiment.train.lr, 0.5);
  EXPECT_NE(arms[0].experiment.train.lr, 0.5);
  EXPECT_THAT(arms[1].settings, ElementsAre("memory.tier.0.rows=8", "train.lr=0.5"));
}

TEST_F(Arms, OfAFileWithACommaInItsName) {
  const auto arms = read({cache("a,b=c.toml")});
  EXPECT_THAT(names(arms), ElementsAre("a,b=c"));
}

TEST_F(Arms, RefuseASettingWithoutAValue) {
  const auto refusal = [](const std::string& word) {
    return error_of([&] { static_cast<void>(parse_arm(word)); });
  };
  EXPECT_EQ(refusal("a.toml,rows"),
            "2: --memory a.toml,rows: expected KEY=VALUE, such as tier.0.rows=64, got \"rows\"");
  EXPECT_EQ(refusal("a.toml,"),
            "2: --memory a.toml,: expected KEY=VALUE, such as tier.0.rows=64, got \"\"");
}

// Nobody typed --set.
TEST_F(Arms, ErrorsNameTheOptionThatWasTyped) {
  EXPECT_EQ(
      error_of([] { static_cast<void>(parse_arm("a.toml,rows=8")); }),
      "2: --memory a.toml,rows=8: no table has the key rows: expected the key with its "
      "table; an option of the first tier has tier.0. before it, as tier.0.rows, and a key of "
      "the training train., as train.lr");
  const std::string file = cache("cache.toml");
  EXPECT_THAT(error_of([&] { static_cast<void>(read({file + ",carry=keep"})); }),
              HasSubstr("2: --memory " + file + ",memory.carry: expected \"refuse\" | \"reset\""));
  EXPECT_THAT(error_of([&] { static_cast<void>(read({file}, {"train.lr=1e-3,fast"})); }),
              HasSubstr("2: --sweep train.lr: expected a real number"));
  EXPECT_THAT(error_of([&] { static_cast<void>(read({none() + ",tier.0.rows=8"})); }),
              HasSubstr("none.toml,memory.tier.0.rows: the memory has no tier"));
}

TEST_F(Arms, OfASweepAreOneForEachValue) {
  const auto arms = read({none(), cache("cache.toml")}, {"tier.0.rows=8,16,32"});
  EXPECT_THAT(names(arms), ElementsAre("none", "cache,rows=8", "cache,rows=16", "cache,rows=32"));
  EXPECT_EQ(rows(arms[1]), 8);
  EXPECT_EQ(rows(arms[3]), 32);
}

TEST_F(Arms, OfTwoSweepsAreAllCombinations) {
  const auto arms = read({cache("cache.toml")}, {"tier.0.rows=8,16", "train.lr=1e-3,2e-3"});
  EXPECT_THAT(names(arms), ElementsAre("cache,rows=8,lr=1e-3", "cache,rows=8,lr=2e-3",
                                       "cache,rows=16,lr=1e-3", "cache,rows=16,lr=2e-3"));
  EXPECT_EQ(arms[1].experiment.train.lr, 2e-3);
}

TEST_F(Arms, RefuseASweepOverAKeyThatNoArmHas) {
  for (const std::string sweep : {"tier.1.rows=8,16", "tier.0.bases=8,16", "tier.x.rows=1,2"}) {
    EXPECT_THAT(error_of([&] {
                  static_cast<void>(read({none(), cache("c.toml")}, {sweep}));
                }),
                HasSubstr("2: --sweep memory." + sweep.substr(0, sweep.find('=')) +
                          ": no arm has this key"))
        << sweep;
  }
}

TEST_F(Arms, RefuseSweepsWithMissingOrEqualValues) {
  EXPECT_THAT(error_of([] { static_cast<void>(parse_sweep("tier.0.rows=8,,9")); }),
              HasSubstr("2: --sweep tier.0.rows=8,,9: a value is missing"));
  EXPECT_THAT(error_of([] { static_cast<void>(parse_sweep("tier.0.rows=8,8")); }),
              HasSubstr("the value 8 stands there twice"));
  EXPECT_THAT(error_of([] { static_cast<void>(parse_sweep("tier.0.rows")); }),
              HasSubstr("2: --sweep tier.0.rows: expected KEY=VALUE"));
}

TEST(Sweeps, KeepListsAndTextsWhole) {
  const Sweep sweep = parse_sweep("tier.0.layers=[0,1],[2,3]");
  EXPECT_EQ(sweep.key, "memory.tier.0.layers");
  EXPECT_THAT(sweep.values, ElementsAre("[0,1]", "[2,3]"));
  EXPECT_THAT(parse_sweep("train.schedule=\"a,b\",c").values, ElementsAre("\"a,b\"", "c"));
  EXPECT_EQ(parse_sweep("train.lr=1,2").key, "train.lr");
}

TEST(FolderName, HoldsNothingThatAShellTakesApart) {
  EXPECT_EQ(folder_name("cache,rows=8"), "cache,rows=8");
  EXPECT_EQ(folder_name("a b/c$(d)"), "a_b_c__d_");
  EXPECT_EQ(folder_name("../x"), "_._x");
  EXPECT_EQ(folder_name(std::string(300, 'n')), std::string(120, 'n'));
  std::string accented(119, 'n');
  accented.append("\u00e9\u00e9");  // two bytes each
  EXPECT_EQ(folder_name(accented), std::string(119, 'n'));
  EXPECT_EQ(folder_name("caf\u00e9 caf\xe9"), "caf\u00e9_caf_");  // comparison.json holds UTF-8
}

}  // namespace
}  // namespace mneme::compare
