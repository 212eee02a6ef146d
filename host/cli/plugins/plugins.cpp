// mneme plugins: its commands, of them list; mneme abi

#include "host/cli/plugins/plugins.hpp"

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "host/base/error.hpp"
#include "host/base/text.hpp"
#include "host/cli/arguments.hpp"
#include "host/cli/cli.hpp"
#include "host/cli/machine_arguments.hpp"
#include "host/cli/streams.hpp"
#include "host/memory/abi/groups.hpp"
#include "host/ops/op_table.hpp"
#include "host/plugin/file/note.hpp"
#include "host/plugin/file/plugin_file.hpp"
#include "host/plugin/loader.hpp"
#include "mneme/plugin.h"

namespace mneme::cli {
namespace {

std::string cuda_text(const mneme_note& note) {
  if (note.cuda_runtime == 0) return "no CUDA code";
  const std::uint32_t version = note.cuda_runtime;  // 13000 is 13.0
  return str("CUDA ", version / 1000, '.', version % 1000 / 10, ", ", note.architectures);
}

std::string commit_text(const mneme_note& note) {
  const std::string commit = *note.commit == '\0' ? "unknown commit" : note.commit;
  return commit + ((note.flags & MNEME_NOTE_DIRTY) != 0 ? " with uncommitted changes" : "");
}

std::string text_of(const plugin::PluginEntry& entry, const std::string& summary) {
  if (!entry.note) {
    const char* const what = plugin::is_other_file(entry) ? "not a plugin" : "cannot be loaded";
    return str(entry.file, ": ", what, "\n    ", entry.problem, '\n');
  }
  std::string text = str(entry.file, ": ", entry.note->id, ' ', entry.note->version, '\n',
                         summary.empty() ? "" : str("    ", summary, '\n'), note_text(*entry.note),
                         "    file ", entry.path, "\n    sha256 ", entry.sha256, '\n');
  if (!entry.problem.empty()) text += "    cannot be loaded: " + entry.problem + '\n';
  return text;
}

Json json_of(const plugin::PluginEntry& entry, const std::string& summary) {
  Json json = {{"file", entry.path},
               {"sha256", entry.sha256},
               {"problem", entry.problem},
               {"summary", summary}};
  json["note"] = entry.note ? note_json(*entry.note) : Json(nullptr);
  return json;
}

// The groups of host functions that the note lists; "" when it lists none.
std::string groups_text(const mneme_note& note) {
  std::vector<std::string> needed;
  std::vector<std::string> optional;
  for (plugin::NoteFeature& feature : plugin::note_features(note)) {
    (feature.is_optional ? optional : needed).push_back(std::move(feature.id));
  }
  std::vector<std::string> parts;
  if (!needed.empty()) parts.push_back("needs " + join(needed, ", "));
  if (!optional.empty()) parts.push_back("can use " + join(optional, ", "));
  return parts.empty() ? "" : str("    ", join(parts, "; "), '\n');
}

}  // namespace

std::string note_text(const mneme_note& note) {
  return str("    ABI ", plugin::abi_range_text(note.abi_min, note.abi_target), ", SDK ", note.sdk,
             ", ", note.compiler, ", ", commit_text(note), ", ", cuda_text(note), '\n',
             groups_text(note));
}

Json note_json(const mneme_note& note) {
  return {{"id", note.id},
          {"version", note.version},
          {"abi_min", plugin::abi_text(note.abi_min)},
          {"abi_target", plugin::abi_text(note.abi_target)},
          {"sdk", note.sdk},
          {"compiler", note.compiler},
          {"commit", note.commit},
          {"dirty", (note.flags & MNEME_NOTE_DIRTY) != 0},
          {"cuda_runtime", note.cuda_runtime},
          {"cuda_architectures", plugin::note_words(note.architectures)},
          {"features", plugin::note_words(note.features)},
          {"libraries", plugin::note_words(note.libraries)}};
}

namespace {

// What a plugin of the program's own folder is, in its own words: the note has no room for it, so
// the plugin is loaded. "" when it has no words or cannot be loaded.
std::string own_summary(const plugin::PluginEntry& entry, plugin::PluginLoader& loader) {
  if (!entry.note || !entry.problem.empty()) return "";
  try {
    const std::string folder = std::filesystem::path(entry.path).parent_path().string();
    const auto& plugin = loader.load(entry.file, {folder}, entry.sha256, "plugins list");
    return plugin.table->summary == nullptr ? "" : plugin.table->summary;
  } catch (const Error&) {
    return "";
  }
}

struct PluginsListArguments {
  std::vector<std::filesystem::path> folders;
  JsonArgument json;
};

// Prints every library of the folders: what its note says, or why it is no plugin. Executes nothing
// of them. Error (kPlugin) for a folder that cannot be read.
int list_plugins(const PluginsListArguments& arguments, const Streams& streams) {
  arguments.json.check();
  const bool is_own = arguments.folders.empty();
  plugin::PluginLoader loader = memory::make_loader();
  Json folders = Json::array();
  std::ostream& out = arguments.json.text(streams);
  for (const auto& folder : plugin_folders(arguments.folders)) {
    const auto entries = plugin::scan_folder(folder);
    Json files = Json::array();
    if (entries.empty()) out << folder << ": no library (*.so)\n";
    for (const plugin::PluginEntry& entry : entries) {
      const std::string summary = is_own ? own_summary(entry, loader) : "";
      out << fit_lines(text_of(entry, summary), streams.out_width);
      files.push_back(json_of(entry, summary));
    }
    folders.push_back({{"folder", folder}, {"files", std::move(files)}});
  }
  arguments.json.write({{"folders", std::move(folders)}}, streams);
  return 0;
}

}  // namespace

void add_plugins(const Command& app) {
  const Command plugins = app.subcommand(
      "plugins",
      "Memory plugins: list, describe, try, validate, same, make a new one, port, wrap, lock");
  plugins.require_subcommand();
  plugins.examples({"mneme plugins list", "mneme plugins describe my_memory",
                    "mneme plugins validate my_memory", "mneme plugins new my_memory"});

  const Command list = plugins.subcommand(
      "list",
      "List the plugins of a folder by the notes in their files, without running "
      "them; the program's own plugins are run, to say what they are");
  const auto list_arguments = std::make_shared<PluginsListArguments>();
  add_plugin_folders(list, list_arguments->folders);
  list_arguments->json.add(list);
  list.examples(
      {"mneme plugins list", "mneme plugins list --plugins build/my_memory --json plugins.json"});
  list.runs(list_arguments, &list_plugins);

  add_plugins_describe(plugins);
  add_plugins_try(plugins);
  add_plugins_validate(plugins);
  add_plugins_same(plugins);
  add_plugins_new(plugins);
  add_plugins_port(plugins);
  add_plugins_wrap(plugins);
  add_plugins_lock(plugins);
}

// --- mneme abi ops ---

namespace {

int print(const std::optional<std::string>& json_file, const Streams& streams) {
  if (!json_file || *json_file == "-") {
    std::ostringstream text;
    ops::print_ops(text, json_file.has_value());
    streams.out << (json_file ? text.str() : fit_lines(text.str(), streams.out_width));
    return 0;
  }
  // The parser checks no value of an option that may have none.
  if (json_file->empty()) throw_usage("abi ops --json: expected a path, got an empty text");
  JsonArgument json(*json_file);
  std::ostringstream text;
  ops::print_ops(text, true);
  json.write(Json::parse(text.str()), streams);
  return 0;
}

}  // namespace

void add_abi(const Command& app) {
  const Command abi = app.subcommand("abi", "Show what the host offers to plugins");
  abi.require_subcommand();
  abi.examples({"mneme abi ops", "mneme abi ops --json ops.json"});

  const Command ops = abi.subcommand("ops", "Print the schema of every op");
  const auto file = std::make_shared<std::optional<std::string>>();
  ops.option("--json", *file, "[FILE]", "Print JSON, or write it to FILE", {optional_value("-")});
  ops.examples({"mneme abi ops", "mneme abi ops --json ops.json"});
  ops.runs(file, &print);
}

}  // namespace mneme::cli
