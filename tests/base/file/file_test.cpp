#include "host/base/file/file.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <string>
#include <thread>
#include <utility>

#include "host/base/text.hpp"
#include "tests/base/ordinary_user.hpp"
#include "tests/base/temporary_folder.hpp"

namespace mneme {
namespace {

namespace fs = std::filesystem;
using test::error_of;

std::size_t files_in(const fs::path& folder) {
  return static_cast<std::size_t>(
      std::distance(fs::directory_iterator(folder), fs::directory_iterator{}));
}

TEST(File, ReadsWhatWasWritten) {
  const test::TemporaryFolder folder;
  std::string bytes(1'000'000, '\0');
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i * 31 % 251);
  write_file_atomic(folder / "f", bytes);
  EXPECT_EQ(read_file(folder / "f"), bytes);
  write_file_atomic(folder / "f", "");
  EXPECT_EQ(read_file(folder / "f"), "");
  EXPECT_EQ(files_in(folder.path()), 1u) << "a temporary file is left";
}

TEST(File, WritesItsPartsInOrder) {
  const test::TemporaryFolder folder;
  const std::string a = "one";
  const std::string b = "two";
  write_file_atomic(folder / "f", {std::as_bytes(std::span(a)), {}, std::as_bytes(std::span(b))});
  EXPECT_EQ(read_file(folder / "f"), "onetwo");
}

TEST(File, AReplacedFileKeepsItsModeAndANewOneFollowsTheUmask) {
  const test::TemporaryFolder folder;
  const mode_t mask = ::umask(022);
  write_file_atomic(folder / "new", "x");
  ::umask(mask);
  const fs::path old = folder.write("old", "x");
  ::chmod(old.c_str(), 0640);
  write_file_atomic(old, "y");
  struct stat status {};
  ASSERT_EQ(::stat((folder / "new").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777u, 0644u);
  ASSERT_EQ(::stat(old.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777u, 0640u);
}

TEST(File, WritesThroughALink) {
  const test::TemporaryFolder folder;
  folder.write("target", "old");
  fs::create_symlink("target", folder / "link");
  write_file_atomic(folder / "link", "new");
  EXPECT_TRUE(fs::is_symlink(folder / "link"));
  EXPECT_EQ(read_file(folder / "target"), "new");
}

TEST(File, FailedWritesLeaveNothingBehind) {
  const test::TemporaryFolder folder;
  fs::create_directory(folder / "sub");
  const std::string where = (folder / "sub").string();
  EXPECT_EQ(error_of([&] { write_file_atomic(folder / "sub", "x"); }),
            "1: " + where + ": cannot write: expected a file, got a folder");
  EXPECT_EQ(files_in(folder.path()), 1u);
  const fs::path lost = folder / "none/f";
  EXPECT_EQ(error_of([&] { write_file_atomic(lost, "x"); }),
            "1: " + lost.string() +
                ": cannot write: No such file or directory; create the folder " +
                (folder / "none").string());
}

TEST(File, ReadErrorsNamePathAndReason) {
  const test::TemporaryFolder folder;
  const fs::path missing = folder / "missing";
  const auto read = [](const fs::path& path) { static_cast<void>(read_file(path)); };
  EXPECT_EQ(error_of([&] { read(missing); }),
            "1: " + missing.string() + ": cannot open: No such file or directory; check the path");
  EXPECT_EQ(error_of([&] { read(folder.path()); }),
            "1: " + folder.path().string() + ": cannot read: expected a file, got a folder");
  const fs::path link = folder / "link";
  fs::create_symlink("nowhere", link);
  const std::string told = "1: " + link.string() +
                           ": cannot open: got a symbolic link to nowhere, which is not there; "
                           "mount the disk that it leads to, or correct the link";
  EXPECT_EQ(error_of([&] { read(link); }), told);
  EXPECT_EQ(error_of([&] { require_link_target(link); }), told);
  require_link_target(missing);
  folder.write("nowhere", "");
  require_link_target(link);
}

TEST(File, OfMissingFilesTheNearestNameIsTold) {
  const test::TemporaryFolder folder;
  const test::TemporaryFolder further;
  folder.write("xl_cache.toml", "");
  folder.write("second.csv", "");
  folder.write(".lamemo.toml", "");
  fs::create_directory(folder / "first");
  fs::create_symlink("nowhere", folder / "dangling");
  further.write("lamemo.toml", "");
  further.write("xl_cahce.toml", "");
  const auto told = [&](std::string_view name) {
    return did_you_mean_path(folder / name, further.path());
  };
  const auto meant = [](const fs::path& path) { return str(" (did you mean ", path, "?)"); };
  EXPECT_EQ(told("xl_cahce.toml"), meant(folder / "xl_cache.toml")) << "its own folder comes first";
  EXPECT_EQ(told("xl_cache"), meant(folder / "xl_cache.toml"));
  EXPECT_EQ(told("frist"), meant(folder / "first"));
  EXPECT_EQ(told("frist/"), meant(folder / "first"));
  EXPECT_EQ(told("lamemmo.toml"), meant(further / "lamemo.toml")) << "a hidden file was named";
  EXPECT_EQ(told("none/lamemo.toml"), meant(further / "lamemo.toml"));
  EXPECT_EQ(told("dangling"), "");
  EXPECT_EQ(told("something_else.toml"), "");
  EXPECT_EQ(did_you_mean_path(folder / "lamemmo.toml"), "");
  const fs::path missing = folder / "secnd.csv";
  EXPECT_EQ(error_of([&] { static_cast<void>(read_file(missing)); }),
            str("1: ", missing.string(), ": cannot open: No such file or directory",
                meant(folder / "second.csv")));
}

TEST(File, WhatHasNoEndIsReadUpToALimit) {
  EXPECT_EQ(error_of([] { static_cast<void>(read_file("/dev/zero", 1 << 20)); }),
            "1: /dev/zero: cannot read: expected at most 1.0 MiB, got a pipe or device that goes "
            "on; check the path");
  EXPECT_EQ(error_of([] { static_cast<void>(read_file("/dev/zero")); }),
            "1: /dev/zero: cannot read: expected at most 256.0 MiB, got a pipe or device that "
            "goes on; check the path");
  const test::TemporaryFolder folder;
  const fs::path pipe = folder / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  std::thread writer([&] { std::ofstream(pipe) << "through a pipe"; });
  EXPECT_EQ(read_file(pipe, 14), "through a pipe");
  writer.join();
}

TEST(File, ARegularFileHasALimitOnlyWhenItIsGiven) {
  const test::TemporaryFolder folder;
  const fs::path file = folder.write("f", "");
  fs::resize_file(file, kMaxStreamBytes + 1);  // sparse
  EXPECT_EQ(error_of([&] { static_cast<void>(read_file(file, kMaxConfigBytes)); }),
            "1: " + file.string() +
                ": cannot read: expected at most 16.0 MiB, got 256.0 MiB; check the path");
  EXPECT_EQ(read_file(file).size(), kMaxStreamBytes + 1);
}

TEST(File, UnreadableFilesAreNamed) {
  const test::TemporaryFolder folder;
  const fs::path secret = folder.write("secret", "x");
  ::chmod(secret.c_str(), 0);
  const test::OrdinaryUser user;
  EXPECT_EQ(error_of([&] { static_cast<void>(read_file(secret)); }),
            "1: " + secret.string() + ": cannot open: Permission denied");
}

TEST(File, MapsAndMovesTheMap) {
  const test::TemporaryFolder folder;
  MappedFile first(folder.write("f", "hello"));
  EXPECT_EQ(first.bytes().size(), 5u);
  EXPECT_EQ(static_cast<char>(first.bytes()[4]), 'o');
  MappedFile second(std::move(first));
  EXPECT_EQ(second.bytes().size(), 5u);
  // NOLINTNEXTLINE(bugprone-use-after-move,clang-analyzer-cplusplus.Move): what is left is tested
  EXPECT_EQ(first.bytes().size(), 0u);
  second = MappedFile(folder.write("g", "xyz"));
  EXPECT_EQ(static_cast<char>(second.bytes()[0]), 'x');
  EXPECT_EQ(second.path(), folder / "g");
}

TEST(File, AMapSurvivesTheFilesReplacement) {
  const test::TemporaryFolder folder;
  const MappedFile map(folder.write("f", "old bytes"));
  write_file_atomic(folder / "f", "new");
  EXPECT_EQ(static_cast<char>(map.bytes()[8]), 's');
}

TEST(File, MapErrorsNamePathAndReason) {
  const test::TemporaryFolder folder;
  EXPECT_EQ(MappedFile(folder.write("empty", "")).bytes().size(), 0u);
  EXPECT_EQ(error_of([&] { MappedFile map(folder.path()); }),
            "1: " + folder.path().string() + ": cannot read: expected a file, got a folder");
  EXPECT_EQ(error_of([&] { MappedFile map("/dev/null"); }),
            "1: /dev/null: cannot map: expected a regular file, got a pipe, socket or device");
}

// A process that was killed in write_file_atomic leaves its temporary file.
TEST(File, RemovesTemporariesOfProcessesThatAreGone) {
  const test::TemporaryFolder folder;
  const pid_t gone = ::fork();
  if (gone == 0) ::_exit(0);
  ::waitpid(gone, nullptr, 0);
  const auto temporary = [&](const std::string& name, pid_t process) {
    return folder.write(str('.', name, '.', process, "-3.tmp"), "x");
  };
  const auto ours = temporary("a.json", ::getpid()), theirs = temporary("a.json", gone);
  const auto other = temporary("b.json", gone);
  const auto text = folder.write(".a.json.tmp", "x"), word = folder.write(".a.b.c-3.tmp", "x");
  remove_temporaries(folder.path(), Writers::kAny, {"a."});
  EXPECT_FALSE(fs::exists(theirs));
  for (const fs::path& path : {ours, other, text, word}) EXPECT_TRUE(fs::exists(path)) << path;
  remove_temporaries(folder.path(), Writers::kAny);
  EXPECT_FALSE(fs::exists(other));
  for (const fs::path& path : {ours, text, word}) EXPECT_TRUE(fs::exists(path)) << path;
  // Numbers of processes come again, in a container always the same ones.
  remove_temporaries(folder.path(), Writers::kCallerAlone);
  EXPECT_FALSE(fs::exists(ours));
  for (const fs::path& path : {text, word}) EXPECT_TRUE(fs::exists(path)) << path;
  remove_temporaries(folder.path() / "none", Writers::kAny);
}

}  // namespace
}  // namespace mneme
