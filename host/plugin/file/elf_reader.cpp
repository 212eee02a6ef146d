#include "host/plugin/file/elf_reader.hpp"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "host/base/error.hpp"

namespace mneme::plugin {
namespace {

#if defined(__x86_64__)
constexpr std::uint16_t kHostMachine = EM_X86_64;
#elif defined(__aarch64__)
constexpr std::uint16_t kHostMachine = EM_AARCH64;
#else
#error "Name this machine's ELF number here."
#endif

constexpr const char* kRebuild = "copy or build the plugin again";

std::string machine_name(std::uint16_t machine) {
  switch (machine) {
    case EM_386:
      return "x86 (32 bits)";
    case EM_ARM:
      return "arm (32 bits)";
    case EM_X86_64:
      return "x86-64";
    case EM_AARCH64:
      return "aarch64";
    case EM_PPC64:
      return "ppc64";
    case EM_S390:
      return "s390x";
    case EM_RISCV:
      return "riscv";
    case EM_CUDA:
      return "a CUDA device";
    default:
      return str("machine number ", machine);
  }
}

bool starts_with(std::span<const std::byte> bytes, std::string_view text) {
  return bytes.size() >= text.size() && std::memcmp(bytes.data(), text.data(), text.size()) == 0;
}

// What a file that is no ELF file looks like to a person.
std::string kind_of(std::span<const std::byte> bytes) {
  if (bytes.empty()) return "an empty file";
  if (starts_with(bytes, "!<arch>\n")) return "a static library (ar archive)";
  if (starts_with(bytes, "MZ")) return "a Windows program or library";
  if (starts_with(bytes, "\xcf\xfa\xed\xfe") || starts_with(bytes, "\xca\xfe\xba\xbe")) {
    return "a macOS library";
  }
  const auto start = bytes.first(std::min<std::size_t>(bytes.size(), 256));
  const bool is_text = std::ranges::all_of(start, [](std::byte byte) {
    const auto code = std::to_integer<unsigned>(byte);
    return (code >= 0x20 && code != 0x7f) || code == '\n' || code == '\t' || code == '\r';
  });
  if (!is_text) return str(bytes.size(), " bytes of another format");
  std::string line;
  for (const std::byte byte : start.first(std::min<std::size_t>(start.size(), 40))) {
    const char letter = static_cast<char>(byte);
    if (letter == '\n' || letter == '\r') break;
    line += letter;
  }
  return str("a text file that starts with \"", line, '"');
}

std::string type_name(std::uint16_t type) {
  switch (type) {
    case ET_REL:
      return "an object file (.o)";
    case ET_EXEC:
      return "a program";
    case ET_CORE:
      return "a core dump";
    default:
      return str("an ELF file of type ", type);
  }
}

}  // namespace

ElfReader::ElfReader(std::span<const std::byte> bytes, std::string where)
    : bytes_(bytes), where_(std::move(where)) {
  check_identity();
  header_ = at<Elf64_Ehdr>(0, "the ELF header");
  check_header();
  read_segments();
  read_sections();
}

void ElfReader::damaged(const std::string& failed) const {
  throw_plugin({.where = where_, .failed = "damaged shared library: " + failed, .hint = kRebuild});
}

std::span<const std::byte> ElfReader::range(std::uint64_t offset, std::uint64_t size,
                                            const std::string& what) const {
  if (offset > bytes_.size() || size > bytes_.size() - offset) {
    throw_plugin({.where = where_,
                  .failed = "truncated or damaged shared library",
                  .expected = str(what, ": ", size, " bytes at offset ", offset),
                  .got = str("a file of ", bytes_.size(), " bytes"),
                  .hint = kRebuild});
  }
  return bytes_.subspan(offset, size);
}

void ElfReader::check_identity() const {
  if (!starts_with(bytes_, ELFMAG)) {
    throw_plugin({.where = where_,
                  .failed = "is no shared library",
                  .expected = "an ELF file",
                  .got = kind_of(bytes_),
                  .hint = "name the library that mneme_add_plugin builds"});
  }
  const auto identity = range(0, EI_NIDENT, "the ELF identification");
  const auto entry = [&identity](int index) {
    return std::to_integer<int>(identity[static_cast<std::size_t>(index)]);
  };
  const auto refuse = [this](const std::string& is, const std::string& host) {
    throw_plugin({.where = where_,
                  .failed = str("is ", is, ", this host is ", host),
                  .hint = "build the plugin for this machine"});
  };
  if (entry(EI_CLASS) == ELFCLASS32) refuse("a 32-bit ELF file", "64-bit");
  if (entry(EI_CLASS) != ELFCLASS64) damaged(str("class ", entry(EI_CLASS), " in its ELF header"));
  if (entry(EI_DATA) == ELFDATA2MSB) refuse("a big-endian ELF file", "little-endian");
  if (entry(EI_DATA) != ELFDATA2LSB) {
    damaged(str("byte order ", entry(EI_DATA), " in its ELF header"));
  }
  if (entry(EI_VERSION) != EV_CURRENT) damaged(str("ELF version ", entry(EI_VERSION)));
}

void ElfReader::check_header() const {
  if (header_.e_machine != kHostMachine) {
    throw_plugin({.where = where_,
                  .failed = str("is an ELF file for ", machine_name(header_.e_machine),
                                ", this host is ", machine_name(kHostMachine)),
                  .hint = "build the plugin for this machine"});
  }
  if (header_.e_type != ET_DYN) {
    throw_plugin({.where = where_,
                  .failed = "is no shared library",
                  .expected = "a shared library",
                  .got = type_name(header_.e_type),
                  .hint = "name the library that mneme_add_plugin builds"});
  }
}

void ElfReader::read_segments() {
  if (header_.e_phnum == 0) damaged("no program headers");
  if (header_.e_phentsize != sizeof(Elf64_Phdr)) {
    damaged(str("program headers of ", header_.e_phentsize, " bytes, not ", sizeof(Elf64_Phdr)));
  }
  for (std::uint64_t i = 0; i < header_.e_phnum; ++i) {
    // Ahead of the sum, so that an offset near 2^64 cannot wrap around.
    static_cast<void>(range(header_.e_phoff, 0, "the program headers"));
    const auto segment =
        at<Elf64_Phdr>(header_.e_phoff + i * sizeof(Elf64_Phdr), str("program header ", i));
    if (segment.p_type != PT_NULL) {
      static_cast<void>(range(segment.p_offset, segment.p_filesz, str("segment ", i)));
    }
    segments_.push_back(segment);
  }
}

void ElfReader::read_sections() {
  // A library runs without section headers; some strippers remove them.
  if (header_.e_shoff == 0 || header_.e_shnum == 0) return;
  if (header_.e_shentsize != sizeof(Elf64_Shdr)) {
    damaged(str("section headers of ", header_.e_shentsize, " bytes, not ", sizeof(Elf64_Shdr)));
  }
  static_cast<void>(range(header_.e_shoff, 0, "the section headers"));
  for (std::uint64_t i = 0; i < header_.e_shnum; ++i) {
    const auto section =
        at<Elf64_Shdr>(header_.e_shoff + i * sizeof(Elf64_Shdr), str("section header ", i));
    if (section.sh_type != SHT_NOBITS && section.sh_type != SHT_NULL) {
      static_cast<void>(range(section.sh_offset, section.sh_size, str("section ", i)));
    }
    sections_.push_back(section);
  }
}

std::string ElfReader::section_name(const Elf64_Shdr& section) const {
  if (header_.e_shstrndx >= sections_.size()) return "";
  const Elf64_Shdr& names = sections_[header_.e_shstrndx];
  if (names.sh_type == SHT_NOBITS || names.sh_type == SHT_NULL) return "";
  return string_at(range(names.sh_offset, names.sh_size, "the section names"), section.sh_name)
      .value_or("");
}

std::uint64_t ElfReader::offset_of(std::uint64_t address, const std::string& what) const {
  for (const Elf64_Phdr& segment : segments_) {
    if (segment.p_type != PT_LOAD || address < segment.p_vaddr) continue;
    if (address - segment.p_vaddr < segment.p_filesz) {
      return segment.p_offset + (address - segment.p_vaddr);
    }
  }
  damaged(str(what, " lies at address ", address, ", which no segment loads"));
}

std::optional<std::string> string_at(std::span<const std::byte> table, std::uint64_t offset) {
  if (offset >= table.size()) return std::nullopt;
  const auto rest = table.subspan(offset);
  const auto end = std::ranges::find(rest, std::byte{0});
  if (end == rest.end()) return std::nullopt;
  return std::string(reinterpret_cast<const char*>(rest.data()),
                     static_cast<std::size_t>(end - rest.begin()));
}

}  // namespace mneme::plugin
