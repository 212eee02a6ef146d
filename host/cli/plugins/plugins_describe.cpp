#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>
#include <utility>

#include "host/memory/host_groups.hpp"
#include "host/base/error.hpp"
#include "host/base/log.hpp"
#include "host/cli/input.hpp"
#include "host/cli/plugins/plugins.hpp"
#include "host/cli/plugins/plugins_tier.hpp"
#include "host/config/experiment.hpp"
#include "host/config/options.hpp"
#include "host/plugin/loader.hpp"
#include "host/plugin/plugin_losses.hpp"
#include "host/plugin/plugin_options.hpp"
#include "host/train/dry_run.hpp"

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

std::string summary_of(const plugin::LoadedPlugin& plugin) {
  return plugin.table.summary == nullptr ? "" : plugin.table.summary;
}

// A path names its own folder; anything else is looked for in the folders.
const plugin::LoadedPlugin& load(const PluginsDescribeArguments& arguments,
                                 plugin::PluginLoader& loader) {
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

// "x" of "x" and "x.so".
std::string bare(const std::string& name) {
  return name.ends_with(".so") ? name.substr(0, name.size() - 3) : name;
}

bool is_called(const memory::TierOutline& tier, const std::string& name) {
  const fs::path file = tier.plugin->path;
  if (name.find('/') != std::string::npos) {
    std::error_code missing;
    return fs::equivalent(name, file, missing);
  }
  return name == tier.plugin->note.id || bare(name) == bare(file.filename().string()) ||
         bare(name) == bare(tier.called);
}

[[noreturn]] void refuse_name(const PluginsDescribeArguments& arguments,
                              const std::vector<memory::TierOutline>& tiers) {
  std::vector<std::string> there;
  std::vector<std::string> names;
  for (const memory::TierOutline& tier : tiers) {
    there.push_back(str(tier.name, " (", tier.plugin->path, ')'));
    names.insert(names.end(), {bare(tier.called), tier.plugin->note.id});
  }
  throw_usage({.where = "plugins describe --in " + arguments.experiment.string(),
               .failed = "no tier of this memory is of the plugin \"" + arguments.name + '"' +
                         did_you_mean(arguments.name, names),
               .expected = "the name, id or path of a tier's plugin",
               .got = there.empty() ? "a memory without tiers" : "the tiers " + join(there, ", "),
               .hint = "name another plugin, or another memory with --memory FILE"});
}

// The experiment's tiers of the plugin, at least one.
std::vector<memory::TierOutline> make_tiers(const PluginsDescribeArguments& arguments,
                                            plugin::PluginLoader& loader) {
  // What plugins say here is printed with their tiers.
  const LogListener silence([](LogLevel, std::string_view) { return false; });
  std::optional<fs::path> memory;
  if (!arguments.memory.empty()) memory = arguments.memory;
  const config::Experiment experiment =
      config::parse_experiment(arguments.experiment, arguments.set.overrides(), memory);
  std::vector<memory::TierOutline> tiers =
      train::outline_memory(experiment, loader)
          ->outlines(experiment.train.lanes, experiment.eval.lanes);
  const auto others = std::stable_partition(
      tiers.begin(), tiers.end(),
      [&](const memory::TierOutline& tier) { return is_called(tier, arguments.name); });
  if (others == tiers.begin()) refuse_name(arguments, tiers);
  tiers.erase(others, tiers.end());
  return tiers;
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

std::string losses_text(const plugin::LoadedPlugin& plugin) {
  const plugin::LossNames names = plugin::read_loss_names(plugin.table, plugin.path);
  if (!names) return "not declared: weight.<loss> is not checked";
  return names->empty() ? "none" : "weight." + join(*names, ", weight.");
}

Json plugin_json(const plugin::LoadedPlugin& plugin,
                 const std::vector<config::OptionSpec>& options) {
  Json list = Json::array();
  for (const config::OptionSpec& option : options) list.push_back(json_of(option));
  const plugin::LossNames losses = plugin::read_loss_names(plugin.table, plugin.path);
  return {{"file", plugin.path},           {"sha256", plugin.sha256},
          {"summary", summary_of(plugin)}, {"hooks", hooks_of(plugin.table)},
          {"options", std::move(list)},    {"losses", losses ? Json(*losses) : Json(nullptr)},
          {"note", note_json(plugin.note)}};
}

void print_plugin(const plugin::LoadedPlugin& plugin,
                  const std::vector<config::OptionSpec>& options, const Streams& streams) {
  const std::string summary = summary_of(plugin);
  streams.out << plugin.note.id << ' ' << plugin.note.version << '\n';
  if (!summary.empty()) streams.out << summary << '\n';
  streams.out << '\n'
              << note_text(plugin.note) << "    file " << plugin.path << "\n    sha256 "
              << plugin.sha256 << "\n\nhooks: " << join(hooks_of(plugin.table), ", ") << '\n';
  print_options(options, streams);
  streams.out << "auxiliary losses: " << losses_text(plugin) << '\n';
}

}  // namespace

int describe_plugin(const PluginsDescribeArguments& arguments, const Streams& streams) {
  arguments.json.check();
  plugin::PluginLoader loader{memory::find_group};
  std::vector<memory::TierOutline> tiers;
  if (!arguments.experiment.empty()) {
    tiers = read_input([&] { return make_tiers(arguments, loader); });
  }
  const plugin::LoadedPlugin& plugin =
      tiers.empty() ? load(arguments, loader) : *tiers.front().plugin;
  const auto options = plugin::option_specs(plugin.table, plugin.path);

  Json json = plugin_json(plugin, options);
  for (const memory::TierOutline& tier : tiers) json["tiers"].push_back(tier_json(tier));
  if (!arguments.json.is_stdout()) {
    print_plugin(plugin, options, streams);
    for (const memory::TierOutline& tier : tiers) streams.out << '\n' << tier_text(tier);
  }
  arguments.json.write(json, streams);
  return 0;
}

}  // namespace mneme::cli
