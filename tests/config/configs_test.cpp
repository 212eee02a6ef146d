// The files of configs/ are examples that must stay true.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "host/base/text.hpp"
#include "host/config/experiment.hpp"

namespace mneme::config {
namespace {

namespace fs = std::filesystem;

const fs::path kConfigs = fs::path(MNEME_SOURCE_DIR) / "configs";

TEST(Configs, EveryFileParses) {
  int files = 0;
  for (const auto& entry : fs::recursive_directory_iterator(kConfigs)) {
    if (entry.path().extension() != ".toml") continue;
    ++files;
    if (entry.path().parent_path().filename() == "memory") {
      EXPECT_NO_THROW(static_cast<void>(parse_memory_file(entry.path()))) << entry.path();
    } else {
      EXPECT_NO_THROW(static_cast<void>(parse_experiment(entry.path()))) << entry.path();
    }
  }
  EXPECT_GE(files, 3);
}

TEST(Configs, TheQuickstartRunsWithAndWithoutMemory) {
  const fs::path quickstart = kConfigs / "quickstart.toml";
  const Experiment none = parse_experiment(quickstart, {}, kConfigs / "memory/none.toml");
  EXPECT_TRUE(none.memory.tiers.empty());
  EXPECT_GT(none.data.motif.period_max, none.train.segment) << "nothing lies outside a segment";
  const Experiment cached = parse_experiment(quickstart, {}, kConfigs / "memory/xl_cache.toml");
  ASSERT_EQ(cached.memory.tiers.size(), 1u);
  ASSERT_EQ(cached.memory.plugins.size(), 1u);
  EXPECT_EQ(cached.memory.plugins[0], (kConfigs / "../build/release/plugins").lexically_normal());
}

// The rows of reference tables: L, D, H x d, ff, segment, rows, lanes, steps.
void expect_published(const Experiment& e, const std::vector<std::int64_t>& expected) {
  const std::vector<std::int64_t> got = {e.model.layers,
                                         e.model.width,
                                         e.model.heads,
                                         e.model.head_width,
                                         e.model.ff,
                                         e.train.segment,
                                         e.memory.tiers.at(0).options.find("rows")->as_integer(),
                                         e.train.lanes,
                                         e.train.steps};
  EXPECT_EQ(got, expected);
  EXPECT_EQ(e.train.optimizer, Optimizer::kAdam);
  EXPECT_EQ(e.train.lr, 2.5e-4);
  EXPECT_EQ(e.train.clip, 0.25);
  EXPECT_EQ(e.train.weight_decay, 0.0);
  EXPECT_EQ(e.model.dropout, 0.1);
  EXPECT_EQ(e.eval.lanes, 10);
  EXPECT_EQ(e.data.reset, Reset::kNever) << "the official code does not separate documents";
}

TEST(Configs, TransformerXlIsTrainedAsPublished) {
  const Experiment wt103 = parse_experiment(kConfigs / "wt103_base.toml");
  expect_published(wt103, {16, 410, 10, 41, 2100, 150, 150, 60, 200000});
  ASSERT_TRUE(wt103.model.adaptive.has_value());
  EXPECT_EQ(wt103.model.adaptive->cutoffs, (std::vector<std::int64_t>{20000, 40000, 200000}));
  EXPECT_EQ(wt103.model.adaptive->div, 1);
  EXPECT_EQ(wt103.data.vocabulary_size, 267735);
  const Experiment enwik8 = parse_experiment(kConfigs / "enwik8.toml");
  expect_published(enwik8, {12, 512, 8, 64, 2048, 512, 512, 22, 400000});
}

// The switches of the published evaluations, as the files' comments name them.
TEST(Configs, TransformerXlIsEvaluatedAsPublished) {
  const auto at = [](const char* file, std::vector<std::string> texts) {
    std::vector<Override> overrides;
    for (const std::string& text : texts) overrides.push_back(parse_override(text));
    return parse_experiment(kConfigs / file, overrides);
  };
  const Experiment wt103 =
      at("wt103_base.toml", {"eval.segment=64", "model.same_length=true",
                             "model.clamp_distance=400", "memory.tier.0.eval_rows=640"});
  EXPECT_EQ(wt103.eval.segment, 64);
  EXPECT_TRUE(wt103.model.same_length);
  EXPECT_EQ(wt103.model.clamp_distance, 400);
  EXPECT_EQ(wt103.memory.tiers.at(0).eval_options.find("rows")->as_integer(), 640);
  const Experiment enwik8 =
      at("enwik8.toml", {"eval.segment=80", "model.same_length=true", "model.clamp_distance=820",
                         "memory.tier.0.eval_rows=2100"});
  EXPECT_EQ(enwik8.memory.tiers.at(0).eval_options.find("rows")->as_integer(), 2100);
}

}  // namespace
}  // namespace mneme::config
