#include "host/plugin/loader.hpp"

#include <algorithm>
#include <boost/dll/shared_library.hpp>
#include <filesystem>
#include <map>
#include <mutex>
#include <system_error>
#include <tuple>
#include <utility>

#include "host/base/error.hpp"
#include "host/plugin/file/plugin_file.hpp"
#include "host/plugin/host_groups.hpp"
#include "host/plugin/negotiate.hpp"
#include "host/plugin/plugin_search.hpp"
#include "host/plugin/reported_call.hpp"

namespace mneme::plugin {
namespace {

namespace dll = boost::dll;

// One mapped library. Never closed: its copy must keep its descriptor, and unloading code that a
// CUDA context or a thread may still use fails silently (docs/design.md, "Loading and swapping").
struct Library {
  std::unique_ptr<SealedCopy> copy;
  dll::shared_library handle;
  mneme_host host;
  bool is_initialised = false;
};

// All libraries of the process by checksum, shared by all loaders, and the lock of every load.
struct Libraries {
  std::mutex mutex;
  std::map<std::string, Library> by_sha256;
};

Libraries& libraries() {
  // Never destroyed: the destructor would unmap plugins while other static objects still use them.
  static auto* const kLibraries = new Libraries;
  return *kLibraries;
}

// The dynamic loader's own words, with the plugin's path in place of its copy's.
std::string loader_text(const std::string& what, const PluginFile& file) {
  // Boost wraps them: "... (dlerror system message: TEXT): generic message".
  const std::string mark = "dlerror system message: ";
  const std::size_t start = what.find(mark);
  const std::size_t end = what.rfind("): ");
  std::string text = what;
  if (start != std::string::npos && end != std::string::npos && end > start + mark.size()) {
    text = what.substr(start + mark.size(), end - start - mark.size());
  }
  const std::string& copy = file.copy->load_path();
  for (std::size_t at = text.find(copy); at != std::string::npos; at = text.find(copy, at)) {
    text.replace(at, copy.size(), file.path);
    at += file.path.size();
  }
  return text;
}

std::string mapping_hint(const ElfFile& elf, const std::string& text) {
  if (text.find("undefined symbol") != std::string::npos) {
    return "link the plugin with everything that it uses (mneme_add_plugin passes -z defs)";
  }
  const bool has_origin = std::ranges::any_of(elf.run_paths, [](const std::string& path) {
    return path.find("ORIGIN") != std::string::npos;
  });
  if (has_origin) {
    return "$ORIGIN in the plugin's run path does not name its folder, because a sealed copy is "
           "loaded; use an absolute run path or link statically";
  }
  return "install what the plugin needs, or build it again";
}

Library map_library(PluginFile& file, FindGroup find_group, const std::string& where) {
  Library library;
  const ReportedCall reported(where, "its constructors");
  try {
    // The overload with an error code would lose the loader's text (measured).
    library.handle.load(file.copy->load_path(),
                        dll::load_mode::rtld_now | dll::load_mode::rtld_local);
  } catch (const std::system_error& error) {
    const std::string text = loader_text(error.what(), file);
    throw_plugin({.where = where,
                  .failed = "the dynamic loader refused it: " + text,
                  .hint = mapping_hint(file.elf, text)});
  }
  file.copy->forget_name();
  library.copy = std::move(file.copy);
  library.host = host_of(file.note, find_group);
  return library;
}

}  // namespace

struct PluginLoader::Impl {
  // The plugin with its table and the options that the table points to.
  struct Record {
    LoadedPlugin plugin;
    mneme_plugin table;
    std::vector<mneme_option> options;
  };

  // What was asked for: name, folders, pin.
  using Request = std::tuple<std::string, std::vector<std::string>, std::string>;

  FindGroup find_group;
  PluginReads reads;
  std::map<std::string, std::unique_ptr<Record>> by_sha256;
  std::map<Request, const LoadedPlugin*> answers;  // where files are read once

  const LoadedPlugin& load(PluginFile& file, const std::string& where);
};

const LoadedPlugin& PluginLoader::Impl::load(PluginFile& file, const std::string& where) {
  const std::string sha256 = file.copy->sha256();
  const auto known = by_sha256.find(sha256);
  if (known != by_sha256.end()) return known->second->plugin;

  auto& mapped = libraries().by_sha256;
  auto library = mapped.find(sha256);
  if (library == mapped.end()) {
    library = mapped.emplace(sha256, map_library(file, find_group, where)).first;
  }
  const auto entry =
      library->second.handle.get<std::remove_pointer_t<mneme_negotiate_fn>>(MNEME_ENTRY_SYMBOL);
  const mneme_host& host = library->second.host;  // a map's node stays where it is
  Negotiated answer = negotiate(entry, file.note, host, where);
  if (!std::exchange(library->second.is_initialised, true)) {
    try {
      initialise(answer.table, host, where);
    } catch (...) {
      library->second.is_initialised = false;
      throw;
    }
  }
  auto record = std::make_unique<Record>();
  record->table = answer.table;
  record->options = std::move(answer.options);
  record->table.options = record->options.empty() ? nullptr : record->options.data();
  record->plugin = {.path = file.path,
                    .sha256 = sha256,
                    .note = file.note,
                    .python = file.python,
                    .host = &host,
                    .table = &record->table};
  return by_sha256.emplace(sha256, std::move(record)).first->second->plugin;
}

PluginLoader::PluginLoader(FindGroup find_group, PluginReads reads)
    : impl_(new Impl{.find_group = find_group, .reads = reads, .by_sha256 = {}, .answers = {}}) {}
PluginLoader::PluginLoader(PluginLoader&&) noexcept = default;
PluginLoader::~PluginLoader() = default;

const LoadedPlugin& PluginLoader::load(const std::string& name,
                                       const std::vector<std::string>& folders,
                                       const std::string& sha256, const std::string& where,
                                       FoldersFrom from) {
  const std::lock_guard lock(libraries().mutex);
  const Impl::Request request{name, folders, sha256};
  const auto known = impl_->answers.find(request);
  if (known != impl_->answers.end()) return *known->second;
  const std::string tier = str(where, where.empty() ? "" : ": ", "plugin '", name, "'");
  PluginFile file = find_loadable(name, folders, sha256, tier, from);
  const LoadedPlugin& plugin = impl_->load(file, str(tier, " (", file.path, ')'));
  if (impl_->reads == PluginReads::kOnce) impl_->answers.emplace(request, &plugin);
  return plugin;
}

}  // namespace mneme::plugin
