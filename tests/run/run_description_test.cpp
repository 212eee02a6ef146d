#include "host/run/run_description.hpp"

#include <gtest/gtest.h>

namespace mneme::run {
namespace {

memory::TierIdentity plugin(const std::string& id, const std::string& version,
                            const std::string& sha256) {
  memory::TierIdentity out;
  out.id = id;
  out.version = version;
  out.path = id + ".so";
  out.sha256 = sha256;
  return out;
}

TEST(ModelDifferences, AreValuesThatChangeLosses) {
  const auto model = [](const std::string& keys) {
    return config::parse_toml("[model]\n" + keys, "experiment");
  };
  const auto found = model_differences(
      model("layers = 2\nclamp_distance = 0\nrow_kernels = \"on\"\n"),
      model("layers = 2\nclamp_distance = 1\nrow_kernels = \"off\"\nsame_length = true\n"));
  ASSERT_EQ(found.size(), 1U);
  EXPECT_TRUE(found.front().is_chosen);
  EXPECT_EQ(found.front().text(),
            "model.clamp_distance is not what the run was trained with: expected 0, got 1");
}

TEST(PluginDifferences, NameTwoBuildsByVersionAndSum) {
  const auto found = plugin_differences({plugin("org.example.a", "1.0.0", "ab")},
                                        {plugin("org.example.a", "1.1.0", "cd")});
  ASSERT_EQ(found.size(), 1U);
  EXPECT_FALSE(found.front().is_chosen);
  EXPECT_EQ(found.front().text(),
            "plugin org.example.a (org.example.a.so) is not what the run was trained with: "
            "expected 1.0.0, sha256 ab, got 1.1.0, sha256 cd");
}

// Two plugins are compared as plugins: an id on one side and a version on the other say nothing.
TEST(PluginDifferences, NameTwoPluginsInTheSameWay) {
  const auto found = plugin_differences({plugin("org.example.a", "1.0.0", "ab")},
                                        {plugin("org.example.b", "2.0.0", "cd")});
  ASSERT_GE(found.size(), 1U);
  EXPECT_TRUE(found.front().is_chosen);
  EXPECT_EQ(found.front().text(),
            "plugin org.example.b (org.example.b.so) is not what the run was trained with: "
            "expected org.example.a 1.0.0, sha256 ab, got org.example.b 2.0.0, sha256 cd");
  const auto unrecorded = plugin_differences({plugin("org.example.a", "1.0.0", "")},
                                             {plugin("org.example.b", "2.0.0", "cd")});
  ASSERT_GE(unrecorded.size(), 1U);
  EXPECT_EQ(unrecorded.front().expected, "org.example.a 1.0.0");
}

}  // namespace
}  // namespace mneme::run
