// mneme plugins new: writes a memory plugin to begin with, made of the files of sdk/template.
#include <filesystem>
#include <memory>
#include <string>

#include "host/base/error.hpp"
#include "host/base/text.hpp"
#include "host/cli/arguments.hpp"
#include "host/cli/plugins/plugins.hpp"
#include "host/cli/plugins/project.hpp"
#include "host/cli/streams.hpp"

namespace mneme::cli {
namespace {

namespace fs = std::filesystem;

struct NewArguments {
  std::string name;              // of the library: a-z, 0-9 and _, a letter first
  std::string id;                // "org.example.my_memory"
  std::string language = "cpp";  // or "c", or "python"
  bool has_kernel = false;       // with a kernel for the CPU and CUDA
  fs::path folder;
};

// Files by their paths in the project. Error (kUsage) for a name or an id that cannot be one, and
// for a kernel in C.
ProjectFiles new_files(const NewArguments& plugin) {
  check_plugin_name(plugin.name, "NAME");
  check_plugin_id(plugin.id, "--id");
  if (plugin.has_kernel && plugin.language != "cpp") {
    throw_usage({.where = "--cuda",
                 .failed = "the kernel to begin with is in C++",
                 .hint = "leave out --lang " + plugin.language});
  }
  const std::string own = plugin.has_kernel ? "cuda" : plugin.language;
  ProjectFiles files = template_files({"common", own}, plugin.name, plugin.id);
  if (plugin.language == "python") {  // what belongs to a build, and a file named as the memory
    for (const char* name : {"tests.cmake", ".github/workflows/ci.yml", "memory.toml"})
      files.erase(name);
  }
  return files;
}

std::string next_steps(const fs::path& folder, const NewArguments& plugin) {
  const bool is_python = plugin.language == "python";
  const std::string begin = str("next:\n  cd ", shell_word(folder.string()), '\n');
  const std::string end = str("  mneme compare experiment.toml --memory none.toml --memory ",
                              is_python ? plugin.name : "memory", ".toml --seeds 2\n");
  if (is_python) return begin + "  mneme doctor python && sh test.sh\n" + end;
  return str(begin, "  ", build_command(), " && ctest --test-dir build\n", end, sdk_hint());
}

int make_project(const NewArguments& arguments, const Streams& streams) {
  NewArguments plugin = arguments;
  if (plugin.id.empty()) plugin.id = "org.example." + plugin.name;
  const ProjectFiles files = new_files(plugin);
  const fs::path folder = plugin.folder.empty() ? fs::path(plugin.name) : plugin.folder;
  check_project_folder(folder);
  write_project(folder, files, streams);
  streams.out << next_steps(folder, plugin);
  return 0;
}

}  // namespace

void add_plugins_new(const Command& plugins) {
  const Command command = plugins.subcommand(
      "new",
      "Write a plugin to begin with: a small memory that builds against the installed SDK, or in "
      "Python, with tests, an experiment and a page that says what to do");
  const auto arguments = std::make_shared<NewArguments>();
  command.option("NAME", arguments->name, "", "Name of the plugin, as my_memory", {required});
  command.option("--lang", arguments->language, "LANG", "Language of the plugin",
                 {one_of({"cpp", "c", "python"}), shown});
  command.flag("--cuda", arguments->has_kernel,
               "With a kernel of its own, for the CPU and for CUDA");
  command.option("--id", arguments->id, "ID", "The plugin's id; default org.example.NAME",
                 {not_empty("an id")});
  command.option("--folder", arguments->folder, "DIR", "Folder to make; default NAME");
  command.examples({"mneme plugins new my_memory", "mneme plugins new my_memory --lang python",
                    "mneme plugins new my_kernel --cuda --id edu.somewhere.my_kernel"});
  command.runs(arguments, &make_project);
}

}  // namespace mneme::cli
