#include "host/plugin/file/plugin_file.hpp"

#include <algorithm>
#include <system_error>
#include <utility>

#include "host/base/error.hpp"
#include "host/plugin/host_object.hpp"
#include "host/plugin/file/link_check.hpp"
#include "host/plugin/file/note.hpp"

namespace mneme::plugin {
namespace {

namespace fs = std::filesystem;

// Exported names, shortened to what a person can read.
std::string exported_text(const std::vector<std::string>& names) {
  constexpr std::size_t kMost = 8;
  if (names.empty()) return "a library that exports nothing";
  std::vector<std::string> shown(
      names.begin(), names.begin() + static_cast<std::ptrdiff_t>(std::min(kMost, names.size())));
  std::string text = "a library that exports " + join(shown, ", ");
  if (names.size() > kMost) text += str(" and ", names.size() - kMost, " more");
  return text;
}

void check_features(const mneme_note& note, const std::string& where) {
  std::vector<std::string> missing;
  for (const NoteFeature& feature : note_features(note)) {
    if (!feature.is_optional && std::ranges::find(kHostGroups, feature.id) == kHostGroups.end()) {
      missing.push_back(feature.id);
    }
  }
  if (missing.empty()) return;
  throw_plugin({.where = where,
                .failed = str("needs host features that mneme ", MNEME_SDK_VERSION,
                              " lacks: ", join(missing, ", ")),
                .hint = "use a newer mneme, or a build of the plugin for this one"});
}

void check_entry(const ElfFile& elf, const std::string& where) {
  if (std::ranges::find(elf.exported, MNEME_ENTRY_SYMBOL) != elf.exported.end()) return;
  throw_plugin({.where = where,
                .failed = "has no entry point",
                .expected = "the exported symbol " MNEME_ENTRY_SYMBOL,
                .got = exported_text(elf.exported),
                .hint = "define it with MNEME_PLUGIN or MNEME_PLUGIN_ENTRY"});
}

}  // namespace

PluginFile open_plugin(const fs::path& path, const std::string& where) {
  PluginFile file{.path = path.string(),
                  .copy = std::make_unique<SealedCopy>(path, where),
                  .elf = {},
                  .note = {}};
  file.elf = read_elf(file.copy->bytes(), where);
  file.note = parse_note(file.elf.notes, where);
  return file;
}

std::uint32_t check_abi(std::uint32_t abi_min, std::uint32_t abi_target, const std::string& where) {
  const std::uint32_t effective = std::min(kHostAbiCurrent, abi_target);
  if (effective >= abi_min && effective >= kHostAbiMin) return effective;
  const bool is_newer = abi_min > kHostAbiCurrent;
  throw_plugin({.where = where,
                .failed = "no common ABI version",
                .expected = str("a plugin for ABI ", abi_range_text(kHostAbiMin, kHostAbiCurrent),
                                " (this host)"),
                .got = str("one for ABI ", abi_range_text(abi_min, abi_target)),
                .hint = is_newer ? "use a newer mneme, or build the plugin with this one's SDK"
                                 : "build the plugin again with this mneme's SDK"});
}

void check_loadable(const PluginFile& file, const std::string& where) {
  check_abi(file.note.abi_min, file.note.abi_target, where);
  check_features(file.note, where);
  check_needed_libraries(file.elf, file.note, where);
  check_symbol_versions(file.elf, where);
  check_entry(file.elf, where);
}

std::vector<PluginEntry> scan_folder(const fs::path& folder) {
  std::vector<PluginEntry> entries;
  try {
    for (const fs::directory_entry& found : fs::directory_iterator(folder)) {
      if (found.path().extension() == ".so") entries.push_back(describe(found.path()));
    }
  } catch (const fs::filesystem_error& error) {
    throw_plugin({.where = folder.string(),
                  .failed = "cannot read the plugin folder: " + error.code().message(),
                  .hint = "check [memory] plugins"});
  }
  std::ranges::sort(entries, {}, &PluginEntry::file);
  return entries;
}

PluginEntry describe(const fs::path& path) {
  PluginEntry entry{.path = path.string(),
                    .file = path.filename().string(),
                    .note = {},
                    .sha256 = {},
                    .problem = {}};
  try {
    const PluginFile file = open_plugin(path, "");
    entry.note = file.note;
    entry.sha256 = file.copy->sha256();
    check_loadable(file, "");
  } catch (const Error& error) {
    entry.problem = error.what();
  }
  return entry;
}

}  // namespace mneme::plugin
