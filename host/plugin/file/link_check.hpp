// Can this machine's dynamic loader satisfy a library, and may the library ask for what it asks?
#pragma once

#include <string>
#include <vector>

#include "host/plugin/file/elf_file.hpp"
#include "mneme/note.h"

namespace mneme::plugin {

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
