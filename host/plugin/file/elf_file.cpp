#include "host/plugin/file/elf_file.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "host/base/error.hpp"
#include "host/base/file/file_kind.hpp"
#include "mneme/note.h"

namespace mneme::plugin {
namespace {

// Real libraries have a few dozen; in a damaged file the lists may overlap and never end.
constexpr std::size_t kMaxVersions = 65536;

// All names that are read. Those of a real library lie beside each other in its strings; in a
// damaged one a million symbols may all have the same name of a megabyte.
constexpr std::size_t kMaxNames = std::size_t{16} << 20;

// The dynamic section of a library, read into lists.
class DynamicSection {
 public:
  explicit DynamicSection(const ElfReader& reader) : reader_(reader) {
    for (const Elf64_Phdr& segment : reader.segments()) {
      if (segment.p_type == PT_DYNAMIC) read_entries(segment);
    }
    if (entries_.empty()) reader.damaged("no dynamic section");
    if (!has(DT_STRTAB) || !has(DT_STRSZ)) reader.damaged("its dynamic section has no strings");
    strings_ = reader.range(reader.offset_of(value(DT_STRTAB), "the string table"), value(DT_STRSZ),
                            "the string table");
  }

  [[nodiscard]] bool has(std::int64_t tag) const { return entries_.contains(tag); }
  // The tag's first value, 0 when absent.
  [[nodiscard]] std::uint64_t value(std::int64_t tag) const {
    const auto found = entries_.find(tag);
    return found == entries_.end() ? 0 : found->second.front();
  }
  [[nodiscard]] std::string text(std::uint64_t offset, const std::string& what) const {
    auto found = string_at(strings_, offset);
    if (!found) reader_.damaged(str("the name of ", what, " lies outside the string table"));
    names_ += found->size();
    if (names_ > kMaxNames + strings_.size()) reader_.damaged("its names have no end");
    return *found;
  }
  [[nodiscard]] std::vector<std::string> texts(std::int64_t tag, const std::string& what) const {
    std::vector<std::string> result;
    const auto found = entries_.find(tag);
    if (found == entries_.end()) return result;
    for (const std::uint64_t offset : found->second) result.push_back(text(offset, what));
    return result;
  }

 private:
  void read_entries(const Elf64_Phdr& segment) {
    for (std::uint64_t at = 0; at + sizeof(Elf64_Dyn) <= segment.p_filesz;
         at += sizeof(Elf64_Dyn)) {
      const auto entry = reader_.at<Elf64_Dyn>(segment.p_offset + at, "the dynamic section");
      if (entry.d_tag == DT_NULL) return;
      entries_[entry.d_tag].push_back(entry.d_un.d_val);
    }
  }

