#include "host/report/archive/tar.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <span>
#include <string>

#include "host/base/error.hpp"
#include "host/base/file/file.hpp"
#include "host/base/text.hpp"
#include "tests/base/temporary_folder.hpp"

namespace mneme::report {
namespace {

using ::testing::HasSubstr;

// Text files alone can be read by read_file.
std::string bytes_of_tar(const std::filesystem::path& file) {
  const MappedFile map(file);
  return {reinterpret_cast<const char*>(map.bytes().data()), map.bytes().size()};
}

class Tar : public ::testing::Test {
 protected:
  [[nodiscard]] std::string archive() const {
    write_tar(folder_ / "a.tar", {{"first.txt", bytes_of(first_)}, {long_, bytes_of(second_)}});
    return bytes_of_tar(folder_ / "a.tar");
  }
  static std::span<const std::byte> bytes_of(const std::string& text) {
    return std::as_bytes(std::span(text));
  }
  static std::string refusal(const std::string& archive) {
    try {
      static_cast<void>(read_tar(bytes_of(archive), "a.tar"));
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }
  // With the checksum of the first header made anew.
  static std::string summed(std::string archive) {
    archive.replace(148, 8, 8, ' ');
    unsigned sum = 0;
    for (std::size_t i = 0; i < 512; ++i) sum += static_cast<unsigned char>(archive[i]);
    for (std::size_t i = 6; i-- > 0; sum /= 8) archive[148 + i] = static_cast<char>('0' + sum % 8);
    archive[154] = '\0';
    return archive;
  }

  mneme::test::TemporaryFolder folder_;
  std::string first_ = "some text\n";
  std::string second_ = std::string(512, 'x');
  std::string long_ = std::string(90, 'a') + '/' + std::string(90, 'b');
};

TEST_F(Tar, GivesBackWhatWasWritten) {
  const std::string archive = this->archive();
  const auto entries = read_tar(bytes_of(archive), "a.tar");
  ASSERT_EQ(entries.size(), 2u);
  EXPECT_EQ(entries[0].name, "first.txt");
  EXPECT_EQ(entries[1].name, long_);
  EXPECT_EQ(entries[0].bytes.size(), first_.size());
  EXPECT_EQ(archive.substr(512, first_.size()), first_);
  EXPECT_EQ(entries[1].bytes.size(), second_.size());
  EXPECT_EQ(archive, this->archive());
}

TEST_F(Tar, IsRefusedWhereverItIsCut) {
  const std::string archive = this->archive();
  for (std::size_t size = 0; size < archive.size(); size += 64)
    EXPECT_THAT(refusal(archive.substr(0, size)), HasSubstr("a.tar: byte ")) << size;
  EXPECT_THAT(refusal(archive.substr(0, 515)),  // in the first file, whose header is whole
              HasSubstr("a.tar: byte 0 of the archive: the archive is cut, or a size is wrong: got "
                        "first.txt"));
  EXPECT_THAT(refusal(archive.substr(0, 600)), HasSubstr("a.tar: byte 600 of the archive: "));
  EXPECT_EQ(refusal(archive), "");
}

TEST_F(Tar, RefusesDamage) {
  const std::string archive = this->archive();
  const auto changed = [&](std::size_t place, const std::string& text) {
    return std::string(archive).replace(place, text.size(), text);
  };
  EXPECT_THAT(refusal(changed(3, "X")), HasSubstr("byte 0 of the archive: a damaged header"));
  EXPECT_THAT(refusal(changed(1024 + 3, "X")), HasSubstr("byte 1024 of the archive: a damaged "));
  EXPECT_THAT(refusal(changed(257, "X")), HasSubstr("is no archive in the ustar form"));
  EXPECT_THAT(refusal(summed(changed(156, "2"))), HasSubstr("no regular file"));
  EXPECT_THAT(refusal(summed(changed(124, "77777777777"))), HasSubstr("a size is wrong"));
  EXPECT_THAT(refusal(summed(changed(124, "0000000001x"))), HasSubstr("byte 124 of the archive: a "
                                                                      "number that is none"));
  EXPECT_THAT(refusal(summed(changed(124, "00000000011"))), HasSubstr("belong to no file"));
  EXPECT_THAT(refusal(changed(1000, "X")),
              HasSubstr("byte 1000 of the archive: bytes that belong"));
  EXPECT_THAT(refusal(summed(changed(0, "../rst.txt"))), HasSubstr("leads out of the folder"));
  EXPECT_THAT(refusal(archive + "more"), HasSubstr(str("byte ", archive.size(), " of the ")));
  EXPECT_THAT(refusal(archive.substr(0, 1024) + archive), HasSubstr("a second file of the name"));
}

TEST_F(Tar, NamesStayInTheFolder) {
  for (const char* name : {"a", "a/b.c", "..a", "a/.b"}) EXPECT_TRUE(is_inside(name)) << name;
  for (const char* name : {"", "/a", "a//b", "a/", "..", "a/../b", "./a", "a\nb"})
    EXPECT_FALSE(is_inside(name)) << name;
  EXPECT_THROW(write_tar(folder_ / "b.tar", {{"../a", {}}}), Error);
  EXPECT_THROW(write_tar(folder_ / "b.tar", {{std::string(120, 'a'), {}}}), Error);
}

}  // namespace
}  // namespace mneme::report
