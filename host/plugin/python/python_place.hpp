// The Python of memories that are written in it: the interpreter, the bridge and the package.
#pragma once

#include <filesystem>
#include <string>

namespace mneme::plugin {

struct PythonPlace {
  std::filesystem::path bridge;   // the plugin file without a memory, python_memory.so
  std::filesystem::path package;  // the folder that holds the package `mneme`
  std::string interpreter;        // the path of its program
  std::string problem;            // why memories cannot run in it; "" = they can
};

// Where they are for the program that runs: bridge and package lie beside its folder of plugins,
// the interpreter is the one that find_interpreter (python/bridge/interpreter.hpp) finds. Where
// memories cannot run in any, the one that can at least read their declarations, and `problem`.
// Tells the bridge of this process, and processes that it starts, by environment variables. Looked
// up once. Error (kPlugin) that starts with `where` when the program has no bridge, or the machine
// no Python.
[[nodiscard]] const PythonPlace& python_place(const std::string& where);

// The files that belong to a program whose plugins lie in `plugins`, there or not: `interpreter`
// and `problem` are empty.
[[nodiscard]] PythonPlace python_files_beside(const std::filesystem::path& plugins);

// A Python of which nothing is asked but that it runs: the named one, or the first on PATH; "" =
// none.
[[nodiscard]] std::string any_interpreter();

}  // namespace mneme::plugin
