#include "host/plugin/python/declaration.hpp"

#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <system_error>
#include <utility>

#include "host/base/error.hpp"
#include "host/base/file/checksum.hpp"
#include "host/base/file/file.hpp"
#include "host/base/process/child.hpp"
#include "host/base/process/child_process.hpp"
#include "host/config/memory_file.hpp"

namespace mneme::plugin {
namespace {

namespace fs = std::filesystem;

// The package is found before any module of the current folder that has its name.
constexpr const char* kDescribe =
    "import sys\n"
    "sys.path[0] = sys.argv[1]\n"
    "from mneme.memory.__main__ import main\n"
    "sys.path.pop(0)\n"
    "sys.path.append(sys.argv[1])\n"
    "sys.exit(main(sys.argv[2:]))\n";

// A folder that only this user can write, made where it is not there; "" = none.
fs::path private_folder(const fs::path& folder) {
  if (!folder.is_absolute()) return {};
  std::error_code ignored;
  fs::create_directories(folder.parent_path(), ignored);
  ::mkdir(folder.c_str(), 0700);
  struct stat status {};
  if (::lstat(folder.c_str(), &status) != 0 || !S_ISDIR(status.st_mode)) return {};
  const bool is_private = status.st_uid == ::geteuid() && (status.st_mode & 022) == 0;
  return is_private && ::access(folder.c_str(), W_OK) == 0 ? folder : fs::path();
}

fs::path from_variable(const char* name, const char* rest) {
  const char* const value = std::getenv(name);
  return value == nullptr || *value == '\0' ? fs::path() : fs::path(value) / rest;
}

// Where declarations are kept; "" = nowhere.
fs::path cache_folder() {
  fs::path own = from_variable("XDG_CACHE_HOME", "mneme");
  if (own.empty()) own = from_variable("HOME", ".cache/mneme");
  if (fs::path folder = private_folder(own); !folder.empty()) return folder;
  std::error_code ignored;
  const fs::path temporary = fs::temp_directory_path(ignored);
  return private_folder(temporary / str("mneme-cache-", ::geteuid()));
}

void add_file(Sha256& digest, const fs::path& path) {
  std::error_code ignored;
  digest.update(str(path, '\n'));
  if (fs::is_regular_file(path, ignored)) digest.update(sha256_file(path));
}

// The name of a declaration in the cache: it depends on all that makes it but the modules that the
// file imports.
std::string key_of(const fs::path& path, const PythonPlace& place, const std::string& source) {
  Sha256 digest;
  digest.update(str("2\n", path, '\n', place.interpreter, '\n', sha256_hex(source), '\n'));
  add_file(digest, place.bridge);
  std::vector<fs::path> parts;
  std::error_code ignored;
  for (fs::directory_iterator at(place.package / "mneme/memory", ignored);
       at != fs::directory_iterator(); at.increment(ignored)) {
    if (config::is_python_memory(at->path())) parts.push_back(at->path());
  }
  std::ranges::sort(parts);
  for (const fs::path& part : parts) add_file(digest, part);
  return digest.hex();
}

// The modules that the declaration lists, with their sources; the memory's own is at hand. Nothing
// where a module has changed since it was imported.
std::optional<std::vector<PythonModule>> modules_of(const Json& json, const std::string& source) {
  std::vector<PythonModule> modules;
  for (const Json& one : json.at("files")) {
    modules.push_back({.name = one.at("module"),
                       .file = one.at("name"),
                       .path = one.at("path").get<std::string>(),
                       .is_package = one.at("is_package"),
                       .source = {}});
    PythonModule& module = modules.back();
    module.source = modules.size() == 1 ? source : read_file(module.path, kMaxConfigBytes);
    if (sha256_hex(module.source) != one.at("sha256")) return std::nullopt;
  }
  return modules;
}

// Whether a module that was not there now lies beside the memory, which may do without it.
bool is_made_since(const Json& json, const fs::path& memory) {
  return std::ranges::any_of(json.at("missing"), [&](const Json& name) {
    std::string place = name;
    std::ranges::replace(place, '.', '/');
    std::error_code ignored;
    const fs::path module = memory.parent_path() / place;
    return fs::exists(module.string() + ".py", ignored) || fs::is_directory(module, ignored);
  });
}

// Whether something was installed or removed beside the packages that the memory imports.
bool is_installed_since(const Json& json) {
  constexpr std::int64_t kNanoseconds = 1'000'000'000;
  for (const auto& [folder, time] : json.at("installed").items()) {
    struct stat status {};
    if (::stat(folder.c_str(), &status) != 0) return true;
    const std::int64_t now = status.st_mtim.tv_sec * kNanoseconds + status.st_mtim.tv_nsec;
    if (now != time.get<std::int64_t>()) return true;
  }
  return false;
}

// That of an earlier time, if no module and no version has changed.
std::optional<PythonDeclaration> cached(const fs::path& file, const fs::path& memory,
                                        const std::string& source) {
  std::error_code ignored;
  if (!fs::is_regular_file(file, ignored)) return std::nullopt;
  try {
    Json json = parse_json_or_throw(read_file(file, kMaxConfigBytes));
    auto modules = modules_of(json, source);
    if (!modules || is_made_since(json, memory) || is_installed_since(json)) return std::nullopt;
    return PythonDeclaration{.json = std::move(json), .modules = std::move(*modules)};
  } catch (const std::exception&) {  // damaged, or a module has gone: it is made again
    return std::nullopt;
  }
}

void keep(const fs::path& file, const Json& json) {
  if (file.empty()) return;
  try {
    write_file_atomic(file, json_text(json, 1));
  } catch (const Error&) {  // a full disk: it is made again next time
  }
}

// The end of what the child said.
std::string last_words(const std::string& err) {
  constexpr std::size_t kMost = 2000;
  const std::string text(trimmed(err, " \t\r\n"));
  return text.size() <= kMost ? text : ".." + text.substr(text.size() - kMost);
}

// `where` without the memory's own path, which the place of an error names.
std::string where_else(std::string where, const fs::path& path) {
  const std::string own = path.string();
  if (own.ends_with(where.substr(0, where.find(':')))) return "";  // as the command line gave it
  const std::string in_brackets = str(" (", own, ')');
  if (where.ends_with(in_brackets)) where.resize(where.size() - in_brackets.size());
  return where;
}

[[noreturn]] void refuse_answer(const ChildResult& child, const fs::path& path,
                                const PythonPlace& place, const std::string& where,
                                const ImportSeconds& seconds) {
  if (child.is_timed_out || child.signal == SIGALRM) {
    throw_plugin(
        {.where = where,
         .failed =
             str("importing ", path.string(), " had not ended after ",
                 child.is_timed_out ? format_number(seconds.all, 0) + " s, with the import of torch"
                                    : format_number(seconds.file, 0) +
                                          " s, in which the import of torch is not counted",
                 ", and was killed"),
         .hint = child.is_timed_out
                     ? "on an idle machine import torch takes seconds: mneme doctor "
                       "python tries it"
                     : "work belongs into hooks and setup, which the import does not run"});
  }
  const Json json = parse_json(child.out);
  if (!json.is_object() || !json.contains("error")) {
    const std::string end =
        child.signal != 0 ? signal_text(child.signal) : str("exit code ", child.exit_code);
    throw_plugin({.where = where,
                  .failed = str(place.interpreter, " could not describe it: ", end, ": ",
                                last_words(child.err)),
                  .hint = "mneme doctor python shows the interpreter"});
  }
  const Json& error = json.at("error");
  const auto line = error.value("line", std::int64_t{0});
  const auto file = error.value("file", path.string());
  const auto message = error.value("message", std::string("no memory"));
  const bool is_of_torch = message.find("torch") != std::string::npos;
  throw_plugin({.where = where_else(where, path),
                .failed = str(file, line > 0 ? str(':', line) : "", ": ", message),
                .hint = is_of_torch ? place.problem : ""});
}

// What `python -m mneme.memory` says with this command, "describe" or "port".
Json ask_child(const std::string& command, const fs::path& path, const PythonPlace& place,
               const std::string& where, const ImportSeconds& seconds) {
  sigset_t none;  // the program's threads block the signals that stop it
  ::sigemptyset(&none);
  ChildOptions options{.launch = {.program = place.interpreter,
                                  .arguments = {"-B", "-c", kDescribe, place.package.string(),
                                                command, path.string(), str(seconds.file)},
                                  .environment = {str(kParentVariable, '=', ::getpid())},
                                  .signal_mask = none},
                       .limits = {.seconds = seconds.all}};
  const ChildResult child = run_child(options);
  Json json = parse_json(child.out);
  const bool is_whole = child.exit_code == 0 && json.is_object() && json.contains("revision");
  if (!is_whole) refuse_answer(child, path, place, where, seconds);
  return json;
}

// The file as a text.
std::string source_of(const fs::path& path, const std::string& where) {
  try {
    return read_file(path, kMaxConfigBytes);
  } catch (const Error& error) {
    throw_plugin({.where = where, .failed = error.what()});
  }
}

}  // namespace

PythonDeclaration declaration_of(const fs::path& path, const PythonPlace& place,
                                 const std::string& where, const ImportSeconds& seconds) {
  const fs::path folder = cache_folder();
  constexpr int kAttempts = 3;
  for (int i = 0; i < kAttempts; ++i) {
    const std::string source = source_of(path, where);
    const fs::path file =
        folder.empty() ? fs::path() : folder / (key_of(path, place, source) + ".json");
    if (auto known = cached(file, path, source)) return std::move(*known);
    Json json = ask_child("describe", path, place, where, seconds);
    auto modules = modules_of(json, source);
    if (!modules) continue;  // an editor was faster
    keep(file, json);
    return {.json = std::move(json), .modules = std::move(*modules)};
  }
  throw_plugin({.where = where,
                .failed = "the file, or a module that it imports, changes while it is read",
                .hint = "try again when it has been written"});
}

Json port_of(const fs::path& path, const PythonPlace& place, const std::string& where,
             const ImportSeconds& seconds) {
  return ask_child("port", path, place, where, seconds);
}

}  // namespace mneme::plugin