  const ElfReader& reader_;
  std::map<std::int64_t, std::vector<std::uint64_t>> entries_;
  std::span<const std::byte> strings_;
  mutable std::size_t names_ = 0;  // bytes of all names that were read
};

// Needed and defined versions are two-level lists: entries linked by byte distances, each with a
// list of names. A list of `count` entries that does not advance would read one entry for ever,
// hence the counts bound both loops and a distance of 0 ends them.
void read_version_needs(const ElfReader& reader, const DynamicSection& dynamic, ElfFile& file) {
  if (!dynamic.has(DT_VERNEED)) return;
  const std::string what = "the needed symbol versions";
  std::uint64_t at = reader.offset_of(dynamic.value(DT_VERNEED), what);
  for (std::uint64_t i = 0; i < dynamic.value(DT_VERNEEDNUM); ++i) {
    const auto need = reader.at<Elf64_Verneed>(at, what);
    const std::string library = dynamic.text(need.vn_file, "a versioned library");
    std::uint64_t name_at = at + need.vn_aux;
    for (std::uint64_t j = 0; j < need.vn_cnt; ++j) {
      const auto name = reader.at<Elf64_Vernaux>(name_at, what);
      if (file.version_needs.size() == kMaxVersions) reader.damaged("too many symbol versions");
      if ((name.vna_flags & VER_FLG_WEAK) == 0) {
        file.version_needs.push_back({library, dynamic.text(name.vna_name, "a symbol version")});
      }
      if (name.vna_next == 0) break;
      name_at += name.vna_next;
    }
    if (need.vn_next == 0) break;
    at += need.vn_next;
  }
}

void read_version_definitions(const ElfReader& reader, const DynamicSection& dynamic,
                              ElfFile& file) {
  if (!dynamic.has(DT_VERDEF)) return;
  const std::string what = "the defined symbol versions";
  std::uint64_t at = reader.offset_of(dynamic.value(DT_VERDEF), what);
  for (std::uint64_t i = 0; i < dynamic.value(DT_VERDEFNUM); ++i) {
    const auto definition = reader.at<Elf64_Verdef>(at, what);
    // The base definition is the library's own name; the first name of the others is theirs.
    if ((definition.vd_flags & VER_FLG_BASE) == 0 && definition.vd_cnt > 0) {
      const auto name = reader.at<Elf64_Verdaux>(at + definition.vd_aux, what);
      file.version_definitions.push_back(dynamic.text(name.vda_name, "a symbol version"));
    }
    if (definition.vd_next == 0) break;
    at += definition.vd_next;
  }
}

// Symbols of a GNU hash table: the highest hashed index, found by walking the last chain.
std::uint64_t gnu_hash_symbols(const ElfReader& reader, std::uint64_t table) {
  const std::string what = "the symbol hash table";
  const auto word = [&](std::uint64_t offset) { return reader.at<std::uint32_t>(offset, what); };
  const std::uint64_t buckets = word(table);
  const std::uint64_t first = word(table + 4);
  const std::uint64_t bucket_at = table + 16 + 8 * std::uint64_t{word(table + 8)};
  std::uint64_t last = 0;
  for (std::uint64_t i = 0; i < buckets; ++i) {
    last = std::max<std::uint64_t>(last, word(bucket_at + 4 * i));
  }
  if (last < first) return first;
  const std::uint64_t chain_at = bucket_at + 4 * buckets;
  while ((word(chain_at + 4 * (last - first)) & 1U) == 0) ++last;
  return last + 1;
}

// The dynamic section does not say how many symbols there are: the section headers or a hash do.
std::uint64_t symbol_count(const ElfReader& reader, const DynamicSection& dynamic) {
  for (const Elf64_Shdr& section : reader.sections()) {
    if (section.sh_type == SHT_DYNSYM) return section.sh_size / sizeof(Elf64_Sym);
  }
  if (dynamic.has(DT_HASH)) {
    const auto table = reader.offset_of(dynamic.value(DT_HASH), "the symbol hash table");
    return reader.at<std::uint32_t>(table + 4, "the symbol hash table");
  }
  if (dynamic.has(DT_GNU_HASH)) {
    return gnu_hash_symbols(reader,
                            reader.offset_of(dynamic.value(DT_GNU_HASH), "the symbol hash table"));
  }
  return 0;
}

void read_symbols(const ElfReader& reader, const DynamicSection& dynamic, ElfFile& file) {
  const std::uint64_t count = symbol_count(reader, dynamic);
  if (!dynamic.has(DT_SYMTAB) || count == 0) return;
  const std::uint64_t table = reader.offset_of(dynamic.value(DT_SYMTAB), "the symbol table");
  // Checked once for all symbols, so that a huge count fails before any work is done.
  if (count > ~std::uint64_t{0} / sizeof(Elf64_Sym)) reader.damaged("its symbol table has no end");
  static_cast<void>(reader.range(table, count * sizeof(Elf64_Sym), "the symbol table"));
  for (std::uint64_t i = 1; i < count; ++i) {
    const auto symbol = reader.at<Elf64_Sym>(table + i * sizeof(Elf64_Sym), "the symbol table");
    const unsigned binding = ELF64_ST_BIND(symbol.st_info);
    if (binding == STB_LOCAL) continue;
    std::string name = dynamic.text(symbol.st_name, "a symbol");
    if (name.empty()) continue;
    if (symbol.st_shndx == SHN_UNDEF) {
      if (binding != STB_WEAK) file.undefined.push_back(std::move(name));
    } else if (ELF64_ST_VISIBILITY(symbol.st_other) == STV_DEFAULT ||
               ELF64_ST_VISIBILITY(symbol.st_other) == STV_PROTECTED) {
      file.exported.push_back(std::move(name));
    }
  }
}

std::vector<std::span<const std::byte>> find_notes(const ElfReader& reader) {
  std::vector<std::span<const std::byte>> notes;
  for (const Elf64_Shdr& section : reader.sections()) {
    if (section.sh_type != SHT_NOBITS && reader.section_name(section) == MNEME_NOTE_SECTION) {
      notes.push_back(reader.range(section.sh_offset, section.sh_size, "the plugin's note"));
    }
  }
  if (!notes.empty()) return notes;
  for (const Elf64_Phdr& segment : reader.segments()) {
    if (segment.p_type != PT_NOTE) continue;
    notes.push_back(reader.range(segment.p_offset, segment.p_filesz, "a note segment"));
  }
  return notes;
}

}  // namespace

ElfFile read_elf(std::span<const std::byte> bytes, const std::string& where) {
  const ElfReader reader(bytes, where);
  const DynamicSection dynamic(reader);
  if ((dynamic.value(DT_FLAGS_1) & DF_1_PIE) != 0) {
    throw_plugin({.where = where,
                  .failed = "is no shared library",
                  .expected = "a shared library",
                  .got = "a program",
                  .hint = "name the library that mneme_add_plugin builds"});
  }
  ElfFile file;
  if (dynamic.has(DT_SONAME)) file.soname = dynamic.text(dynamic.value(DT_SONAME), "the library");
  file.needed = dynamic.texts(DT_NEEDED, "a needed library");
  file.run_paths = dynamic.texts(DT_RPATH, "a run path");
  for (std::string& path : dynamic.texts(DT_RUNPATH, "a run path")) {
    file.run_paths.push_back(std::move(path));
  }
  read_version_needs(reader, dynamic, file);
  read_version_definitions(reader, dynamic, file);
  read_symbols(reader, dynamic, file);
  file.notes = find_notes(reader);
  return file;
}

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
  static const std::map<std::uint16_t, std::string> kNames = {
      {EM_386, "x86 (32 bits)"}, {EM_ARM, "arm (32 bits)"}, {EM_X86_64, "x86-64"},
      {EM_AARCH64, "aarch64"},   {EM_PPC64, "ppc64"},       {EM_S390, "s390x"},
      {EM_RISCV, "riscv"},       {EM_CUDA, "a CUDA device"}};
  const auto found = kNames.find(machine);
  return found == kNames.end() ? str("machine number ", machine) : found->second;
}

