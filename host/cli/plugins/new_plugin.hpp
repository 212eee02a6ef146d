// The project that `mneme plugins new` writes: a memory plugin to begin with, made of the files of
// sdk/template.
#pragma once

#include <map>
#include <string>

namespace mneme::cli {

class Command;

struct NewPlugin {
  std::string name;              // of the library: a-z, 0-9 and _, a letter first
  std::string id;                // "org.example.my_memory"
  std::string language = "cpp";  // or "c"
  bool has_kernel = false;       // with a kernel for the CPU and CUDA
};

// Files by their paths in the project. Error (kUsage) for a name or an id that cannot be one, and
// for a kernel in C.
[[nodiscard]] std::map<std::string, std::string> new_plugin_files(const NewPlugin& plugin);

void add_plugins_new(const Command& plugins);

}  // namespace mneme::cli
