// What mneme doctor says of an installation: its lists of files are those of
// cmake/InstallList.cmake.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "host/cli/doctor/doctor.hpp"
#include "tests/base/temporary_folder.hpp"

namespace mneme::cli {
namespace {

namespace fs = std::filesystem;
using State = Finding::State;
using ::testing::HasSubstr;

// An installation of two files, with its list.
class Installation : public ::testing::Test {
 protected:
  Installation() {
    for (const char* folder : {"bin", "lib", "lib/mneme", "lib/mneme/plugins", "share"}) {
      fs::create_directory(folder_ / folder);
    }
    program_ = folder_.write("bin/mneme", "program");
    folder_.write("lib/mneme/plugins/xl_cache.so", "library");
    list("mneme 0.1.0, runtime; LibTorch: copy of a build without CUDA");
  }
  void list(const std::string& head) const {
    folder_.write("lib/mneme/installed.txt", head + "\n7 ../../bin/mneme\n7 plugins/xl_cache.so\n");
  }
  [[nodiscard]] Finding finding(std::size_t index = 0) const {
    return check_installation(program_).at(index);
  }

  test::TemporaryFolder folder_;
  fs::path program_;
};

TEST_F(Installation, IsCompleteWithAllFilesOfItsList) {
  EXPECT_EQ(finding().state, State::kOk) << finding().text;
  EXPECT_THAT(finding().text, HasSubstr("complete, 2 files"));
  EXPECT_EQ(finding(1).subject, "SDK");
  EXPECT_EQ(finding(1).state, State::kAbsent);
}

TEST_F(Installation, WithoutItsListHasNotComeToItsEnd) {
  fs::remove(folder_ / "lib/mneme/installed.txt");
  EXPECT_EQ(finding().state, State::kBroken);
  EXPECT_THAT(finding().text, HasSubstr("not complete: there is no "));
  EXPECT_THAT(finding().advice,
              HasSubstr("cmake --install BUILD --prefix " + folder_.path().string()));
}

TEST_F(Installation, NamesWhatIsMissingOrCutShort) {
  fs::remove(folder_ / "lib/mneme/plugins/xl_cache.so");
  EXPECT_EQ(finding().state, State::kBroken);
  EXPECT_THAT(finding().text, HasSubstr("not complete: 1 of 2 files is missing or changed: "));
  EXPECT_THAT(finding().text, HasSubstr("lib/mneme/plugins/xl_cache.so"));
  folder_.write("lib/mneme/plugins/xl_cache.so", "lib");
  EXPECT_EQ(finding().state, State::kBroken);
  folder_.write("lib/mneme/plugins/xl_cache.so", "library");
  EXPECT_EQ(finding().state, State::kOk);
}

TEST_F(Installation, TheSdkHasAListOfItsOwn) {
  fs::create_directory(folder_ / "share/mneme-sdk");
  EXPECT_EQ(finding(1).state, State::kBroken);
  folder_.write("share/mneme-sdk/mneme.h", "x");
  folder_.write("share/mneme-sdk/installed.txt", "mneme 0.1.0, sdk\n1 mneme.h\n");
  EXPECT_EQ(finding(1).state, State::kOk) << finding(1).text;
}

TEST_F(Installation, SaysWhatToDoWhereCudaWasLeftOut) {
  EXPECT_EQ(advice_on_cuda(program_), "");
  list("mneme 0.1.0, runtime; LibTorch: copy of a build with CUDA");
  EXPECT_THAT(advice_on_cuda(program_), HasSubstr("MNEME_INSTALL_TORCH=copy-cuda"));
  list("mneme 0.1.0, runtime; LibTorch: link of a build with CUDA");
  EXPECT_EQ(advice_on_cuda(program_), "");
}

TEST_F(Installation, ABuildFolderIsNone) {
  folder_.write("CMakeCache.txt", "");
  ASSERT_EQ(check_installation(program_).size(), 1U);
  EXPECT_EQ(finding().state, State::kOk);
  EXPECT_THAT(finding().text, HasSubstr("that of the build folder"));
}

}  // namespace
}  // namespace mneme::cli
