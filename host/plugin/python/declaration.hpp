// What a memory in Python declares: its id, options, hooks and files, read by importing it once.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "host/base/json_text.hpp"
#include "host/plugin/python/python_place.hpp"

namespace mneme::plugin {

// A module that belongs to a memory: its own file, or one of the user's that it imports.
struct PythonModule {
  std::string name;            // "my_memory", "my_package.parts"
  std::string file;            // its file's name in messages
  std::filesystem::path path;  // absolute
  bool is_package = false;
  std::string source;
};

struct PythonDeclaration {
  Json json;                          // as `python -m mneme.memory describe` prints it
  std::vector<PythonModule> modules;  // the memory's own file first
};

// How long an import may take: without torch's own part, which on a busy machine is most of it, and
// in all.
struct ImportSeconds {
  double file = 60.0;
  double all = 600.0;
};

// The declaration of the memory in the file at `path`, an absolute path. A child process imports
// it, and ends with all that it started when the time is over. Kept in the user's cache folder
// ($XDG_CACHE_HOME/mneme or ~/.cache/mneme; a private folder for temporary files where that cannot
// be written) until one of its modules, the bridge, the package, the interpreter or an installed
// distribution changes.
//
// Errors: Error (kPlugin) that starts with `where`: what is wrong with the file, with its line, an
// import that does not end, a module that has no place in a plugin file.
[[nodiscard]] PythonDeclaration declaration_of(const std::filesystem::path& path,
                                               const PythonPlace& place, const std::string& where,
                                               const ImportSeconds& seconds = {});

// The C++ source of a port of that memory, and what is left to do, as `python -m mneme.memory port`
// prints it. Nothing is kept. Errors: as declaration_of, and a `setup` that fails with all values.
[[nodiscard]] Json port_of(const std::filesystem::path& path, const PythonPlace& place,
                           const std::string& where, const ImportSeconds& seconds = {});

}  // namespace mneme::plugin
