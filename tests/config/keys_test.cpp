// The list of keys that people read is the one that the readers ask for.
#include "host/config/keys.hpp"

#include <gmock/gmock.h>

#include <algorithm>

#include "tests/config/experiment_texts.hpp"

namespace mneme::config {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Not;

const TableInfo& table(const std::string& name) {
  for (const TableInfo& each : experiment_keys()) {
    if (each.name == name) return each;
  }
  throw std::runtime_error("no table " + name);
}

const KeyInfo& key(const std::string& table_name, const std::string& name) {
  for (const KeyInfo& each : table(table_name).keys) {
    if (each.key == name) return each;
  }
  throw std::runtime_error("no key " + name + " in " + table_name);
}

TEST(Keys, EveryKeyHasItsTypeDefaultAndMeaning) {
  EXPECT_EQ(experiment_keys().size(), 11u);
  for (const TableInfo& each : experiment_keys()) {
    EXPECT_THAT(each.keys, Not(IsEmpty())) << each.name;
    for (const KeyInfo& one : each.keys) {
      EXPECT_THAT(one.type, Not(IsEmpty())) << each.name << one.key;
      EXPECT_THAT(one.fallback, Not(IsEmpty())) << each.name << one.key;
      EXPECT_THAT(one.text, Not(IsEmpty())) << each.name << one.key;
    }
  }
}

TEST(Keys, HoldWhatAFileWithEveryKeyHolds) {
  const Experiment experiment = parse(
      "[model.adaptive]\ncutoffs = [4]\n[memory]\nplugins = [\"p\"]\n[[memory.tier]]\n"
      "plugin = \"p\"\nlayers = [0]\nlr = 1.0\nweight_decay = 0.0\n[[train.group]]\n"
      "parameters = [\"*\"]\nlr = 1.0\nweight_decay = 0.0\n[[train.accumulate_from]]\n"
      "step = 1\nsegments = 1\n" +
      kMotif);
  const Value root = parse_toml(to_toml(experiment), "written");
  const auto known = [](const std::string& name, const Value& written) {
    for (const Member& member : written.members()) {
      EXPECT_NO_THROW(static_cast<void>(key(name, member.key))) << name << ' ' << member.key;
    }
  };
  for (const Member& member : root.members()) known('[' + member.key + ']', member.value);
  known("[model.adaptive]", *root.find("model")->find("adaptive"));
  known("[[memory.tier]]", root.find("memory")->find("tier")->items().at(0));
  known("[[train.group]]", root.find("train")->find("group")->items().at(0));
  known("[[train.accumulate_from]]", root.find("train")->find("accumulate_from")->items().at(0));
}

TEST(Keys, SayRangesDefaultsAndWords) {
  EXPECT_EQ(key("[model]", "layers").type, "an integer in [1, 4096]");
  EXPECT_EQ(key("[model]", "layers").fallback, "4");
  EXPECT_EQ(key("[model]", "head_width").fallback, "width / heads");
  EXPECT_EQ(key("[model]", "dropout").type, "a real number in [0, 1)");
  EXPECT_EQ(key("[model]", "norm").type, "\"post\" | \"pre\" | \"sandwich\"");
  EXPECT_EQ(key("[model]", "norm").fallback, "post; decoder, gpt2: pre");
  EXPECT_EQ(key("[model]", "tie_embedding").fallback, "true");
  EXPECT_EQ(key("[data]", "task").fallback, "required");
  EXPECT_EQ(key("[[memory.tier]]", "plugin").fallback, "required");
  EXPECT_EQ(key("[[train.group]]", "parameters").fallback, "required");
}

TEST(Keys, SayWhatDependsOnTheTask) {
  EXPECT_THAT(key("[data]", "period_min").tasks, ElementsAre("motif"));
  EXPECT_THAT(key("[data]", "min_count").tasks, ElementsAre("text", "dialogue", "questions"));
  EXPECT_THAT(key("[data]", "pairs").tasks, ElementsAre("mqar", "retention", "in_context_recall"));
  EXPECT_EQ(key("[data]", "length").fallback,
            "4000 (sorting); 20 (digit_sorting); 8 (copy); 64 (selective_copy, mqar); 96 (needle); "
            "32 (state_tracking, memorization); 128 (in_context_recall, ngrams)");
  EXPECT_EQ(key("[data]", "alphabet").fallback,
            "16 (motif, copy, selective_copy); 20 (sorting); 10 (digit_sorting); 32 (needle); 4 "
            "(ngrams)");
  EXPECT_THAT(key("[data]", "reset").tasks, IsEmpty());
  EXPECT_EQ(key("[eval]", "steps").fallback,
            "0 (text, tokens, sorting, digit_sorting, copy, selective_copy, needle, mqar, "
            "document_recall, retention, state_tracking, in_context_recall, memorization, ngrams, "
            "dialogue, questions); 50 (motif)");
}

}  // namespace
}  // namespace mneme::config
