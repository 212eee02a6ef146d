// mneme plugins port: a plugin in C++ to begin with, which declares what a memory in Python declares.
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "host/base/error.hpp"
#include "host/base/text.hpp"
#include "host/cli/arguments.hpp"
#include "host/cli/plugins/plugins.hpp"
#include "host/cli/plugins/project.hpp"
#include "host/cli/streams.hpp"
#include "host/plugin/python/declaration.hpp"
#include "host/plugin/python/python_place.hpp"

namespace mneme::cli {
namespace {

namespace fs = std::filesystem;

struct PortArguments {
  fs::path memory;
  std::string name;  // of the library; "" = the file's
  fs::path folder;
};

// The files of sdk/template with the port's source, and its options as keys of the memory file.
ProjectFiles port_files(const std::string& name, const Json& port) {
  ProjectFiles files =
      template_files({"common", "cpp", "port"}, name, port.at("id").get<std::string>());
  files[name + ".cpp"] = port.at("source").get<std::string>();
  for (const Json& key : port.at("options")) files["memory.toml"] += key.get<std::string>() + '\n';
  return files;
}

std::string left_text(const Json& port) {
  std::string text =
      str("to do:\n  hooks: ", join(port.at("hooks").get<std::vector<std::string>>(), ", "), '\n');
  for (const Json& one : port.at("todo")) text += str("  ", one.get<std::string>(), '\n');
  return text;
}

int port_memory(const PortArguments& arguments, const Streams& streams) {
  const fs::path memory = python_memory(arguments.memory);
  const std::string where = arguments.memory.string();
  const bool is_named = !arguments.name.empty();
  const std::string name = is_named ? arguments.name : memory.stem().string();
  check_plugin_name(name, is_named ? "--name" : "--name, by default that of " + where);
  const fs::path folder = arguments.folder.empty() ? fs::path(name) : arguments.folder;
  check_project_folder(folder);
  const Json port = plugin::port_of(memory, plugin::python_place(where), where);
  write_project(folder, port_files(name, port), streams);
  streams.out << fit_lines(left_text(port), streams.out_width) << "next:\n  cd "
              << shell_word(folder.string()) << "\n  " << build_command()
              << "\n  mneme plugins same " << shell_word(memory.string()) << " ./build/" << name
              << ".so\n"
              << sdk_hint();
  return 0;
}

}  // namespace

void add_plugins_port(const Command& plugins) {
  const Command command = plugins.subcommand(
      "port",
      "Write the C++ plugin that a memory in Python shall become: with its options, parameters and "
      "state, a build and tests. Its hooks fail until they are ported");
  const auto arguments = std::make_shared<PortArguments>();
  command.option("FILE", arguments->memory, "", "The memory's file, NAME.py", {required});
  command.option("--name", arguments->name, "NAME", "Name of the plugin; default the file's",
                 {not_empty("a name")});
  command.option("--folder", arguments->folder, "DIR", "Folder to make; default NAME");
  command.examples({"mneme plugins port my_memory.py",
                    "mneme plugins port my_memory.py --name fast_memory --folder ports/fast"});
  command.runs(arguments, &port_memory);
}

}  // namespace mneme::cli
