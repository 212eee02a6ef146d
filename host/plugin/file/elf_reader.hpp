// Bounds-checked access to the tables of a 64-bit little-endian ELF file.
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
