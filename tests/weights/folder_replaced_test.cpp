// Model folders into runs whose memory replaces the attention of some layers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "host/run/run_folder.hpp"
#include "host/weights/pretrained/export_folder.hpp"
#include "host/weights/pretrained/import_folder.hpp"
#include "tests/base/temporary_folder.hpp"
#include "tests/weights/folder_support.hpp"

namespace mneme::weights {
namespace {

using ::testing::HasSubstr;

class FolderReplaced : public testing::Test {
 protected:
  void SetUp() override { test::write_folder(folder_ / "model", test::small_llama()); }

  // Imports with a tier that serves layer 1.
  void import(const std::string& tier, std::vector<std::string> ignored = {}) const {
    const std::string text =
        "[memory]\nplugins = [\"" MNEME_BINARY_DIR
        "/tests/abi_plugins\"]\n[[memory.tier]]\nlayers = [1]\nplugin = " +
        tier + "\n[data]\ntask = \"tokens\"\ntrain = \"ids\"\n[train]\nsteps = 1\nsegment = 4\n";
    FolderImportOptions options{.run = folder_ / "run", .ignored = std::move(ignored)};
    options.experiment = folder_.write("experiment.toml", text);
    static_cast<void>(import_folder(folder_ / "model", options));
  }

  test::TemporaryFolder folder_;
};

TEST_F(FolderReplaced, PassesOverTheAttentionThatIsReplaced) {
  const std::string tier = "\"test_retention\"\nown = true";
  EXPECT_THAT(test::error_of([&] { import(tier); }),
              HasSubstr("model.layers.1.self_attn.q_proj.weight: unexpected: the model has no such "
                        "parameter"));
  std::vector<std::string> ignored;
  for (const char* const name : {"q_proj", "k_proj", "v_proj", "o_proj"})
    ignored.push_back(str("model.layers.1.self_attn.", name, ".weight"));
  import(tier, ignored);
  const run::Checkpoint checkpoint =
      run::Checkpoint::open(run::RunFolder::open(folder_ / "run").checkpoint());
  EXPECT_NE(checkpoint.file().find("model.layers.0.attention.qkv.weight"), nullptr);
  EXPECT_EQ(checkpoint.file().find("model.layers.1.attention.qkv.weight"), nullptr);
  EXPECT_NE(checkpoint.file().find("memory.0.test.retention.1.query"), nullptr);
  EXPECT_THAT(
      test::error_of([&] { static_cast<void>(export_folder(checkpoint, folder_ / "out", "")); }),
      HasSubstr("layer 1 has no attention: the memory replaces it"));
}

// All tensors are those of the folder, but no other program has the layer.
TEST_F(FolderReplaced, AreNoFoldersAgainThoughTheProjectionsAreTheirs) {
  import("\"test_retention\"\nvalue_width = 4");
  const run::Checkpoint checkpoint =
      run::Checkpoint::open(run::RunFolder::open(folder_ / "run").checkpoint());
  EXPECT_NE(checkpoint.file().find("model.layers.1.attention.qkv.weight"), nullptr);
  for (const char* const family : {"", "llama"}) {
    EXPECT_THAT(test::error_of(
                    [&] { static_cast<void>(export_folder(checkpoint, folder_ / "out", family)); }),
                HasSubstr("layer 1 has no attention: the memory replaces it"));
  }
}

// 2 heads of queries and 1 of keys and values: 4 rows each in the folder, 4 and 3 in the tier.
TEST_F(FolderReplaced, RefusesProjectionsOfOtherWidths) {
  EXPECT_THAT(test::error_of([&] { import("\"test_retention\""); }),
              HasSubstr("layers.1.attention.qkv.weight: a memory that replaces the attention wants "
                        "another projection than models of this family have: expected 16 rows, got "
                        "15"));
}

}  // namespace
}  // namespace mneme::weights