bool starts_with(std::span<const std::byte> bytes, std::string_view text) {
  return bytes.size() >= text.size() && std::memcmp(bytes.data(), text.data(), text.size()) == 0;
}

// A description of a file that is no ELF file, for messages.
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
  if (type == ET_REL) return "an object file (.o)";
  if (type == ET_EXEC) return "a program";
  if (type == ET_CORE) return "a core dump";
  return str("an ELF file of type ", type);
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
    const std::string_view text(reinterpret_cast<const char*>(bytes_.data()), bytes_.size());
    if (const std::optional<FileKind> pointer = find_pointer_kind(where_, text)) {
      throw_plugin({.where = where_,
                    .failed = pointer->failed,
                    .expected = "an ELF file",
                    .got = pointer->got,
                    .hint = pointer->hint});
    }
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
    // Checked before the sum, so that an offset near 2^64 cannot wrap around.
    static_cast<void>(range(header_.e_phoff, 0, "the program headers"));
    const auto segment =
        at<Elf64_Phdr>(header_.e_phoff + i * sizeof(Elf64_Phdr), str("program header ", i));
    // GNU_RELRO is a range of memory; strip can leave a wrong place in the file there.
    if (segment.p_type != PT_NULL && segment.p_type != PT_GNU_RELRO) {
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
