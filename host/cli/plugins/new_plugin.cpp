// mneme plugins new: writes a memory plugin to begin with, made of the files of sdk/template.
#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "host/base/error.hpp"
#include "host/base/file/file.hpp"
#include "host/base/text.hpp"
#include "host/cli/arguments.hpp"
#include "host/cli/plugins/plugins.hpp"
#include "host/cli/streams.hpp"
#include "mneme/note.h"

namespace mneme::cli {
namespace {

namespace fs = std::filesystem;

// Files of sdk/template, by their paths there: {"cpp/CMakeLists.txt", R"(...)"}, ...
struct TemplateFile {
  std::string_view path;
  std::string_view text;
};
constexpr auto kTemplate = std::to_array<TemplateFile>({
#include "template_files.inc"
});

constexpr std::string_view kName = "my_memory";  // in the template
constexpr std::string_view kClass = "MyMemory";
constexpr std::string_view kId = "org.example.my_memory";
// Files that the template cannot have under their own names.
constexpr std::pair<std::string_view, std::string_view> kRenamed[] = {
    {"gitignore", ".gitignore"}, {"ci.yml", ".github/workflows/ci.yml"}};

bool is_lower(char c) { return c >= 'a' && c <= 'z'; }
bool is_name_character(char c) { return is_lower(c) || (c >= '0' && c <= '9') || c == '_'; }

// my_memory -> MyMemory.
std::string class_name(const std::string& name) {
  std::string out;
  bool is_start = true;
  for (const char c : name) {
    if (c == '_') {
      is_start = true;
      continue;
    }
    out += is_start ? static_cast<char>(std::toupper(static_cast<unsigned char>(c))) : c;
    is_start = false;
  }
  return out;
}

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at)) {
    text.replace(at, from.size(), to);
    at += to.size();
  }
}

// Names that are something else in C, in C++, in Python, in CMake or in the template.
constexpr std::array kTaken = std::to_array<std::string_view>(
    {"absorb",    "all",      "and",      "as",       "assert", "async",    "auto",      "await",
     "bool",      "break",    "build",    "case",     "catch",  "char",     "class",     "clean",
     "config",    "const",    "continue", "create",   "cuda",   "declare",  "def",       "default",
     "del",       "delete",   "destroy",  "do",       "double", "elif",     "else",      "enum",
     "except",    "explicit", "export",   "extern",   "false",  "finally",  "float",     "for",
     "friend",    "from",     "gate",     "global",   "goto",   "help",     "if",        "import",
     "in",        "init",     "inline",   "install",  "int",    "is",       "json",      "lambda",
     "last",      "layer",    "long",     "math",     "mneme",  "mutable",  "namespace", "new",
     "nonlocal",  "not",      "numpy",    "operator", "ops",    "or",       "pass",      "private",
     "protected", "public",   "raise",    "random",   "read",   "register", "return",    "rows",
     "short",     "signed",   "sizeof",   "state",    "static", "std",      "struct",    "switch",
     "template",  "tensors",  "test",     "this",     "throw",  "torch",    "true",      "try",
     "typedef",   "typename", "types",    "typing",   "union",  "unsigned", "using",     "virtual",
     "void",      "volatile", "while",    "with",     "yield"});

void check_name(const std::string& name) {
  if (std::ranges::find(kTaken, name) != kTaken.end()) {
    throw_usage({.where = "NAME",
                 .failed = "the name is taken by a language, by CMake or by the template",
                 .got = str('"', name, '"'),
                 .hint = str("choose another, as ", name, "_memory")});
  }
  if (!name.empty() && is_lower(name.front()) && name.back() != '_' &&
      std::ranges::all_of(name, is_name_character) && name.find("__") == std::string::npos &&
      name.size() <= 64) {
    return;
  }
  throw_usage({.where = "NAME",
               .failed = "a plugin cannot be called so",
               .expected = "at most 64 of a-z, 0-9 and single _, a letter first, as my_memory",
               .got = str('"', name, '"')});
}

// As the loader takes it: "org.example.my_memory".
void check_id(const std::string& id) {
  const auto is_part_of_id = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-' || c == '.';
  };
  if (!id.empty() && std::ranges::all_of(id, is_part_of_id) && id.front() != '.' &&
      id.back() != '.' && id.find("..") == std::string::npos &&
      id.size() < sizeof(mneme_note{}.id)) {
    return;
  }
  throw_usage({.where = "--id",
               .failed = "a plugin cannot have this id",
               .expected = str("at most ", sizeof(mneme_note{}.id) - 1,
                               " letters, digits, _, - and single dots, as org.example.my_memory"),
               .got = str('"', id, '"')});
}

