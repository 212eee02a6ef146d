// The commands about plugins.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "host/base/text.hpp"
#include "host/cli/arguments.hpp"
#include "host/cli/streams.hpp"
#include "host/memory/stack/tier_outline.hpp"
#include "mneme/note.h"

namespace mneme::cli {

struct PluginsListArguments {
  std::vector<std::filesystem::path> folders;
  JsonArgument json;
};

struct PluginsDescribeArguments {
  std::string name;
  std::vector<std::filesystem::path> folders;
  std::filesystem::path experiment;  // --in; "" = the plugin alone
  std::filesystem::path memory;      // in place of the experiment's [memory]; "" = none
  SetArgument set;
  JsonArgument json;
};

// Add mneme plugins try, validate, new and lock.
void add_plugins_try(const Command& plugins);
void add_plugins_validate(const Command& plugins);
void add_plugins_new(const Command& plugins);
void add_plugins_lock(const Command& plugins);

// Prints every library of the folders: what its note says, or why it is no plugin. Executes nothing
// of them. Error (kPlugin) for a folder that cannot be read.
int list_plugins(const PluginsListArguments& arguments, const Streams& streams);

// Loads a plugin and prints what it is; with --in also what it declares and logs as a tier of that
// experiment, without data or training. Error (kPlugin) when it cannot be loaded or made; Error
// (kUsage) for an experiment that cannot be read or has no such tier.
int describe_plugin(const PluginsDescribeArguments& arguments, const Streams& streams);

// A note as text (indented lines) and as JSON.
[[nodiscard]] std::string note_text(const mneme_note& note);
[[nodiscard]] Json note_json(const mneme_note& note);

// --- mneme plugins describe NAME --in EXP: a tier as the experiment makes it ---

// What the tier declares, and what its plugin logged meanwhile, as lines of text and as JSON.
// Shapes hold "B" for lanes and "any" for an extent that changes.
[[nodiscard]] std::string tier_text(const memory::TierOutline& tier);
[[nodiscard]] Json tier_json(const memory::TierOutline& tier);

}  // namespace mneme::cli
