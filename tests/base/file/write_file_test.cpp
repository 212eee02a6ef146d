// Writing to what is no regular file, and through links.
#include "host/base/file/write_file.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstring>
#include <string>
#include <thread>

#include "host/base/file/file.hpp"
#include "tests/base/ordinary_user.hpp"
#include "tests/base/temporary_folder.hpp"

namespace mneme {
namespace {

namespace fs = std::filesystem;
using test::error_of;
using test::TemporaryFolder;
using ::testing::HasSubstr;
using Kind = OutputPlace::Kind;

// A character device of our own; false where this user may not make or open one.
bool make_device(const fs::path& path, unsigned minor) {
  if (::mknod(path.c_str(), S_IFCHR | 0666, makedev(1, minor)) != 0) return false;
  const int descriptor = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  if (descriptor >= 0) ::close(descriptor);
  return descriptor >= 0;
}
constexpr unsigned kNull = 3;
constexpr unsigned kFull = 7;

constexpr fs::perms kOnlyRead =
    fs::perms::all & ~(fs::perms::owner_write | fs::perms::group_write | fs::perms::others_write);

// Everything that comes out of a descriptor, which is closed.
std::string read_all(int descriptor) {
  std::string text;
  char buffer[4096];
  for (ssize_t n = 0; (n = ::read(descriptor, buffer, sizeof(buffer))) > 0;) {
    text.append(buffer, static_cast<std::size_t>(n));
  }
  ::close(descriptor);
  return text;
}

TEST(WriteFile, WritesIntoADeviceAndLeavesItThere) {
  const TemporaryFolder folder;
  if (!make_device(folder / "null", kNull)) GTEST_SKIP() << "this user makes no device";
  write_file_atomic(folder / "null", "lost");
  EXPECT_TRUE(fs::is_character_file(folder / "null"));
  fs::create_symlink("null", folder / "link");
  write_file_atomic(folder / "link", "lost");
  EXPECT_TRUE(fs::is_symlink(folder / "link"));
  EXPECT_TRUE(fs::is_character_file(folder / "null"));
}

TEST(WriteFile, SaysThatADeviceIsFull) {
  const TemporaryFolder folder;
  const fs::path full = folder / "full";
  if (!make_device(full, kFull)) GTEST_SKIP() << "this user makes no device";
  EXPECT_EQ(error_of([&] { write_file_atomic(full, "x"); }),
            "1: " + full.string() +
                ": cannot write: No space left on device; make room on the disk, or write "
                "elsewhere");
}

TEST(WriteFile, WritesIntoAFifo) {
  const TemporaryFolder folder;
  const fs::path fifo = folder / "fifo";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  const std::string bytes(300'000, 'x');  // more than a pipe holds
  std::string got;
  std::thread reader([&] { got = read_all(::open(fifo.c_str(), O_RDONLY | O_CLOEXEC)); });
  write_file_atomic(fifo, bytes);
  reader.join();
  EXPECT_EQ(got, bytes);
  EXPECT_TRUE(fs::is_fifo(fifo));
}

// SIGPIPE has its default action here: it would end the test.
TEST(WriteFile, FailsWhereTheReaderOfAFifoWentAway) {
  const TemporaryFolder folder;
  const fs::path fifo = folder / "fifo";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  std::thread reader([&] { ::close(::open(fifo.c_str(), O_RDONLY | O_CLOEXEC)); });
  EXPECT_EQ(error_of([&] { write_file_atomic(fifo, std::string(300'000, 'x')); }),
            "1: " + fifo.string() + ": cannot write: Broken pipe; its reader has ended");
  reader.join();
  sigset_t pending;
  sigpending(&pending);
  EXPECT_EQ(sigismember(&pending, SIGPIPE), 0);
  sigset_t blocked;
  pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
  EXPECT_EQ(sigismember(&blocked, SIGPIPE), 0);
}

TEST(WriteFile, WritesIntoASocket) {
  const TemporaryFolder folder;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const fs::path path = folder / "socket";
  std::strncpy(address.sun_path, path.c_str(), sizeof(address.sun_path) - 1);
  const int listener = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  ASSERT_EQ(::bind(listener, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  EXPECT_EQ(error_of([&] { write_file_atomic(path, "x"); }),
            "1: " + path.string() +
                ": cannot connect: Connection refused; start the program that listens there first");
  ASSERT_EQ(::listen(listener, 1), 0);
  std::string got;
  std::thread reader([&] { got = read_all(::accept(listener, nullptr, nullptr)); });
  write_file_atomic(path, "text");
  reader.join();
  ::close(listener);
  EXPECT_EQ(got, "text");
  EXPECT_TRUE(fs::is_socket(path));
}

TEST(WriteFile, ReplacesWhatALinkNamesAndKeepsEveryLink) {
  const TemporaryFolder folder;
  fs::create_directories(folder / "a/b");
  fs::create_symlink("a/second", folder / "first");
  fs::create_symlink("b/target", folder / "a/second");
  write_file_atomic(folder / "first", "new");  // the last link leads nowhere yet
  EXPECT_TRUE(fs::is_symlink(folder / "first"));
  EXPECT_TRUE(fs::is_symlink(folder / "a/second"));
  EXPECT_FALSE(fs::is_symlink(folder / "a/b/target"));
  EXPECT_EQ(read_file(folder / "a/b/target"), "new");
  write_file_atomic(folder / "first", "newer");
  EXPECT_TRUE(fs::is_symlink(folder / "a/second"));
  EXPECT_EQ(read_file(folder / "a/b/target"), "newer");
}

TEST(WriteFile, RefusesLinksThatLeadNowhere) {
  const TemporaryFolder folder;
  fs::create_symlink("round", folder / "round");
  EXPECT_EQ(
      error_of([&] { write_file_atomic(folder / "round", "x"); }),
      "1: " + (folder / "round").string() + ": cannot write: Too many levels of symbolic links");
  fs::create_symlink("none/file", folder / "lost");
  EXPECT_THAT(error_of([&] { write_file_atomic(folder / "lost", "x"); }),
              HasSubstr("cannot write: No such file or directory; create the folder " +
                        (folder / "none").string()));
  EXPECT_TRUE(fs::is_symlink(folder / "lost"));
}

// Opened by its name, the file would be truncated, or written from its beginning.
TEST(WriteFile, WritesToAnOpenDescriptorWhereItStands) {
  const TemporaryFolder folder;
  const fs::path file = folder.write("file", "");
  const int descriptor = ::open(file.c_str(), O_WRONLY | O_CLOEXEC);
  const std::string number = std::to_string(descriptor);
  fs::create_symlink("/dev/fd/" + number, folder / "link");
  ASSERT_EQ(::write(descriptor, "0", 1), 1);
  write_file_atomic("/dev/fd/" + number, "1");
  write_file_atomic("/proc/self/fd/" + number, "2");
  write_file_atomic("/proc/thread-self/fd/" + number, "3");
  write_file_atomic("/proc/" + std::to_string(::getpid()) + "/fd/" + number, "4");
  write_file_atomic(folder / "link", "5");
  ::close(descriptor);
  EXPECT_EQ(read_file(file), "012345");
  EXPECT_TRUE(fs::is_symlink(folder / "link"));
  EXPECT_EQ(error_of([&] { write_file_atomic("/dev/fd/" + number, "x"); }),
            "1: /dev/fd/" + number +
                ": cannot write: Bad file descriptor; name a descriptor that is open for writing");
}

// While one lives, stdout goes to a file.
class StdoutTo {
 public:
  explicit StdoutTo(const fs::path& path) {
    std::fflush(stdout);
    const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    ::dup2(file, STDOUT_FILENO);
    ::close(file);
  }
  ~StdoutTo() {
    ::dup2(before_, STDOUT_FILENO);
    ::close(before_);
  }
  StdoutTo(const StdoutTo&) = delete;
  StdoutTo& operator=(const StdoutTo&) = delete;

 private:
  int before_ = ::dup(STDOUT_FILENO);
};

TEST(WriteFile, KeepsWhatIsOnStdout) {
  const TemporaryFolder folder;
  const fs::path file = folder / "out.txt";
  // A link as /dev/stdout is; a test must not touch the machine's own.
  fs::create_symlink("/proc/self/fd/1", folder / "stdout");
  {
    const StdoutTo redirected(file);
    ASSERT_EQ(::write(STDOUT_FILENO, "text ", 5), 5);
    write_file_atomic(folder / "stdout", "one ");
    write_file_atomic(file, "two ");
    ASSERT_EQ(::write(STDOUT_FILENO, "end", 3), 3);
  }
  EXPECT_EQ(read_file(file), "text one two end");
}

TEST(OutputPlace, TellsWhatIsThere) {
  const TemporaryFolder folder;
  const fs::path file = folder.write("file", "x");
  fs::create_symlink("file", folder / "link");
  ASSERT_EQ(::mkfifo((folder / "fifo").c_str(), 0600), 0);
  EXPECT_EQ(find_output_place(folder.path()).kind, Kind::kFolder);
  EXPECT_EQ(find_output_place(folder / "new").kind, Kind::kFile);
  EXPECT_EQ(find_output_place(folder / "link").kind, Kind::kFile);
  EXPECT_EQ(find_output_place(folder / "link").path, file);
  EXPECT_EQ(find_output_place(folder / "fifo").kind, Kind::kNode);
  EXPECT_EQ(find_output_place("/proc/self/fd/2").descriptor, STDERR_FILENO);
  // A file with the name of a descriptor is an ordinary file.
  EXPECT_EQ(find_output_place(folder / "1").kind, Kind::kFile);
}

TEST(OutputParents, AreMadeWhereTheyAreMissing) {
  const TemporaryFolder folder;
  const fs::path file = folder / "a/b/c.json";
  EXPECT_EQ(obstacle_above(file), "");
  EXPECT_FALSE(fs::exists(folder / "a"));
  make_parents(file);
  EXPECT_TRUE(fs::is_directory(folder / "a/b"));
  EXPECT_FALSE(fs::exists(file));
  make_parents(file);
  make_parents("alone");  // the current folder
  fs::create_symlink("x/y.json", folder / "link");
  make_parents(folder / "link");
  EXPECT_TRUE(fs::is_directory(folder / "x"));
}

TEST(OutputParents, CannotBeMadeBelowAFile) {
  const TemporaryFolder folder;
  const fs::path file = folder.write("file", "");
  EXPECT_EQ(obstacle_above(file / "a/b"), file.string() + ", which is no folder");
  EXPECT_EQ(obstacle_above(folder / "new"), "");
  EXPECT_EQ(obstacle_above((folder / "new").string() + "/"), "");
  EXPECT_THAT(error_of([&] { make_parents(file / "a/b"); }), HasSubstr("cannot make the folder"));
}

TEST(OutputParents, AreNotNeededForWhatAFolderHolds) {
  const TemporaryFolder folder;
  const fs::path closed = folder / "closed", mine = closed / "mine";
  fs::create_directories(mine);
  fs::permissions(folder.path(), fs::perms::all);
  fs::permissions(mine, fs::perms::all);
  fs::permissions(closed, kOnlyRead);
  {
    const test::OrdinaryUser user;
    const std::string denied = "the folder " + closed.string() + ": Permission denied";
    EXPECT_EQ(obstacle_in(mine), "");
    EXPECT_EQ(obstacle_above(mine / "new"), "");
    EXPECT_EQ(obstacle_above(mine), denied);
    EXPECT_EQ(obstacle_in(closed), denied);
  }
  fs::permissions(closed, fs::perms::all);
}

}  // namespace
}  // namespace mneme
