#include "host/plugin/plugin_search.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>
#include <system_error>
#include <utility>

#include "host/base/error.hpp"
#include "host/config/memory_file.hpp"
#include "host/plugin/known_fields.hpp"

namespace mneme::plugin {
namespace {

namespace fs = std::filesystem;

// A file and the folder of [memory] plugins in which it was found.
struct Found {
  fs::path file;
  fs::path folder;
};

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(fs::symlink_status(path, ignored));
}

bool is_folder(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

void check_name(const std::string& name, const std::string& where) {
  const bool is_path = name.find('/') != std::string::npos || name == "." || name == "..";
  if (!name.empty() && !is_path && name.find('\0') == std::string::npos) return;
  throw_plugin({.where = where,
                .failed = is_path ? "is a path" : "is no name",
                .expected = "a file name or an id, without a folder",
                .got = str('"', name, '"'),
                .hint = "put the folder into [memory] plugins"});
}

// "name.so" before "name": a build folder may hold a folder of the same name beside the library.
std::array<fs::path, 2> paths_in(const fs::path& folder, const std::string& name) {
  return {folder / (name + ".so"), folder / name};
}

// A memory in Python that is named by its own path.
bool is_python_path(const std::string& name) {
  return config::is_python_memory(name) && fs::path(name).is_absolute();
}

std::vector<Found> by_python_path(const fs::path& path, const std::string& where) {
  if (is_there(path)) return {{path, path.parent_path()}};
  throw_plugin({.where = where,
                .failed = "there is no such file",
                .expected = "the file of a memory in Python",
                .got = path.string(),
                .hint = "correct the path, which is relative to the file that names it"});
}

std::vector<Found> by_file_name(const std::string& name, const std::vector<std::string>& folders) {
  std::vector<Found> found;
  for (const std::string& folder : folders) {
    for (const fs::path& path : paths_in(folder, name)) {
      if (!is_there(path) || (is_folder(path) && path.extension() != ".so")) continue;
      found.push_back({path, folder});
      break;
    }
  }
  return found;
}

// What a folder holds, or nothing when it cannot be read.
std::vector<PluginEntry> entries_of(const std::string& folder) {
  try {
    return scan_folder(folder);
  } catch (const Error&) {
    return {};
  }
}

std::vector<Found> by_id(const std::string& id, const std::vector<std::string>& folders) {
  std::vector<Found> found;
  for (const std::string& folder : folders) {
    for (const PluginEntry& entry : entries_of(folder)) {
      if (entry.note && entry.note->id == id) found.push_back({entry.path, folder});
    }
  }
  return found;
}

// Why a folder cannot be searched: " (no such folder)", or "" when it can be read.
std::string folder_state(const std::string& folder) {
  if (!is_there(folder)) return " (no such folder)";
  if (!is_folder(folder)) return " (not a folder)";
  std::error_code code;
  const fs::directory_iterator entries(folder, code);
  return code ? str(" (", code.message(), ')') : "";
}

std::string_view source_text(FoldersFrom from) {
  return from == FoldersFrom::kMemory ? "[memory] plugins" : "--plugins";
}

// What to do about a name that no folder has. The program's own folder is no folder of the search
// where others are named: a plugin that is not built yet must not be replaced by another one of its
// name. But a memory may have meant it.
std::string hint_for(const std::string& name, const std::vector<std::string>& folders,
                     FoldersFrom from) {
  const std::string own = default_plugin_folder().string();
  const bool is_left_out = !own.empty() && std::ranges::find(folders, own) == folders.end();
  if (is_left_out && !(by_file_name(name, {own}).empty() && by_id(name, {own}).empty())) {
    return str(name, " is in ", own, ", the program's own plugins, which ", source_text(from),
               " leaves out: add that folder to it");
  }
  return str("build the plugin, or correct its name or ", source_text(from));
}

[[noreturn]] void not_found(const std::string& name, const std::vector<std::string>& folders,
                            const std::string& where, FoldersFrom from) {
  if (config::is_python_memory(name)) {
    throw_plugin({.where = where,
                  .failed = "there is no such file",
                  .hint = "check the path of the memory in Python"});
  }
  if (folders.empty()) {
    throw_plugin({.where = where,
                  .failed = "not found",
                  .expected = "folders to look in",
                  .got = "none",
                  .hint = from == FoldersFrom::kMemory ? "list them under [memory] plugins"
                                                       : "give them with --plugins"});
  }
  std::vector<std::string> looked;
  std::vector<std::string> there;
  std::vector<std::string> candidates;
  for (const std::string& folder : folders) {
    looked.push_back(folder + folder_state(folder));
    for (const PluginEntry& entry : entries_of(folder)) {
      const std::string stem = fs::path(entry.file).stem().string();
      there.push_back(str(entry.file, " (", entry.note ? entry.note->id : "no note", ')'));
      if (!entry.note) continue;
      candidates.push_back(stem);
      candidates.emplace_back(entry.note->id);
    }
  }
  const std::string wanted = name.ends_with(".so") ? name.substr(0, name.size() - 3) : name;
  throw_plugin({.where = where,
                .failed = "not found" + did_you_mean(wanted, candidates),
                .expected = str("a file ", wanted, ".so, or a plugin with the id ", wanted, ", in ",
                                join(looked, ", ")),
                .got = there.empty() ? "no library there" : join(there, ", "),
                .hint = hint_for(name, folders, from)});
}

void check_folder_mode(const fs::path& folder, const std::string& where) {
  struct stat status {};
  if (::stat(folder.c_str(), &status) != 0 || (status.st_mode & S_IWOTH) == 0) return;
  throw_plugin(
      {.where = where,
       .failed = str("refused: every user of this machine may replace files in ", folder.string()),
       .expected = "a folder that others cannot write",
       .got = "mode " + digits_text(status.st_mode & 07777, 8),
       .hint = "chmod o-w it, after making sure that its files are yours"});
}

// The real file, which must still lie under the folder; every folder between them is checked.
fs::path resolve(const Found& found, const std::string& where, FoldersFrom from) {
  std::error_code code;
  const fs::path folder = fs::canonical(found.folder, code);
  const fs::path file = code ? fs::path() : fs::canonical(found.file, code);
  if (code) {
    throw_plugin({.where = str(where, " (", found.file.string(), ')'),
                  .failed = "cannot follow the path: " + code.message(),
                  .hint = "repair or remove the link"});
  }
  const auto [rest, unused] = std::ranges::mismatch(folder, file);
  if (rest != folder.end()) {
    throw_plugin({.where = str(where, " (", found.file.string(), ')'),
                  .failed = "refused: a link leads out of the plugin folder",
                  .expected = "a file under " + folder.string(),
                  .got = file.string(),
                  .hint = str("name the folder of the file itself in ", source_text(from))});
  }
  const std::string place = str(where, " (", file.string(), ')');
  for (fs::path at = file.parent_path();; at = at.parent_path()) {
    check_folder_mode(at, place);
    if (at == folder) return file;
  }
}

// A candidate file and the checksum of its bytes.
struct Candidate {
  fs::path file;
  std::string sha256;
};

// The files with links resolved and duplicates removed.
std::vector<Candidate> candidates_of(const std::vector<Found>& found, const std::string& where,
                                     FoldersFrom from) {
  std::vector<Candidate> candidates;
  for (const Found& one : found) {
    fs::path file = resolve(one, where, from);
    if (std::ranges::find(candidates, file, &Candidate::file) == candidates.end())
      candidates.push_back({std::move(file), {}});
  }
  return candidates;
}

bool is_pinned(const std::string& pin, const std::string& sha256) {
  return std::ranges::equal(
      pin, sha256, [](char a, char b) { return std::tolower(static_cast<unsigned char>(a)) == b; });
}

bool is_checksum(const std::string& text) {
  return text.size() == 64 && std::ranges::all_of(text, [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
         });
}

// Chooses one of several candidates.
fs::path choose(std::vector<Candidate> candidates, const std::string& pin, const std::string& where,
                FoldersFrom from) {
  std::vector<std::string> builds;
  for (Candidate& candidate : candidates) {
    try {
      candidate.sha256 = sha256_of_plugin(candidate.file);
    } catch (const Error& error) {
      throw_plugin(
          {.where = str(where, " (", candidate.file.string(), ')'), .failed = error.what()});
    }
    if (is_pinned(pin, candidate.sha256)) return candidate.file;
    builds.push_back(str(candidate.file.string(), " (sha256 ", candidate.sha256, ')'));
  }
  const bool are_one = std::ranges::all_of(
      candidates, [&](const Candidate& one) { return one.sha256 == candidates.front().sha256; });
  if (are_one) return candidates.front().file;
  throw_plugin({.where = where,
                .failed = pin.empty() ? "several files match, and they differ"
                                      : "several files match, and sha256 pins none of them",
                .expected = "one, or copies of one",
                .got = join(builds, ", "),
                .hint = from == FoldersFrom::kMemory
                            ? "name the file instead of the id, pin one with the tier's key "
                              "sha256, or take a folder out of [memory] plugins"
                            : "give the path of one in place of the name"});
}

void check_pin(const std::string& pin, const std::string& sha256, const std::string& where) {
  if (pin.empty()) return;
  if (!is_checksum(pin)) {
    throw_plugin({.where = where,
                  .failed = "the sha256 pin is no checksum",
                  .expected = "64 hexadecimal digits",
                  .got = str('"', pin, '"'),
                  .hint = "mneme plugins list prints the checksums"});
  }
  if (is_pinned(pin, sha256)) return;
  throw_plugin({.where = where,
                .failed = "the file is not the one that sha256 pins",
                .expected = pin,
                .got = sha256,
                .hint = "install the pinned build, or change the pin"});
}

}  // namespace

fs::path find_plugin(const std::string& name, const std::vector<std::string>& folders,
                     const std::string& sha256, const std::string& where, FoldersFrom from) {
  std::vector<Found> found;
  if (is_python_path(name)) {
    found = by_python_path(name, where);
  } else {
    check_name(name, where);
    found = by_file_name(name, folders);
  }
  if (found.empty()) found = by_id(name, folders);
  if (found.empty()) not_found(name, folders, where, from);
  std::vector<Candidate> candidates = candidates_of(found, where, from);
  return candidates.size() == 1 ? candidates.front().file
                                : choose(std::move(candidates), sha256, where, from);
}

PluginFile find_loadable(const std::string& name, const std::vector<std::string>& folders,
                         const std::string& sha256, const std::string& where, FoldersFrom from) {
  const fs::path path = find_plugin(name, folders, sha256, where, from);
  const std::string place = str(where, " (", path.string(), ')');
  PluginFile file = open_plugin(path, place);
  check_pin(sha256, file.copy->sha256(), place);
  check_loadable(file, place);
  return file;
}

std::vector<fs::path> paths_by_name(const std::string& name,
                                    const std::vector<std::string>& folders) {
  if (is_python_path(name)) return {name};
  std::vector<fs::path> paths;
  for (const std::string& folder : folders) {
    for (fs::path& path : paths_in(folder, name)) paths.push_back(std::move(path));
  }
  return paths;
}

fs::path plugin_folder_of(const fs::path& executable) {
  const fs::path program_folder = executable.parent_path();
  const fs::path installed = (program_folder / MNEME_INSTALLED_PLUGINS).lexically_normal();
  const fs::path built = program_folder.parent_path() / "plugins";
  std::error_code ignored;
  if (fs::is_directory(installed, ignored)) return installed;
  return installation_of(executable).empty() || fs::is_directory(built, ignored) ? built
                                                                                 : installed;
}

fs::path installation_of(const fs::path& executable) {
  const fs::path program_folder = executable.parent_path();
  std::error_code ignored;
  if (fs::exists(program_folder.parent_path() / "CMakeCache.txt", ignored)) return {};
  return (program_folder / MNEME_INSTALLED_PLUGINS).lexically_normal().parent_path();
}

const fs::path& default_plugin_folder() {
  static const fs::path folder = [] {
    std::error_code code;
    const fs::path executable = fs::read_symlink("/proc/self/exe", code);
    return code ? fs::path() : plugin_folder_of(executable);
  }();
  return folder;
}

std::vector<std::string> folders_to_search(const std::vector<fs::path>& given) {
  std::vector<std::string> folders;
  for (const fs::path& folder : given) folders.push_back(folder.string());
  if (folders.empty() && !default_plugin_folder().empty()) {
    folders.push_back(default_plugin_folder().string());
  }
  return folders;
}

}  // namespace mneme::plugin
