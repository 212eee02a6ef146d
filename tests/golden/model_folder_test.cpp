// Model folders of Hugging Face as runs and out again, byte for byte. Whatever folders lie in
// tests/golden/decoder; skipped when there is none.
#include "host/weights/pretrained/model_folder.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <vector>

#include "host/base/error.hpp"
#include "host/base/file/file.hpp"
#include "host/base/text.hpp"
#include "host/run/run_folder.hpp"
#include "host/weights/pretrained/export_folder.hpp"
#include "host/weights/pretrained/import_folder.hpp"
#include "tests/base/temporary_folder.hpp"

namespace mneme {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> decoder_folders() {
  std::vector<fs::path> out;
  std::error_code ignored;
  for (const auto& entry :
       fs::directory_iterator(fs::path(MNEME_SOURCE_DIR) / "tests/golden/decoder", ignored)) {
    if (fs::exists(entry.path() / weights::kConfigName)) out.push_back(entry.path());
  }
  return out;
}

// The files that an export writes; beside them lie the golden values.
bool belongs_to_model(const fs::path& file) {
  const std::string name = file.filename().string();
  return name == weights::kConfigName || name == "generation_config.json" ||
         name.starts_with("model");
}

void expect_same_files(const fs::path& source, const fs::path& exported) {
  std::size_t compared = 0;
  for (const auto& entry : fs::directory_iterator(source)) {
    if (!belongs_to_model(entry.path())) continue;
    const fs::path other = exported / entry.path().filename();
    ASSERT_TRUE(fs::exists(other)) << other;
    EXPECT_TRUE(read_file(entry.path()) == read_file(other)) << entry.path() << " differs";
    ++compared;
  }
  EXPECT_GE(compared, 2U) << source;
  EXPECT_EQ(static_cast<std::size_t>(std::distance(fs::directory_iterator(exported), {})),
            compared);
}

void expect_round_trip(const fs::path& source, const fs::path& config) {
  const test::TemporaryFolder folder;
  const fs::path model = folder / "model";
  fs::create_directory(model);
  for (const auto& entry : fs::directory_iterator(source)) {
    if (belongs_to_model(entry.path())) fs::copy(entry.path(), model);
  }
  fs::copy(config, model / weights::kConfigName, fs::copy_options::overwrite_existing);
  static_cast<void>(weights::import_folder(model, {.run = folder / "run"}));
  const auto run = run::RunFolder::open(folder / "run");
  static_cast<void>(
      weights::export_folder(run::Checkpoint::open(run.checkpoint()), folder / "out"));
  expect_same_files(model, folder / "out");
}

TEST(GoldenModelFolder, AnExportEqualsTheImportedFolder) {
  const std::vector<fs::path> folders = decoder_folders();
  ASSERT_FALSE(folders.empty()) << "no folders in tests/golden/decoder";
  for (const fs::path& source : folders) {
    for (const char* config : {"config.json", "config_v4.json"}) {
      if (!fs::exists(source / config)) continue;
      SCOPED_TRACE((source / config).string());
      expect_round_trip(source, source / config);
    }
  }
}

}  // namespace
}  // namespace mneme
