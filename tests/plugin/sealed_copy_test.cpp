#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <boost/dll/shared_library.hpp>
#include <cerrno>
#include <thread>

#include "host/base/file/checksum.hpp"
#include "host/plugin/file/plugin_file.hpp"
#include "tests/base/ordinary_user.hpp"
#include "tests/plugin/loader_support.hpp"

namespace mneme::memory {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string text_of(const plugin::SealedCopy& copy) {
  return {reinterpret_cast<const char*>(copy.bytes().data()), copy.bytes().size()};
}

std::string refusal_of(const std::filesystem::path& path) {
  return refusal([&] { plugin::SealedCopy(path, "here"); });
}

TEST(SealedCopy, HoldsTheBytesAndTheirChecksum) {
  const Folder folder;
  const auto path = folder.write("x.so", "some bytes");
  const plugin::SealedCopy copy(path, "here");
  EXPECT_EQ(text_of(copy), "some bytes");
  EXPECT_EQ(copy.sha256(), sha256_hex("some bytes"));
  EXPECT_EQ(copy.backing(), plugin::SealedCopy::Backing::kMemory);
  EXPECT_THAT(copy.load_path(), StartsWith("/proc/self/fd/"));
}

TEST(SealedCopy, KeepsItsBytesWhenTheFileChanges) {
  const Folder folder;
  const auto path = folder.write("x.so", "some bytes");
  const plugin::SealedCopy copy(path, "here");
  folder.write("x.so", "others");
  EXPECT_EQ(text_of(copy), "some bytes");
  EXPECT_EQ(read_file(copy.load_path()), "some bytes");
}

TEST(SealedCopy, CannotBeWritten) {
  const Folder folder;
  const plugin::SealedCopy copy(folder.write("x.so", "some bytes"), "here");
  const int descriptor = ::open(copy.load_path().c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_GE(descriptor, 0);
  EXPECT_EQ(::write(descriptor, "y", 1), -1);
  EXPECT_EQ(errno, EPERM);
  EXPECT_EQ(::ftruncate(descriptor, 0), -1);
  ::close(descriptor);
}

// A writable map keeps a memory file in use, as the kernel does for a moment now and then.
class SealedFile : public testing::Test {
 protected:
  SealedFile() : descriptor_(::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING)) {
    EXPECT_EQ(::ftruncate(descriptor_, kBytes), 0);
    map_ = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor_, 0);
    EXPECT_NE(map_, MAP_FAILED);
  }
  ~SealedFile() override { ::close(descriptor_); }
  void unmap() const { EXPECT_EQ(::munmap(map_, kBytes), 0); }

  static constexpr std::size_t kBytes = 4096;
  int descriptor_;
  void* map_;
};

TEST_F(SealedFile, IsSealedOnceNobodyUsesItAnyMore) {
  std::thread user([this] {
    std::this_thread::sleep_for(std::chrono::milliseconds(40));
    unmap();
  });
  EXPECT_EQ(plugin::seal(descriptor_, std::chrono::seconds(20)), 0);
  user.join();
  EXPECT_EQ(::write(descriptor_, "y", 1), -1);
  EXPECT_EQ(errno, EPERM);
}

TEST_F(SealedFile, IsWaitedForNoLongerThanSaid) {
  EXPECT_EQ(plugin::seal(descriptor_, std::chrono::milliseconds(20)), EBUSY);
  unmap();
  EXPECT_EQ(plugin::seal(-1, std::chrono::seconds(20)), EBADF);
}

TEST(SealedCopy, CopiesFilesOfSeveralChunks) {
  const Folder folder;
  std::string bytes(3 * (std::size_t{1} << 20) + 17, 'a');
  bytes[2000000] = 'b';
  EXPECT_EQ(plugin::SealedCopy(folder.write("x.so", bytes), "here").sha256(), sha256_hex(bytes));
}

TEST(SealedCopy, FallsBackToAFileOfItsOwn) {
  const Folder folder;
  const auto good = folder.add("good");
  std::string path;
  {
    plugin::SealedCopy first(good, "here", plugin::SealedCopy::Backing::kTemporaryFile);
    plugin::SealedCopy second(folder.add("good_again"), "here",
                              plugin::SealedCopy::Backing::kTemporaryFile);
    EXPECT_EQ(first.backing(), plugin::SealedCopy::Backing::kTemporaryFile);
    EXPECT_NE(first.load_path(), second.load_path());
    EXPECT_EQ(first.sha256(), sha256_file(good));
    struct stat status {};
    path = first.load_path();
    ASSERT_EQ(::stat(std::filesystem::path(path).parent_path().c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 07777U, 0700U);

    const boost::dll::shared_library library(
        path, boost::dll::load_mode::rtld_now | boost::dll::load_mode::rtld_local);
    EXPECT_TRUE(library.has("mneme_negotiate_v1"));
    first.forget_name();
    EXPECT_FALSE(std::filesystem::exists(path));
    EXPECT_EQ(first.bytes().size(), std::filesystem::file_size(good));
    path = second.load_path();
  }
  EXPECT_FALSE(std::filesystem::exists(std::filesystem::path(path).parent_path()));
}

TEST(SealedCopy, RefusesWhatIsNoFile) {
  const Folder folder;
  std::filesystem::create_directory(folder.file("folder.so"));
  EXPECT_THAT(refusal_of(folder.file("folder.so")),
              StartsWith("here: cannot load: expected a shared library, got a folder"));
  ASSERT_EQ(::mkfifo(folder.file("pipe.so").c_str(), 0600), 0);
  EXPECT_THAT(refusal_of(folder.file("pipe.so")), HasSubstr("got a special file"));
  folder.write("empty.so", "");
  EXPECT_THAT(refusal_of(folder.file("empty.so")), HasSubstr("got an empty file"));
  EXPECT_THAT(refusal_of(folder.file("missing.so")),
              HasSubstr("cannot open the file: No such file or directory"));
}

TEST(SealedCopy, RefusesFilesAboveTheLimit) {
  const Folder folder;
  const auto path = folder.write("huge.so", "x");
  std::filesystem::resize_file(path, (std::uintmax_t{1} << 31) + 1);
  EXPECT_THAT(refusal_of(path), HasSubstr("above the limit of 2147483648"));
}

TEST(SealedCopy, RefusesUnreadableFiles) {
  const Folder folder;
  const auto path = folder.write("x.so", "some bytes");
  ::chmod(path.c_str(), 0);
  const test::OrdinaryUser user;
  EXPECT_THAT(refusal_of(path), HasSubstr("cannot open the file: Permission denied"));
}

TEST(SealedCopy, RefusesFilesThatEveryUserMayWrite) {
  const Folder folder;
  const auto path = folder.write("x.so", "some bytes");
  ::chmod(path.c_str(), 0757);
  EXPECT_THAT(refusal_of(path),
              AllOf(HasSubstr("refused: every user of this machine may write this file"),
                    HasSubstr("got mode 757"), HasSubstr("chmod o-w")));
}

}  // namespace
}  // namespace mneme::memory
