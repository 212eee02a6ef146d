// The file of a plugin: an ELF shared library with a note.
#include <elf.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <functional>
#include <utility>

#include "host/base/text.hpp"
#include "host/plugin/file/elf_file.hpp"
#include "host/plugin/file/note.hpp"
#include "host/plugin/file/plugin_file.hpp"
#include "mneme/plugin.h"
#include "tests/fuzz/files.hpp"
#include "tests/fuzz/target.hpp"

namespace mneme::fuzz {
namespace {

constexpr std::size_t kFileShare = 64;  // of inputs that are read from a file, which takes longer

void check_elf(const plugin::ElfFile& elf, std::span<const std::byte> bytes) {
  for (const std::span<const std::byte> note : elf.notes) {
    require(note.empty() ||
                (std::greater_equal<>()(note.data(), bytes.data()) &&
                 std::less_equal<>()(note.data() + note.size(), bytes.data() + bytes.size())),
            "a note lies in the file");
  }
}

void check_note(const mneme_note& note) {
  require(note.id[0] != '\0' && note.version[0] != '\0', "a note has an id and a version");
  require(std::memchr(note.libraries, 0, sizeof(note.libraries)) != nullptr, "a text has its end");
  static_cast<void>(plugin::note_features(note));
  static_cast<void>(plugin::abi_range_text(note.abi_min, note.abi_target));
}

// The checks of check_loadable that need no file.
void check_needs(const plugin::ElfFile& elf, const mneme_note& note) {
  static_cast<void>(accepts([&] { plugin::check_needed_libraries(elf, note, "here"); }));
  static_cast<void>(accepts([&] { plugin::check_symbol_versions(elf, "here"); }));
  static_cast<void>(accepts([&] { plugin::check_abi(note.abi_min, note.abi_target, "here"); }));
}

bool read_plugin(std::string_view input) {
  const auto bytes = std::as_bytes(std::span(input));
  if (std::hash<std::string_view>()(input) % kFileShare == 0) {
    const plugin::PluginEntry entry = plugin::describe(write_alone("plugin.so", input));
    if (!entry.problem.empty()) check_message(entry.problem);
    require(entry.note.has_value() || !entry.problem.empty(), "what is no plugin has a problem");
  }
  return accepts([&] {
    const plugin::ElfFile elf = plugin::read_elf(bytes, "here");
    check_elf(elf, bytes);
    const mneme_note note = plugin::parse_note(elf.notes, "here");
    check_note(note);
    check_needs(elf, note);
  });
}

// --- A small library, laid out by hand: smaller than what a linker makes, so that changes meet its
// --- tables

// Bytes of a file in the making.
class Image {
 public:
  template <typename T>
  std::size_t add(const T& value) {
    return add(&value, sizeof(value));
  }
  std::size_t add(const void* data, std::size_t size) {
    bytes_.resize((bytes_.size() + 7) / 8 * 8);
    const std::size_t place = bytes_.size();
    bytes_.append(static_cast<const char*>(data), size);
    return place;
  }
  template <typename T>
  void put(std::size_t place, const T& value) {
    std::memcpy(bytes_.data() + place, &value, sizeof(value));
  }
  [[nodiscard]] std::size_t size() const { return bytes_.size(); }
  [[nodiscard]] const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

// Zero-terminated names and where each lies.
class Names {
 public:
  std::uint32_t add(std::string_view name) {
    const auto place = static_cast<std::uint32_t>(text_.size());
    text_ += name;
    text_ += '\0';
    return place;
  }
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  std::string text_ = std::string(1, '\0');
};

mneme_note_record some_note() {
  mneme_note_record record{};
  record.name_size = sizeof(MNEME_NOTE_NAME);
  record.descriptor_size = sizeof(mneme_note);
  record.type = MNEME_NOTE_TYPE;
  std::memcpy(record.name, MNEME_NOTE_NAME, sizeof(MNEME_NOTE_NAME));
  record.note.struct_size = sizeof(mneme_note);
  record.note.abi_min = record.note.abi_target = MNEME_ABI_VERSION;
  std::memcpy(record.note.id, "org.example.tier", 16);
  std::memcpy(record.note.version, "1.2.0", 5);
  std::memcpy(record.note.features, "mneme.op/1 mneme.log/1?", 23);
  return record;
}

struct Tables {
  std::size_t strings, symbols, versions, definitions, hash, note;
};

Elf64_Sym symbol(std::uint32_t name, bool is_defined) {
  Elf64_Sym out{};
  out.st_name = name;
  out.st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC);
  out.st_shndx = is_defined ? 1 : SHN_UNDEF;
  return out;
}

// The tables behind the headers; `names` gets all names.
Tables add_tables(Image& image, Names& names) {
  Tables at{};
  const std::uint32_t library = names.add("libc.so.6");
  const std::array<Elf64_Sym, 3> symbols = {
      Elf64_Sym{}, symbol(names.add(MNEME_ENTRY_SYMBOL), true), symbol(names.add("memcpy"), false)};
  at.symbols = image.add(symbols.data(), sizeof(symbols));
  Elf64_Verneed need{
      .vn_version = 1, .vn_cnt = 1, .vn_file = library, .vn_aux = sizeof(need), .vn_next = 0};
  at.versions = image.add(need);
  image.add(Elf64_Vernaux{.vna_hash = 0,
                          .vna_flags = 0,
                          .vna_other = 2,
                          .vna_name = names.add("GLIBC_2.2.5"),
                          .vna_next = 0});
  image.add(std::uint32_t{0});
  Elf64_Verdef definition{};
  definition.vd_version = 1;
  definition.vd_cnt = 1;
  definition.vd_aux = sizeof(definition) + 4;  // the next place that is a multiple of 8
  at.definitions = image.add(definition);
  image.add(Elf64_Verdaux{.vda_name = names.add("TIER_1"), .vda_next = 0});
  // A GNU hash of one bucket: buckets, first symbol, words of the filter, shift; filter, bucket,
  // chain of the two symbols.
  const std::array<std::uint32_t, 9> hash = {1, 1, 1, 6, 0, 0, 1, 0, 1};
  at.hash = image.add(hash.data(), sizeof(hash));
  at.note = image.add(some_note());
  at.strings = image.add(names.text().data(), names.text().size());
  return at;
}

std::string some_library(bool has_sections) {
  Image image;
  Names names;
  image.add(Elf64_Ehdr{});
  const std::size_t segments_at = image.add(std::array<Elf64_Phdr, 3>{});
  const Tables at = add_tables(image, names);
  const auto dynamic = [](std::int64_t tag, std::uint64_t value) {
    Elf64_Dyn entry{};
    entry.d_tag = tag;
    entry.d_un.d_val = value;
    return entry;
  };
  const std::array<Elf64_Dyn, 12> entries = {
      dynamic(DT_STRTAB, at.strings), dynamic(DT_STRSZ, names.text().size()),
      dynamic(DT_SYMTAB, at.symbols), dynamic(DT_NEEDED, 1),
      dynamic(DT_RUNPATH, 1),         dynamic(DT_SONAME, 1),
      dynamic(DT_GNU_HASH, at.hash),  dynamic(DT_VERNEED, at.versions),
      dynamic(DT_VERNEEDNUM, 1),      dynamic(DT_VERDEF, at.definitions),
      dynamic(DT_VERDEFNUM, 1),       dynamic(DT_NULL, 0)};
  const std::size_t dynamic_at = image.add(entries.data(), sizeof(entries));
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_ident[EI_DATA] = ELFDATA2LSB;
  header.e_ident[EI_VERSION] = EV_CURRENT;
  header.e_type = ET_DYN;
#if defined(__x86_64__)
  header.e_machine = EM_X86_64;
#else
  header.e_machine = EM_AARCH64;
#endif
  header.e_phoff = segments_at;
  header.e_phentsize = sizeof(Elf64_Phdr);
  header.e_phnum = 3;
  if (has_sections) {
    const std::string section_names("\0.note.mneme\0.dynsym\0.shstrtab\0", 31);
    const std::size_t names_at = image.add(section_names.data(), section_names.size());
    const auto section = [](std::uint32_t name, std::uint32_t type, std::size_t place,
                            std::size_t size) {
      Elf64_Shdr out{};
      out.sh_name = name;
      out.sh_type = type;
      out.sh_offset = place;
      out.sh_size = size;
      return out;
    };
    const std::array<Elf64_Shdr, 4> sections = {
        Elf64_Shdr{}, section(1, SHT_NOTE, at.note, sizeof(mneme_note_record)),
        section(13, SHT_DYNSYM, at.symbols, 3 * sizeof(Elf64_Sym)),
        section(21, SHT_STRTAB, names_at, section_names.size())};
    header.e_shoff = image.add(sections.data(), sizeof(sections));
    header.e_shentsize = sizeof(Elf64_Shdr);
    header.e_shnum = 4;
    header.e_shstrndx = 3;
  }
  image.put(0, header);
  const auto segment = [&](std::uint32_t type, std::size_t place, std::size_t size) {
    Elf64_Phdr out{};
    out.p_type = type;
    out.p_offset = out.p_vaddr = place;
    out.p_filesz = out.p_memsz = size;
    return out;
  };
  image.put(segments_at,
            std::array<Elf64_Phdr, 3>{segment(PT_LOAD, 0, image.size()),
                                      segment(PT_DYNAMIC, dynamic_at, sizeof(entries)),
                                      segment(PT_NOTE, at.note, sizeof(mneme_note_record))});
  return image.bytes();
}

std::vector<std::string> plugin_seeds() { return {some_library(false), some_library(true)}; }

// Many symbols, all with one long name.
std::string with_long_name(std::size_t symbols, std::size_t name_bytes) {
  Image image;
  image.add(Elf64_Ehdr{});
  const std::size_t segments_at = image.add(std::array<Elf64_Phdr, 2>{});
  const std::string text = '\0' + std::string(name_bytes, 'x') + '\0';
  const std::size_t strings = image.add(text.data(), text.size());
  const std::vector<Elf64_Sym> table(symbols, symbol(1, true));
  const std::size_t symbols_at = image.add(table.data(), symbols * sizeof(Elf64_Sym));
  const std::array<std::uint32_t, 2> hash = {1, static_cast<std::uint32_t>(symbols)};
  const std::size_t hash_at = image.add(hash);
  const std::array<Elf64_Dyn, 5> entries = {
      Elf64_Dyn{DT_STRTAB, {strings}}, Elf64_Dyn{DT_STRSZ, {text.size()}},
      Elf64_Dyn{DT_SYMTAB, {symbols_at}}, Elf64_Dyn{DT_HASH, {hash_at}}, Elf64_Dyn{DT_NULL, {0}}};
  const std::size_t dynamic_at = image.add(entries);
  std::string library = some_library(false);
  Elf64_Ehdr header{};
  std::memcpy(&header, library.data(), sizeof(header));
  header.e_phoff = segments_at;
  header.e_phnum = 2;
  image.put(0, header);
  std::array<Elf64_Phdr, 2> segments{};
  segments[0].p_type = PT_LOAD;
  segments[0].p_filesz = image.size();
  segments[1].p_type = PT_DYNAMIC;
  segments[1].p_offset = dynamic_at;
  segments[1].p_filesz = sizeof(entries);
  image.put(segments_at, segments);
  return image.bytes();
}

std::vector<std::string> plugin_extremes() {
  return {
      with_long_name(50'000, 1'000'000),
      with_long_name(1, 2'000'000),
      "INPUT(" + repeated("\x1b[31m", 20) + ")",
      repeated("\x7f"
               "ELF",
               10'000),
      std::string(1'000'000, '\0'),
  };
}

}  // namespace

Target plugin_target() { return {"plugin", read_plugin, plugin_seeds, plugin_extremes}; }

}  // namespace mneme::fuzz
