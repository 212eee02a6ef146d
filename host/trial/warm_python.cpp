#include "host/trial/warm_python.hpp"

#include <algorithm>
#include <exception>

#include "host/base/error.hpp"
#include "host/base/text.hpp"
#include "host/config/memory_file.hpp"
#include "host/plugin/file/plugin_file.hpp"
#include "host/plugin/plugin_search.hpp"
#include "host/plugin/python/python_place.hpp"
#include "python/bridge/interpreter.hpp"
#include "python/bridge/python_api.hpp"

namespace mneme::trial {

void warm_python(const std::vector<std::string>& words) {
  static bool is_done = false;
  const bool is_python = std::ranges::any_of(
      words, [](const std::string& word) { return config::is_python_memory(word); });
  if (is_done || !is_python) return;
  is_done = true;
  try {
    if (!plugin::python_place("warm_python").problem.empty()) return;
    const python::Interpreter found = python::find_interpreter();
    python::start_python(found.executable, found.library);
    const python::Gil gil;
    python::Object* const torch = python::py.PyImport_ImportModule("torch");
    if (torch == nullptr) python::py.PyErr_Clear();
  } catch (const std::exception&) {  // the command says it
  }
}

bool warm_python(const config::MemoryConfig& memory) {
  const std::vector<std::string> folders = plugin::folders_to_search(memory.plugins);
  std::vector<std::string> files;
  for (const config::TierConfig& tier : memory.tiers) {
    if (!config::is_python_memory(tier.plugin)) continue;
    const std::string where = str(tier.position.text(), ": plugin '", tier.plugin, "'");
    const auto path = plugin::find_plugin(tier.plugin, folders, tier.pin(), where);
    static_cast<void>(plugin::open_plugin(path, where));
    files.push_back(tier.plugin);
  }
  warm_python(files);
  return !files.empty();
}

}  // namespace mneme::trial
