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

}  // namespace
}  // namespace mneme::config
