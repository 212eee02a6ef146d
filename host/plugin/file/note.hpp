// The ELF note ".note.mneme", a plugin's description that is readable before any of its code runs;
// and checks whether this machine has what a plugin needs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "host/plugin/file/elf_file.hpp"
#include "mneme/note.h"

namespace mneme::plugin {

// Size of mneme_note in ABI 1.0: a descriptor may be larger, never smaller.
inline constexpr std::uint32_t kNoteSizeV1 = 968;

// Finds the one mneme note in the contents of note sections or segments and checks it: sizes, every
// text terminated and printable, id and version present, ABI range not empty, no unknown flag,
// reserved field zero. The result is normalised: fields beyond the plugin's struct_size are zero.
// Errors: Error(kPlugin) that starts with `where`.
[[nodiscard]] mneme_note parse_note(const std::vector<std::span<const std::byte>>& notes,
                                    const std::string& where);

// A group of host functions that a note lists.
struct NoteFeature {
  std::string id;            // "mneme.op/1"
  bool is_optional = false;  // listed as "mneme.op/1?": the plugin can do without it
};
[[nodiscard]] std::vector<NoteFeature> note_features(const mneme_note& note);

// The words of a note's list ("mneme.op/1 mneme.state/1").
[[nodiscard]] std::vector<std::string> note_words(const char* list);

// "0.1" of an ABI version; "0.1 to 0.3" of a range.
[[nodiscard]] std::string abi_text(std::uint32_t version);
[[nodiscard]] std::string abi_range_text(std::uint32_t min, std::uint32_t max);

// Checks what a plugin needs, from its file alone: every needed library is a C or C++ runtime (a
// sanitizer's only when this process runs under it) or declared in the note, no symbol of LibTorch
// or the host is left undefined, and every symbol version exists in the runtime library that this
// process has mapped. Errors: Error(kPlugin) that starts with `where` and names every offending
// library, or every missing version together with what this machine has.
void check_needed_libraries(const ElfFile& file, const mneme_note& note, const std::string& where);
void check_symbol_versions(const ElfFile& file, const std::string& where);

// Symbol versions that the library of this soname defines, as mapped in this process; empty when it
// is not mapped or cannot be read.
[[nodiscard]] const std::vector<std::string>& mapped_versions(const std::string& soname);

}  // namespace mneme::plugin
