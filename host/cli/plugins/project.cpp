#include "host/cli/plugins/project.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>
#include <system_error>
#include <utility>

#include "host/base/error.hpp"
#include "host/base/file/file.hpp"
#include "host/base/text.hpp"
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

}  // namespace

void check_plugin_name(const std::string& name, const std::string& where) {
  if (std::ranges::find(kTaken, name) != kTaken.end()) {
    throw_usage({.where = where,
                 .failed = "the name is taken by a language, by CMake or by the template",
                 .got = str('"', name, '"'),
                 .hint = str("choose another, as ", name, "_memory")});
  }
  if (!name.empty() && is_lower(name.front()) && name.back() != '_' &&
      std::ranges::all_of(name, is_name_character) && name.find("__") == std::string::npos &&
      name.size() <= 64) {
    return;
  }
  throw_usage({.where = where,
               .failed = "a plugin cannot be called so",
               .expected = "at most 64 of a-z, 0-9 and single _, a letter first, as my_memory",
               .got = str('"', name, '"')});
}

void check_plugin_id(const std::string& id, const std::string& where) {
  const auto is_part_of_id = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-' || c == '.';
  };
  if (!id.empty() && std::ranges::all_of(id, is_part_of_id) && id.front() != '.' &&
      id.back() != '.' && id.find("..") == std::string::npos &&
      id.size() < sizeof(mneme_note{}.id)) {
    return;
  }
  throw_usage({.where = where,
               .failed = "a plugin cannot have this id",
               .expected = str("at most ", sizeof(mneme_note{}.id) - 1,
                               " letters, digits, _, - and single dots, as org.example.my_memory"),
               .got = str('"', id, '"')});
}

ProjectFiles template_files(const std::vector<std::string>& folders, const std::string& name,
                            const std::string& id) {
  ProjectFiles files;
  for (const std::string& folder : folders) {
    for (const TemplateFile& file : kTemplate) {
      if (!file.path.starts_with(folder + '/')) continue;
      std::string path(file.path.substr(folder.size() + 1));
      for (const auto& [from, to] : kRenamed) {
        if (path == from) path = to;
      }
      std::string text(file.text);
      replace_all(text, kId, "\1");  // holds the name
      replace_all(text, kName, name);
      replace_all(text, kClass, class_name(name));
      replace_all(text, "\1", id);
      replace_all(path, kName, name);
      files.insert_or_assign(std::move(path), std::move(text));
    }
  }
  return files;
}

void check_project_folder(const fs::path& folder) {
  std::error_code failure;
  if (fs::exists(folder, failure) &&
      !(fs::is_directory(folder, failure) && fs::is_empty(folder, failure))) {
    throw_usage({.where = folder.string(),
                 .failed = "it is there already, and nothing was written",
                 .expected = "a new or an empty folder",
                 .hint = "give another --folder"});
  }
}

namespace {

// Files and folders that are removed again unless all of them are there.
class MadeFiles {
 public:
  MadeFiles() = default;
  ~MadeFiles() {
    std::error_code ignored;
    for (; !made_.empty(); made_.pop_back()) fs::remove(made_.back(), ignored);
  }
  MadeFiles(const MadeFiles&) = delete;
  MadeFiles& operator=(const MadeFiles&) = delete;

  // Makes the file's folder too, where it is missing.
  void write(const fs::path& file, const std::string& text) {
    make_folder(file.parent_path());
    write_file_atomic(file, text);
    made_.push_back(file);
  }
  void keep() { made_.clear(); }

 private:
  void make_folder(const fs::path& folder) {
    std::error_code failure;
    std::vector<fs::path> missing;
    const auto is_there = [&](const fs::path& at) {  // a link to nowhere is somebody's
      return fs::exists(fs::symlink_status(at, failure));
    };
    for (fs::path at = folder; !at.empty() && !is_there(at); at = at.parent_path()) {
      missing.push_back(at);
    }
    made_.insert(made_.end(), missing.rbegin(), missing.rend());
    fs::create_directories(folder, failure);
    if (!failure) return;
    throw_run({.where = folder.string(),
               .failed = str("the folder cannot be made: ", failure.message()),
               .hint = "give another --folder"});
  }

  std::vector<fs::path> made_;  // folders before what they hold
};

}  // namespace

void write_project(const fs::path& folder, const ProjectFiles& files, const Streams& streams) {
  MadeFiles made;
  for (const auto& [path, text] : files) made.write(folder / path, text);
  made.keep();
  for (const auto& [path, text] : files) streams.out << (folder / path).string() << '\n';
}

namespace {

// The installation that the program belongs to, if its SDK is there.
fs::path sdk_prefix() {
  std::error_code ignored;
  const fs::path executable = fs::read_symlink("/proc/self/exe", ignored);
  const fs::path prefix = executable.parent_path().parent_path();
  return fs::exists(prefix / "share/mneme-sdk/cmake", ignored) ? prefix : fs::path();
}

}  // namespace

std::string build_command() {
  const fs::path prefix = sdk_prefix();
  return str("cmake -B build -DCMAKE_PREFIX_PATH=",
             prefix.empty() ? std::string("PREFIX") : shell_word(prefix.string()),
             " && cmake --build build");
}

std::string sdk_hint() {
  return sdk_prefix().empty() ? "PREFIX is where the SDK is installed: cmake --install BUILD "
                                "--prefix PREFIX --component sdk\n"
                              : "";
}

}  // namespace mneme::cli
