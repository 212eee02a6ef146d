// Finding, checking and mapping plugins (docs/design.md, "Loading and swapping").
//
// The way of a plugin from its name in TOML to its first hook, by the files of host/:
//
//   config/sections/memory_section.cpp  the name and the options of a tier: config::TierConfig
//   memory/tier/tier.cpp                Tier's constructor, which calls all that follows
//   plugin/plugin_search.cpp            the file of that name: find_loadable
//   plugin/file/plugin_file.cpp         its sealed copy and the checks before its code runs: PluginFile
//   plugin/loader.cpp                   the copy is mapped: Library, one a process
//   plugin/negotiate.cpp                its table of functions, checked, and init: LoadedPlugin
//   plugin/plugin_options.cpp           the schema of its options, for config/options.cpp
//   memory/tier/instance.cpp            create; what it declares goes through memory/abi: Instance
//   memory/segment/begin.cpp            the hook begin of the first segment
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "host/plugin/host_groups.hpp"
#include "host/plugin/plugin_search.hpp"
#include "host/plugin/python/wrap.hpp"
#include "mneme/note.h"

struct mneme_plugin;

namespace mneme::plugin {

// A mapped, negotiated plugin. Never unmapped; lives as long as the loader.
struct LoadedPlugin {
  std::string path;                  // the file as found
  std::string sha256;                // of the very bytes that run
  mneme_note note;                   // normalised
  PythonVersions python = {};        // of a memory in Python
  const mneme_host* host = nullptr;  // the host object given to this plugin
  // Normalised: fields beyond the plugin's struct_size are zero. Lives as long as the loader.
  const mneme_plugin* table = nullptr;
};

// Whether each load reads its file, which may have been replaced, or the first of those that ask
// for the same name, folders and pin.
enum class PluginReads { kEachTime, kOnce };

// Maps plugins. Bytes whose checksum is already loaded are not mapped again.
class PluginLoader {
 public:
  // `find_group` gives plugins the host's functions (memory::make_loader).
  explicit PluginLoader(FindGroup find_group, PluginReads reads = PluginReads::kEachTime);
  ~PluginLoader();
  PluginLoader(PluginLoader&&) noexcept;

  // Finds `name` (file name with or without ".so", or an id) in `folders`, reads the note, checks
  // the file, maps a sealed copy, negotiates and calls init. `where` ("file:line:column") starts
  // every message. sha256: the memory file's pin, "" = none. Errors: Error(kPlugin) naming the file
  // and the cause.
  const LoadedPlugin& load(const std::string& name, const std::vector<std::string>& folders,
                           const std::string& sha256, const std::string& where,
                           FoldersFrom from = FoldersFrom::kMemory);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace mneme::plugin
