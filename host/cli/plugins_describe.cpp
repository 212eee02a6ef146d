#include <filesystem>
#include <utility>

#include "host/base/text.hpp"
#include "host/cli/plugins.hpp"
#include "host/config/options.hpp"
#include "host/memory/loader.hpp"
#include "host/memory/plugin_options.hpp"

namespace mneme::cli {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> hooks_of(const mneme_plugin& table) {
  std::vector<std::string> hooks;
  const auto add = [&](const char* name, bool is_there) {
    if (is_there) hooks.emplace_back(name);
  };
  add("begin", table.begin != nullptr);
  add("absorb", table.absorb != nullptr);
  add("context", table.context != nullptr);
  add("ride", table.ride != nullptr);
  add("read", table.read != nullptr);
  add("finish", table.finish != nullptr);
  return hooks;
}

// A path names its own folder; anything else is looked for in the folders.
const memory::LoadedPlugin& load(const PluginsDescribeArguments& arguments,
                                 memory::PluginLoader& loader) {
  if (arguments.name.find('/') != std::string::npos) {
    const fs::path path = fs::absolute(arguments.name).lexically_normal();
    return loader.load(path.filename().string(), {path.parent_path().string()}, "",
                       "plugins describe");
  }
  std::vector<std::string> folders;
  for (const fs::path& folder : plugin_folders(arguments.folders))
    folders.push_back(folder.string());
  return loader.load(arguments.name, folders, "", "plugins describe");
}

std::string default_text(const config::OptionSpec& option) {
  return option.default_value ? config::option_text(*option.default_value) : "required";
}

Json json_of(const config::OptionSpec& option) {
  Json json = {{"key", option.key},
               {"type", std::string(config::option_type_text(option.type))},
               {"at_evaluation", option.may_differ_at_evaluation},
               {"trained", option.is_trained},
               {"text", option.text}};
  if (option.default_value) {
    std::visit([&](const auto& value) { json["default"] = value; }, *option.default_value);
  }
  if (option.min) json["min"] = *option.min;
  if (option.max) json["max"] = *option.max;
  if (!option.choices.empty()) json["choices"] = option.choices;
  return json;
}

void print_options(const std::vector<config::OptionSpec>& options, const Streams& streams) {
  if (options.empty()) {
    streams.out << "options: none\n";
    return;
  }
  streams.out << "options (keys of [[memory.tier]]):\n";
  for (const config::OptionSpec& option : options) {
    streams.out << "    " << option.key << ": " << config::option_expectation(option) << "; "
                << (option.default_value ? "default " : "") << default_text(option)
                << (option.may_differ_at_evaluation ? "; eval_" + option.key + " at evaluation"
                                                    : "")
                << (option.is_trained ? "; fixed once trained" : "") << "\n        " << option.text
                << '\n';
  }
}

}  // namespace

int describe_plugin(const PluginsDescribeArguments& arguments, const Streams& streams) {
  arguments.json.check();
  memory::PluginLoader loader;
  const memory::LoadedPlugin& plugin = load(arguments, loader);
  const auto options = memory::option_specs(plugin.table, plugin.path);
  const std::vector<std::string> hooks = hooks_of(plugin.table);
  const std::string summary = plugin.table.summary == nullptr ? "" : plugin.table.summary;

  Json list = Json::array();
  for (const config::OptionSpec& option : options) list.push_back(json_of(option));
  arguments.json.write({{"file", plugin.path},
                        {"sha256", plugin.sha256},
                        {"summary", summary},
                        {"hooks", hooks},
                        {"options", std::move(list)},
                        {"note", note_json(plugin.note)}},
                       streams);
  if (arguments.json.is_stdout()) return 0;
  streams.out << plugin.note.id << ' ' << plugin.note.version << '\n';
  if (!summary.empty()) streams.out << summary << '\n';
  streams.out << '\n'
              << note_text(plugin.note) << "    file " << plugin.path << "\n    sha256 "
              << plugin.sha256 << "\n\nhooks: " << join(hooks, ", ") << '\n';
  print_options(options, streams);
  return 0;
}

}  // namespace mneme::cli
