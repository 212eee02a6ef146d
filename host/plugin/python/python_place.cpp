#include "host/plugin/python/python_place.hpp"

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "host/base/error.hpp"
#include "host/plugin/plugin_search.hpp"
#include "python/bridge/interpreter.hpp"

namespace mneme::plugin {
namespace {

namespace fs = std::filesystem;

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

void choose_interpreter(PythonPlace& place, const std::string& where) {
  try {
    const python::Interpreter found = python::find_interpreter();
    place.interpreter = found.executable;
    ::setenv(python::kInterpreter, found.executable.c_str(), 1);
    ::setenv(python::kLibrary, found.library.c_str(), 1);
  } catch (const python::InterpreterError& error) {
    place.problem = error.what();
    place.interpreter = any_interpreter();
  }
  if (place.interpreter.empty()) {
    throw_plugin({.where = where,
                  .failed = "no Python runs this memory: " + place.problem,
                  .hint = "mneme doctor python shows what is missing"});
  }
}

}  // namespace

PythonPlace python_files_beside(const fs::path& plugins) {
  const fs::path folder = plugins.parent_path();
  const fs::path package = folder / "python";
  std::error_code ignored;
  const fs::path built = package / "python_memory.so";  // a build's
  const bool is_built = fs::exists(built, ignored);
  return {.bridge = is_built ? built : folder / "python_memory.so",
          .package = package,
          .interpreter = {},
          .problem = {}};
}

std::string any_interpreter() {
  std::string folders = variable("PATH");
  if (const std::string venv = variable("VIRTUAL_ENV"); !venv.empty())
    folders.insert(0, venv + "/bin:");
  std::vector<std::string> paths;
  if (const std::string named = variable(python::kInterpreter); !named.empty()) {
    paths.push_back(named);
  } else {
    for (std::size_t at = 0; at < folders.size();) {
      const std::size_t end = std::min(folders.find(':', at), folders.size());
      if (folders[at] == '/') paths.push_back(folders.substr(at, end - at) + "/python3");
      at = end + 1;
    }
  }
  for (const std::string& path : paths) {
    try {
      return python::ask_interpreter(path).executable;
    } catch (const python::InterpreterError&) {  // the next one
    }
  }
  return "";
}

const PythonPlace& python_place(const std::string& where) {
  static std::mutex one_at_a_time;
  static std::optional<PythonPlace> known;
  const std::lock_guard lock(one_at_a_time);
  if (known) return *known;
  PythonPlace place = python_files_beside(default_plugin_folder());
  std::error_code ignored;
  if (!fs::exists(place.bridge, ignored)) {
    throw_plugin({.where = where,
                  .failed = "this program has no bridge for memories in Python",
                  .expected = "the file " + place.bridge.string(),
                  .got = "no such file",
                  .hint = "build or install it whole; mneme doctor python shows what is missing"});
  }
  if (const std::string package = variable(python::kPackage); package.empty()) {
    ::setenv(python::kPackage, place.package.c_str(), 1);
  } else {
    place.package = package;
  }
  choose_interpreter(place, where);
  return known.emplace(std::move(place));
}

}  // namespace mneme::plugin
