#include "host/base/text.hpp"

#include <nlohmann/json.hpp>
#include "host/cli/plugins/plugins.hpp"
#include "host/plugin/file/note.hpp"
#include "host/plugin/file/plugin_file.hpp"

namespace mneme::cli {
namespace {

// CUDART_VERSION 13000 as "13.0".
std::string cuda_runtime_text(std::uint32_t version) {
  return str(version / 1000, '.', version % 1000 / 10);
}

std::string cuda_text(const mneme_note& note) {
  if (note.cuda_runtime == 0) return "no CUDA code";
  return str("CUDA ", cuda_runtime_text(note.cuda_runtime), ", ", note.architectures);
}

std::string commit_text(const mneme_note& note) {
  const std::string commit = *note.commit == '\0' ? "unknown commit" : note.commit;
  return commit + ((note.flags & MNEME_NOTE_DIRTY) != 0 ? " with uncommitted changes" : "");
}

void print(const plugin::PluginEntry& entry, const Streams& streams) {
  if (!entry.note) {
    streams.out << entry.file << ": not a plugin\n    " << entry.problem << '\n';
    return;
  }
  streams.out << entry.file << ": " << entry.note->id << ' ' << entry.note->version << '\n'
              << note_text(*entry.note) << "    file " << entry.path << "\n    sha256 "
              << entry.sha256 << '\n';
  if (!entry.problem.empty()) streams.out << "    cannot be loaded: " << entry.problem << '\n';
}

Json json_of(const plugin::PluginEntry& entry) {
  Json json = {{"file", entry.path}, {"sha256", entry.sha256}, {"problem", entry.problem}};
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

int list_plugins(const PluginsListArguments& arguments, const Streams& streams) {
  arguments.json.check();
  Json folders = Json::array();
  const bool is_for_people = !arguments.json.is_stdout();
  for (const auto& folder : plugin_folders(arguments.folders)) {
    const auto entries = plugin::scan_folder(folder);
    Json files = Json::array();
    if (is_for_people && entries.empty()) {
      streams.out << folder.string() << ": no library (*.so)\n";
    }
    for (const plugin::PluginEntry& entry : entries) {
      if (is_for_people) print(entry, streams);
      files.push_back(json_of(entry));
    }
    folders.push_back({{"folder", folder.string()}, {"files", std::move(files)}});
  }
  arguments.json.write({{"folders", std::move(folders)}}, streams);
  return 0;
}

}  // namespace mneme::cli
