// Checks of a plugin's file. None of its code runs.

#include <elf.h>

#include <algorithm>
#include <cstdlib>

#include "host/base/error.hpp"
#include "host/config/memory_file.hpp"
#include "host/plugin/file/note.hpp"
#include "host/plugin/file/plugin_file.hpp"
#include "host/validate/check.hpp"
#include "mneme/plugin.h"

namespace mneme::validate {
namespace {

using plugin::PluginFile;

PluginFile open_file(const Subject& subject) {
  return plugin::open_plugin(subject.file, subject.file.string());
}

plugin::ElfReader reader_of(const PluginFile& file) { return {file.copy->bytes(), file.path}; }

Outcome note_is_whole(const Subject& subject) {
  const PluginFile file = open_file(subject);
  const mneme_note& note = file.note;
  std::vector<std::string> problems;
  if (*note.compiler == '\0') problems.emplace_back("it does not say which compiler made it");
  if (*note.sdk == '\0') problems.emplace_back("it does not say which SDK it was built with");
  if (problems.empty()) {
    return {Grade::kPass, str(note.id, ' ', note.version, ", ABI ",
                              plugin::abi_range_text(note.abi_min, note.abi_target))};
  }
  return {Grade::kFail, join(problems, "; ")};
}

Outcome is_loadable(const Subject& subject) {
  plugin::check_loadable(open_file(subject), subject.file.string());
  return {};
}

Outcome exports_one_symbol(const Subject& subject) {
  const PluginFile file = open_file(subject);
  std::vector<std::string> others;
  for (const std::string& symbol : file.elf.exported) {
    if (symbol != MNEME_ENTRY_SYMBOL) others.push_back(symbol);
  }
  if (others.empty()) return {};
  const std::size_t count = others.size();
  if (count > 3) others.resize(3);
  return {Grade::kFail,
          str("it exports ", count, " symbols besides " MNEME_ENTRY_SYMBOL ": ", join(others, ", "),
              count > 3 ? ", ..." : "",
              ": those of another plugin of the process may take their place; build it with "
              "mneme_add_plugin, which hides them")};
}

// The entries of the dynamic section.
std::vector<Elf64_Dyn> dynamic_entries(const plugin::ElfReader& reader) {
  std::vector<Elf64_Dyn> out;
  for (const Elf64_Phdr& segment : reader.segments()) {
    if (segment.p_type != PT_DYNAMIC) continue;
    for (std::uint64_t at = 0; at + sizeof(Elf64_Dyn) <= segment.p_filesz; at += sizeof(Elf64_Dyn))
      out.push_back(reader.at<Elf64_Dyn>(segment.p_offset + at, "the dynamic section"));
  }
  return out;
}

Outcome has_no_executable_stack(const Subject& subject) {
  const PluginFile file = open_file(subject);
  const plugin::ElfReader reader = reader_of(file);
  const auto stack = std::ranges::find(reader.segments(), static_cast<Elf64_Word>(PT_GNU_STACK),
                                       &Elf64_Phdr::p_type);
  if (stack != reader.segments().end() && (stack->p_flags & PF_X) == 0) return {};
  return {Grade::kFail,
          "it makes the process's stack executable: link with -z noexecstack, and "
          "mark assembler files with .note.GNU-stack"};
}

Outcome has_no_text_relocations(const Subject& subject) {
  const PluginFile file = open_file(subject);
  for (const Elf64_Dyn& entry : dynamic_entries(reader_of(file))) {
    const bool is_flag = entry.d_tag == DT_FLAGS && (entry.d_un.d_val & DF_TEXTREL) != 0;
    if (entry.d_tag == DT_TEXTREL || is_flag)
      return {Grade::kFail, "its code has relocations: compile all of it with -fPIC"};
  }
  return {};
}

Outcome has_no_run_path(const Subject& subject) {
  const PluginFile file = open_file(subject);
  if (file.elf.run_paths.empty()) return {};
  return {Grade::kWarn, str("it looks for libraries in ", join(file.elf.run_paths, ", "),
                            ": on another machine there may be others, or none")};
}

// One definition for the whole process, which also keeps a library from being unloaded.
Outcome has_no_unique_symbols(const Subject& subject) {
  const PluginFile file = open_file(subject);
  const plugin::ElfReader reader = reader_of(file);
  for (const Elf64_Shdr& section : reader.sections()) {
    if (section.sh_type != SHT_DYNSYM) continue;
    for (std::uint64_t at = 0; at + sizeof(Elf64_Sym) <= section.sh_size; at += sizeof(Elf64_Sym)) {
      const auto symbol = reader.at<Elf64_Sym>(section.sh_offset + at, "its symbols");
      if (ELF64_ST_BIND(symbol.st_info) == STB_GNU_UNIQUE) {
        return {
            Grade::kFail,
            "it has symbols of which a process has one definition (STB_GNU_UNIQUE), so that two "
            "builds share variables: compile with -fno-gnu-unique and hidden visibility"};
      }
    }
  }
  return {};
}

// "GLIBC_2.34" above 2.28; false for other names.
bool is_above(const std::string& version, const std::string& name, std::vector<int> floor) {
  if (!version.starts_with(name)) return false;
  std::vector<int> numbers;
  for (std::size_t at = name.size(); at < version.size();) {
    char* end = nullptr;
    numbers.push_back(static_cast<int>(std::strtol(version.c_str() + at, &end, 10)));
    at = static_cast<std::size_t>(end - version.c_str()) + 1;
  }
  return numbers > floor;
}

Outcome is_portable(const Subject& subject) {
  if (config::is_python_memory(subject.file)) throw Skipped("its code is in this program's bridge");
  const PluginFile file = open_file(subject);
  std::vector<std::string> newer;
  for (const plugin::SymbolVersion& need : file.elf.version_needs) {
    if (is_above(need.version, "GLIBC_", {2, 28}) ||
        is_above(need.version, "GLIBCXX_", {3, 4, 24})) {
      newer.push_back(str(need.version, " of ", need.library));
    }
  }
  if (newer.empty()) return {};
  std::ranges::sort(newer);
  newer.erase(std::unique(newer.begin(), newer.end()), newer.end());
  return {Grade::kWarn, str("it needs ", join(newer, ", "),
                            ", which systems older than about 2018 (GLIBC_2.28, GLIBCXX_3.4.24) do "
                            "not have: build it on an older system to hand it on")};
}

}  // namespace

std::vector<Check> file_checks() {
  return {
      {"file.note", "Does its note say what it is?", note_is_whole},
      {"file.load", "Does this machine have what it needs?", is_loadable, "file.note"},
      {"file.unique", "Has it no symbols that all builds would share?", has_no_unique_symbols,
       "file.note"},
      {"file.symbols", "Does it export its entry alone?", exports_one_symbol, "file.unique"},
      {"file.stack", "Does it leave the stack not executable?", has_no_executable_stack,
       "file.note"},
      {"file.relocations", "Is its code free of relocations?", has_no_text_relocations,
       "file.note"},
      {"file.run_path", "Does it look for libraries nowhere else?", has_no_run_path, "file.note"},
      {"file.portable", "Can it be handed to older systems?", is_portable, "file.note"},
  };
}

}  // namespace mneme::validate
