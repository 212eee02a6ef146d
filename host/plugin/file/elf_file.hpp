// The contents of an ELF shared library's headers, read from its bytes: none of its code runs.
#pragma once

#include <elf.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace mneme::plugin {

// One symbol version that a file needs from a library ("GLIBC_2.34" of "libc.so.6").
struct SymbolVersion {
  std::string library;
  std::string version;
};

// The parts of a 64-bit little-endian shared library that decide whether it can be loaded.
struct ElfFile {
  std::string soname;
  std::vector<std::string> needed;               // DT_NEEDED, in order
  std::vector<std::string> run_paths;            // DT_RPATH and DT_RUNPATH
  std::vector<SymbolVersion> version_needs;      // .gnu.version_r, weak ones left out
  std::vector<std::string> version_definitions;  // .gnu.version_d
  std::vector<std::string> undefined;            // symbols that another library must define
  std::vector<std::string> exported;             // symbols that it defines for others
  // Contents of each section called ".note.mneme", or, when there is no such section, of every
  // PT_NOTE segment. They point into the bytes that were read.
  std::vector<std::span<const std::byte>> notes;
};

// Reads a library's headers and dynamic section; every offset is checked against `bytes`, which
// must outlive the result's notes. Errors: Error(kPlugin) that starts with `where` and names what
// the bytes are instead (text, archive, program, other machine) or where they end too early.
[[nodiscard]] ElfFile read_elf(std::span<const std::byte> bytes, const std::string& where);

// --- Bounds-checked access to the tables of a 64-bit little-endian ELF file ---

// The raw file: header, program and section headers checked, everything else by offset.
class ElfReader {
 public:
  // Checks the file header and both header tables. Errors: Error(kPlugin), see read_elf.
  ElfReader(std::span<const std::byte> bytes, std::string where);

  [[nodiscard]] const std::vector<Elf64_Phdr>& segments() const noexcept { return segments_; }
  [[nodiscard]] const std::vector<Elf64_Shdr>& sections() const noexcept { return sections_; }
  // A section's name; "" when it has none.
  [[nodiscard]] std::string section_name(const Elf64_Shdr& section) const;

  // `size` bytes at a file offset; `what` names them in the error when the file ends before.
  [[nodiscard]] std::span<const std::byte> range(std::uint64_t offset, std::uint64_t size,
                                                 const std::string& what) const;
  // The file offset of a virtual address, by the PT_LOAD segments.
  [[nodiscard]] std::uint64_t offset_of(std::uint64_t address, const std::string& what) const;

  // The struct at a file offset. Headers need not be aligned in a hostile file, hence the copy.
  template <typename T>
  [[nodiscard]] T at(std::uint64_t offset, const std::string& what) const {
    T value;
    std::memcpy(&value, range(offset, sizeof(T), what).data(), sizeof(T));
    return value;
  }

  // Error(kPlugin): the file is damaged in the way that `failed` says.
  [[noreturn]] void damaged(const std::string& failed) const;

 private:
  void check_identity() const;
  void check_header() const;
  void read_segments();
  void read_sections();

  std::span<const std::byte> bytes_;
  std::string where_;
  Elf64_Ehdr header_{};
  std::vector<Elf64_Phdr> segments_;
  std::vector<Elf64_Shdr> sections_;
};

// The NUL-terminated string at `offset` of a string table, or nothing when it does not end there.
[[nodiscard]] std::optional<std::string> string_at(std::span<const std::byte> table,
                                                   std::uint64_t offset);

}  // namespace mneme::plugin
