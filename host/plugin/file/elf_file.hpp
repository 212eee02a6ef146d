// What an ELF shared library says about itself, read from its bytes: no code of it runs.
#pragma once

#include <cstddef>
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
// must outlive the result's notes. Errors: Error(kPlugin) that starts with `where` and says what
// the bytes are instead (text, archive, program, other machine) or where they end too early.
[[nodiscard]] ElfFile read_elf(std::span<const std::byte> bytes, const std::string& where);

}  // namespace mneme::plugin
