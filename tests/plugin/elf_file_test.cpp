#include "host/plugin/file/elf_file.hpp"

#include <elf.h>

#include <cstring>
#include <random>

#include "host/plugin/file/note.hpp"
#include "tests/plugin/loader_support.hpp"
#include "tests/seed.hpp"

namespace mneme::memory {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

plugin::ElfFile read(const std::string& text) { return plugin::read_elf(bytes_of(text), "here"); }

std::string refusal_of(const std::string& text) {
  return refusal([&] { static_cast<void>(read(text)); });
}

Elf64_Ehdr header_of(const std::string& text) {
  Elf64_Ehdr header;
  std::memcpy(&header, text.data(), sizeof(header));
  return header;
}

std::string with_header(std::string text, const Elf64_Ehdr& header) {
  std::memcpy(text.data(), &header, sizeof(header));
  return text;
}

class ElfFileTest : public ::testing::Test {
 protected:
  const std::string good_ = test::broken_plugin("good");
};

TEST_F(ElfFileTest, ReadsAPlugin) {
  const plugin::ElfFile file = read(good_);
  EXPECT_THAT(file.exported, ElementsAre("mneme_negotiate_v1"));
  ASSERT_EQ(file.notes.size(), 1U);
  EXPECT_STREQ(plugin::parse_note(file.notes, "here").id, "org.example.tier");
}

TEST_F(ElfFileTest, ReadsSymbolsAndVersionsOfTheCRuntime) {
  const plugin::ElfFile file = read(test::broken_plugin("undefined_symbol"));
  EXPECT_THAT(file.undefined, Contains("tier_missing_function"));
  const plugin::ElfFile noted = read(test::broken_plugin("abi_note"));
  EXPECT_THAT(noted.version_needs,
              Contains(AllOf(Field(&plugin::SymbolVersion::library, "libc.so.6"),
                             Field(&plugin::SymbolVersion::version, StartsWith("GLIBC_")))));
  EXPECT_THAT(noted.undefined, Contains("setenv"));
  EXPECT_THAT(noted.needed, ElementsAre("libc.so.6"));
}

TEST_F(ElfFileTest, ReadsTheRunPath) {
  const plugin::ElfFile file = read(test::broken_plugin("needs_library"));
  EXPECT_THAT(file.needed, Contains("libmneme_test_extra.so"));
  EXPECT_THAT(file.run_paths, ElementsAre(HasSubstr("tests/plugin/broken_plugins/extra")));
}

TEST_F(ElfFileTest, FindsNoteAndSymbolsWithoutSectionHeaders) {
  Elf64_Ehdr header = header_of(good_);
  header.e_shoff = 0;
  header.e_shnum = 0;
  header.e_shstrndx = 0;
  const std::string bytes = with_header(good_, header);
  const plugin::ElfFile file = read(bytes);
  EXPECT_THAT(file.exported, ElementsAre("mneme_negotiate_v1"));
  EXPECT_STREQ(plugin::parse_note(file.notes, "here").id, "org.example.tier");
}

TEST_F(ElfFileTest, NamesWhatIsNoElfFile) {
  EXPECT_THAT(refusal_of("INPUT(xl_cache)\nmore"),
              AllOf(StartsWith("here: is no shared library: expected an ELF file, got a text file "
                               "that starts with \"INPUT(xl_cache)\""),
                    HasSubstr("name the library that mneme_add_plugin builds")));
  EXPECT_THAT(refusal_of(""), HasSubstr("got an empty file"));
  EXPECT_THAT(refusal_of("!<arch>\nx"), HasSubstr("got a static library"));
  EXPECT_THAT(refusal_of("MZ\x90"), HasSubstr("got a Windows program or library"));
  EXPECT_THAT(refusal_of("\xcf\xfa\xed\xfe"), HasSubstr("got a macOS library"));
  EXPECT_THAT(refusal_of(std::string("\x01\x02\x00\x04", 4)),
              HasSubstr("got 4 bytes of another format"));
}

TEST_F(ElfFileTest, NamesAnotherMachine) {
  Elf64_Ehdr header = header_of(good_);
  const bool is_x86 = header.e_machine == EM_X86_64;
  header.e_machine = is_x86 ? EM_AARCH64 : EM_X86_64;
  EXPECT_THAT(refusal_of(with_header(good_, header)),
              HasSubstr(is_x86 ? "is an ELF file for aarch64, this host is x86-64"
                               : "is an ELF file for x86-64, this host is aarch64"));
  header.e_machine = 9999;
  EXPECT_THAT(refusal_of(with_header(good_, header)),
              HasSubstr("is an ELF file for machine number 9999"));
}

TEST_F(ElfFileTest, NamesAnotherClassOrByteOrder) {
  std::string other = good_;
  other[EI_CLASS] = ELFCLASS32;
  EXPECT_THAT(refusal_of(other), HasSubstr("is a 32-bit ELF file, this host is 64-bit"));
  other = good_;
  other[EI_DATA] = ELFDATA2MSB;
  EXPECT_THAT(refusal_of(other), HasSubstr("is a big-endian ELF file, this host is little-endian"));
  other = good_;
  other[EI_CLASS] = 7;
  EXPECT_THAT(refusal_of(other), HasSubstr("damaged shared library: class 7"));
  other = good_;
  other[EI_VERSION] = 2;
  EXPECT_THAT(refusal_of(other), HasSubstr("damaged shared library: ELF version 2"));
}

TEST_F(ElfFileTest, NamesPointersToTheFile) {
  EXPECT_THAT(
      refusal_of("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n"),
      HasSubstr("the file is a pointer of Git LFS: its contents were not fetched: expected an "
                "ELF file"));
}

TEST_F(ElfFileTest, NamesProgramsAndObjectFiles) {
  Elf64_Ehdr header = header_of(good_);
  header.e_type = ET_REL;
  EXPECT_THAT(refusal_of(with_header(good_, header)), HasSubstr("got an object file (.o)"));
  header.e_type = ET_EXEC;
  EXPECT_THAT(refusal_of(with_header(good_, header)), HasSubstr("got a program"));
  EXPECT_THAT(refusal_of(read_file("/proc/self/exe")), HasSubstr("got a program"));
}

TEST_F(ElfFileTest, NamesDamagedHeaders) {
  Elf64_Ehdr header = header_of(good_);
  header.e_phnum = 0;
  EXPECT_THAT(refusal_of(with_header(good_, header)), HasSubstr("no program headers"));
  header = header_of(good_);
  header.e_phentsize = 3;
  EXPECT_THAT(refusal_of(with_header(good_, header)), HasSubstr("program headers of 3 bytes"));
  header = header_of(good_);
  header.e_phoff = ~std::uint64_t{0} - 7;
  EXPECT_THAT(refusal_of(with_header(good_, header)),
              HasSubstr("truncated or damaged shared library: expected the program headers"));
  header = header_of(good_);
  header.e_shentsize = 1;
  EXPECT_THAT(refusal_of(with_header(good_, header)), HasSubstr("section headers of 1 bytes"));
}

TEST_F(ElfFileTest, RefusesEveryTruncation) {
  for (std::size_t size = 0; size < good_.size(); size += 1 + size / 64) {
    EXPECT_NE(refusal_of(good_.substr(0, size)), "") << size;
  }
  EXPECT_THAT(refusal_of(good_.substr(0, good_.size() / 2)),
              AllOf(HasSubstr("truncated or damaged shared library"),
                    HasSubstr(str("got a file of ", good_.size() / 2, " bytes"))));
}

// strip leaves such places behind in libraries that mold or lld linked; the dynamic loader reads
// nothing from the file there.
TEST_F(ElfFileTest, TakesAProtectedRangeBeyondTheFileButNoLoadedOne) {
  const Elf64_Ehdr header = header_of(good_);
  const auto with_segment_moved = [&](std::uint32_t type) {
    std::string bytes = good_;
    for (int i = 0; i < header.e_phnum; ++i) {
      Elf64_Phdr segment;
      char* const place = bytes.data() + header.e_phoff + i * sizeof segment;
      std::memcpy(&segment, place, sizeof segment);
      if (segment.p_type != type) continue;
      segment.p_offset = bytes.size() - 1;
      segment.p_filesz = 4096;
      std::memcpy(place, &segment, sizeof segment);
      return bytes;
    }
    ADD_FAILURE() << "no segment of type " << type;
    return bytes;
  };
  EXPECT_NO_THROW(static_cast<void>(read(with_segment_moved(PT_GNU_RELRO))));
  EXPECT_THAT(refusal_of(with_segment_moved(PT_LOAD)),
              HasSubstr("truncated or damaged shared library: expected segment"));
}

TEST_F(ElfFileTest, SurvivesRandomDamage) {
  std::mt19937 random(test::drawn_seed("bytes"));
  int refused = 0;
  for (int trial = 0; trial < 2000; ++trial) {
    std::string bytes = good_;
    // Headers and dynamic tables lie in front; damage elsewhere would mean little.
    const std::size_t front = trial % 2 == 0 ? 1024 : bytes.size();
    for (int i = 0; i < 1 + trial % 8; ++i) bytes[random() % front] = static_cast<char>(random());
    try {
      static_cast<void>(plugin::parse_note(read(bytes).notes, "here"));
    } catch (const Error&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 100);
}

TEST_F(ElfFileTest, RefusesRandomBytesBehindAGoodHeader) {
  std::mt19937 random(test::drawn_seed("bytes"));
  for (int trial = 0; trial < 200; ++trial) {
    std::string bytes = good_.substr(0, sizeof(Elf64_Ehdr));
    while (bytes.size() < 4096) bytes += static_cast<char>(random());
    EXPECT_NE(refusal_of(bytes), "");
  }
}

}  // namespace
}  // namespace mneme::memory
