#include "host/run/checkpoint/checkpoint_files.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/base/temporary_folder.hpp"

namespace mneme::train {
namespace {

using test::error_of;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

class Files {
 public:
  explicit Files(const std::vector<std::int64_t>& steps) : files(folder_.path()) {
    for (const std::int64_t step : steps)
      folder_.write(files.path_of(step).filename().string(), "");
  }
  const test::TemporaryFolder& folder() const { return folder_; }

 private:
  test::TemporaryFolder folder_;

 public:
  run::CheckpointFiles files;
};

TEST(CheckpointFiles, AreNamedByTheirStep) {
  EXPECT_EQ(run::CheckpointFiles("run/checkpoints").path_of(50),
            "run/checkpoints/step_00000050.safetensors");
  EXPECT_EQ(run::CheckpointFiles("c").path_of(1234567890), "c/step_1234567890.safetensors");
}

TEST(CheckpointFiles, ListsThemRisingAndNothingElse) {
  const Files some({1000000000, 20, 3});
  for (const char* const name :
       {"step_4.safetensors", "step_0000000x.safetensors", "best.safetensors",
        ".step_00000005.safetensors.7-0.tmp", "step_.safetensors", "step_00000006.txt",
        "step_-0000007.safetensors", "step_000000008.safetensors"}) {
    some.folder().write(name, "");
  }
  EXPECT_THAT(some.files.steps(), ElementsAre(3, 20, 1000000000));
  EXPECT_EQ(some.files.list(), "3, 20, 1000000000");
  EXPECT_THAT(run::CheckpointFiles("absent").steps(), IsEmpty());
  EXPECT_EQ(run::CheckpointFiles("absent").list(), "none");
}

TEST(CheckpointFiles, NamesAFolderThatCannotBeRead) {
  const test::TemporaryFolder folder;
  const run::CheckpointFiles files(folder.write("checkpoints", "a file"));
  EXPECT_THAT(error_of([&] { static_cast<void>(files.steps()); }),
              AllOf(StartsWith("1: "), HasSubstr(files.folder().string()),
                    HasSubstr("the checkpoints cannot be listed"), HasSubstr("got a file")));
}

TEST(CheckpointFiles, KeepsTheNewestAndTheBest) {
  const Files some({1, 2, 3, 4, 5});
  some.files.retain(7, 0);
  EXPECT_THAT(some.files.steps(), ElementsAre(1, 2, 3, 4, 5));
  some.files.retain(2, 2);
  EXPECT_THAT(some.files.steps(), ElementsAre(2, 4, 5));
  some.files.retain(1, 5);
  EXPECT_THAT(some.files.steps(), ElementsAre(5));
}

TEST(CheckpointFiles, DeletesLaterOnes) {
  const Files some({1, 2, 3, 4});
  EXPECT_THAT(some.files.remove_after(2), ElementsAre(4, 3));
  EXPECT_THAT(some.files.steps(), ElementsAre(1, 2));
  EXPECT_THAT(some.files.remove_after(2), IsEmpty());
}

TEST(CheckpointFiles, NamesAFileThatCannotBeDeleted) {
  const test::TemporaryFolder folder;
  const run::CheckpointFiles files(folder.path());
  std::filesystem::create_directories(files.path_of(1) / "not empty");
  folder.write(files.path_of(2).filename().string(), "");
  EXPECT_THAT(error_of([&] { files.retain(1, 0); }),
              AllOf(StartsWith("1: "), HasSubstr(files.path_of(1).string()),
                    HasSubstr("cannot be deleted")));
}

}  // namespace
}  // namespace mneme::train