struct NewArguments {
  std::string name;              // of the library: a-z, 0-9 and _, a letter first
  std::string id;                // "org.example.my_memory"
  std::string language = "cpp";  // or "c", or "python"
  bool has_kernel = false;       // with a kernel for the CPU and CUDA
  fs::path folder;
};

// Whether a project in this language has the file of sdk/template: one without a build has those
// of the experiment alone.
bool is_common(std::string_view path, std::string_view language) {
  if (!path.starts_with("common/")) return false;
  if (language != "python") return true;
  const std::string_view name = path.substr(path.find('/') + 1);
  return name == "experiment.toml" || name == "none.toml" || name == "gitignore";
}

// Files by their paths in the project. Error (kUsage) for a name or an id that cannot be one, and
// for a kernel in C.
std::map<std::string, std::string> project_files(const NewArguments& plugin) {
  check_name(plugin.name);
  check_id(plugin.id);
  if (plugin.has_kernel && plugin.language != "cpp") {
    throw_usage({.where = "--cuda",
                 .failed = "the kernel to begin with is in C++",
                 .hint = "leave out --lang " + plugin.language});
  }
  const std::string own = plugin.has_kernel ? "cuda/" : plugin.language + '/';
  std::map<std::string, std::string> files;
  for (const TemplateFile& file : kTemplate) {
    if (!file.path.starts_with(own) && !is_common(file.path, plugin.language)) continue;
    std::string path(file.path.substr(file.path.find('/') + 1));
    for (const auto& [from, to] : kRenamed) {
      if (path == from) path = to;
    }
    std::string text(file.text);
    replace_all(text, kId, "\1");  // holds the name
    replace_all(text, kName, plugin.name);
    replace_all(text, kClass, class_name(plugin.name));
    replace_all(text, "\1", plugin.id);
    replace_all(path, kName, plugin.name);
    files.emplace(std::move(path), std::move(text));
  }
  return files;
}

// The installation that the program belongs to, if its SDK is there.
fs::path sdk_prefix() {
  std::error_code ignored;
  const fs::path executable = fs::read_symlink("/proc/self/exe", ignored);
  const fs::path prefix = executable.parent_path().parent_path();
  return fs::exists(prefix / "share/mneme-sdk/cmake", ignored) ? prefix : fs::path();
}

std::string next_steps(const fs::path& folder, const std::string& language) {
  const std::string begin = str("next:\n  cd ", shell_word(folder.string()), '\n');
  const std::string end =
      "  mneme compare experiment.toml --memory none.toml --memory memory.toml --seeds 2\n";
  if (language == "python") return begin + "  mneme doctor python && sh test.sh\n" + end;
  const fs::path prefix = sdk_prefix();
  const std::string text = str(begin, "  cmake -B build -DCMAKE_PREFIX_PATH=",
                               prefix.empty() ? std::string("PREFIX") : shell_word(prefix.string()),
                               " && cmake --build build && ctest --test-dir build\n", end);
  return prefix.empty() ? text +
                              "PREFIX is where the SDK is installed: cmake --install BUILD "
                              "--prefix PREFIX --component sdk\n"
                        : text;
}

int make_project(const NewArguments& arguments, const Streams& streams) {
  NewArguments plugin = arguments;
  if (plugin.id.empty()) plugin.id = "org.example." + plugin.name;
  const auto files = project_files(plugin);
  const fs::path folder = plugin.folder.empty() ? fs::path(plugin.name) : plugin.folder;
  std::error_code failure;
  if (fs::exists(folder, failure) &&
      !(fs::is_directory(folder, failure) && fs::is_empty(folder, failure))) {
    throw_usage({.where = folder.string(),
                 .failed = "it is there already, and nothing was written",
                 .expected = "a new or an empty folder",
                 .hint = "give another --folder"});
  }
  for (const auto& [path, text] : files) {
    const fs::path file = folder / path;
    fs::create_directories(file.parent_path(), failure);
    if (failure) {
      throw_run({.where = file.parent_path().string(),
                 .failed = str("the folder cannot be made: ", failure.message()),
                 .hint = "give another --folder"});
    }
    write_file_atomic(file, text);
    streams.out << file.string() << '\n';
  }
  streams.out << next_steps(folder, plugin.language);
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
