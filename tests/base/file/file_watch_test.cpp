#include "host/base/file/file_watch.hpp"

#include <chrono>
#include <fstream>
#include <thread>

#include "tests/base/temporary_folder.hpp"

namespace mneme {
namespace {

using std::chrono::milliseconds;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
namespace fs = std::filesystem;

constexpr milliseconds kQuiet{60};

// Both ways to learn of changes; every test holds for each.
class FileWatchTest : public ::testing::TestWithParam<WatchMethod> {
 protected:
  // Waits while `act` runs on another thread; gives up after ten seconds.
  std::vector<fs::path> changed_by(const std::function<void()>& act) {
    std::thread other(act);
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    auto changed = watch_.wait([&] { return std::chrono::steady_clock::now() > end; });
    other.join();
    return changed;
  }
  [[nodiscard]] std::vector<fs::path> changed_within(milliseconds time) {
    const auto end = std::chrono::steady_clock::now() + time;
    return watch_.wait([&] { return std::chrono::steady_clock::now() > end; });
  }
  void write(const fs::path& path, const std::string& text) const {
    std::ofstream(path, std::ios::binary) << text;
  }

  test::TemporaryFolder folder_;
  FileWatch watch_{kQuiet, GetParam()};
};

INSTANTIATE_TEST_SUITE_P(Methods, FileWatchTest,
                         testing::Values(WatchMethod::kNotified, WatchMethod::kPolled));

TEST_P(FileWatchTest, ReportsWritingReplacingRemovingAndAppearing) {
  const fs::path a = folder_ / "a", b = folder_ / "b", absent = folder_ / "later/c";
  write(a, "1");
  write(b, "1");
  watch_.watch({a, b, absent});
  EXPECT_THAT(changed_within(milliseconds(150)), IsEmpty());
  EXPECT_THAT(changed_by([&] { write(a, "22"); }), ElementsAre(a));
  EXPECT_THAT(changed_by([&] {
                write(folder_ / "new", "1");
                fs::rename(folder_ / "new", b);
              }),
              ElementsAre(b));
  EXPECT_THAT(changed_by([&] { fs::remove(a); }), ElementsAre(a));
  EXPECT_THAT(changed_by([&] {
                fs::create_directory(folder_ / "later");
                write(absent, "1");
              }),
              ElementsAre(absent));
  EXPECT_THAT(changed_within(milliseconds(150)), IsEmpty());
}

// A linker writes in pieces: one report, when it is done.
TEST_P(FileWatchTest, ReportsAFileOnceItIsQuiet) {
  const fs::path a = folder_ / "a";
  write(a, "");
  FileWatch patient(milliseconds(600), GetParam());
  patient.watch({a});
  std::thread linker([&] {
    for (int i = 1; i <= 8; ++i) {
      std::ofstream(a, std::ios::app) << "piece";
      std::this_thread::sleep_for(milliseconds(40));
    }
  });
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  const auto changed = patient.wait([&] { return std::chrono::steady_clock::now() > end; });
  EXPECT_THAT(changed, ElementsAre(a));
  EXPECT_EQ(fs::file_size(a), 40U);
  linker.join();
}

TEST_P(FileWatchTest, ReportsWhatChangedWhileNobodyWaited) {
  const fs::path a = folder_ / "a";
  write(a, "1");
  watch_.watch({a});
  write(a, "22");
  watch_.watch({a, folder_ / "b"});
  EXPECT_THAT(changed_by([] {}), ElementsAre(a));
}

TEST_P(FileWatchTest, FollowsLinks) {
  fs::create_directory(folder_ / "real");
  const fs::path link = folder_ / "link";
  write(folder_ / "real/one", "1");
  write(folder_ / "real/two", "1");
  fs::create_symlink(folder_ / "real/one", link);
  watch_.watch({link});
  EXPECT_THAT(changed_by([&] { write(folder_ / "real/one", "22"); }), ElementsAre(link));
  EXPECT_THAT(changed_by([&] {
                fs::remove(link);
                fs::create_symlink(folder_ / "real/two", link);
              }),
              ElementsAre(link));
}

TEST_P(FileWatchTest, OtherFilesOfTheFolderDoNotCount) {
  const fs::path a = folder_ / "a";
  write(a, "1");
  watch_.watch({a});
  write(folder_ / "other", "1");
  EXPECT_THAT(changed_within(milliseconds(250)), IsEmpty());
}

}  // namespace
}  // namespace mneme
