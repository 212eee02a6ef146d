#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <sstream>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "host/base/error.hpp"
#include "host/base/log.hpp"
#include "host/base/text.hpp"
#include "host/cli/machine_arguments.hpp"
#include "host/cli/plugins/plugins.hpp"
#include "host/cli/streams.hpp"
#include "host/config/experiment.hpp"
#include "host/config/memory_file.hpp"
#include "host/config/options.hpp"
#include "host/memory/abi/groups.hpp"
#include "host/memory/stack/tier_outline.hpp"
#include "host/plugin/loader.hpp"
#include "host/plugin/plugin_options.hpp"
#include "host/plugin/python/wrap.hpp"
#include "host/train/dry_run.hpp"
#include "mneme/plugin.h"

namespace mneme::cli {
namespace {

namespace fs = std::filesystem;

struct PluginsDescribeArguments {
  std::string name;
  std::vector<fs::path> folders;
  fs::path experiment;  // --in; "" = the plugin alone
  fs::path memory;      // in place of the experiment's [memory]; "" = none
  SetArgument set;
  JsonArgument json;
};

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
  return plugin.table->summary == nullptr ? "" : plugin.table->summary;
}

// A path names its own folder; anything else is looked for in the folders.
const plugin::LoadedPlugin& load(const PluginsDescribeArguments& arguments,
                                 plugin::PluginLoader& loader) {
  std::error_code ignored;
  const bool is_python =
      config::is_python_memory(arguments.name) && fs::exists(arguments.name, ignored);
  if (arguments.name.find('/') != std::string::npos || is_python) {
    const fs::path path = fs::absolute(arguments.name).lexically_normal();
    return loader.load(path.filename().string(), {path.parent_path().string()}, "",
                       "plugins describe", plugin::FoldersFrom::kOption);
  }
  return loader.load(arguments.name, plugin_folders(arguments.folders), "", "plugins describe",
                     plugin::FoldersFrom::kOption);
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
         bare(name) == bare(tier.plugin_name);
}

[[noreturn]] void refuse_name(const PluginsDescribeArguments& arguments,
                              const std::vector<memory::TierOutline>& tiers) {
  std::vector<std::string> there;
  std::vector<std::string> names;
  for (const memory::TierOutline& tier : tiers) {
    there.push_back(str(tier.name, " (", tier.plugin->path, ')'));
    names.insert(names.end(), {bare(tier.plugin_name), tier.plugin->note.id});
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
  // Plugins' log lines are printed with their tiers instead.
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

Json json_of(const config::OptionSpec& option) {
  Json json = {{"key", option.key},
               {"type", std::string(config::option_type_text(option.type))},
               {"at_evaluation", option.may_differ_at_evaluation},
               {"trained", option.is_trained},
               {"text", option.text}};
  if (option.default_value) {
    std::visit([&](const auto& value) { json["default"] = value; }, *option.default_value);
  }
  const auto add_bounds = [&](const auto& range, const auto& unbounded) {
    if (range.min != unbounded.min) json["min"] = range.min;
    if (range.max != unbounded.max) json["max"] = range.max;
  };
  add_bounds(option.integers, config::IntegerRange{});
  add_bounds(option.reals, config::RealRange{});
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
                << (option.default_value ? "default " + config::option_text(*option.default_value)
                                         : "required")
                << (option.may_differ_at_evaluation ? "; eval_" + option.key + " at evaluation"
                                                    : "")
                << (option.is_trained ? "; fixed once trained" : "") << "\n        " << option.text
                << '\n';
  }
}

std::string losses_text(const plugin::LoadedPlugin& plugin) {
  const plugin::LossNames names = plugin::read_loss_names(*plugin.table, plugin.path);
  if (!names) return "not declared: weight.<loss> is not checked";
  return names->empty() ? "none" : "weight." + join(*names, ", weight.");
}

Json plugin_json(const plugin::LoadedPlugin& plugin,
                 const std::vector<config::OptionSpec>& options) {
  Json list = Json::array();
  for (const config::OptionSpec& option : options) list.push_back(json_of(option));
  const plugin::LossNames losses = plugin::read_loss_names(*plugin.table, plugin.path);
  Json json = {{"file", plugin.path},           {"sha256", plugin.sha256},
               {"summary", summary_of(plugin)}, {"hooks", hooks_of(*plugin.table)},
               {"options", std::move(list)},    {"losses", losses ? Json(*losses) : Json(nullptr)},
               {"note", note_json(plugin.note)}};
  if (!plugin.python.empty()) json["python"] = plugin.python;
  return json;
}

void print_plugin(const plugin::LoadedPlugin& plugin,
                  const std::vector<config::OptionSpec>& options, const Streams& streams) {
  const std::string summary = summary_of(plugin);
  streams.out << plugin.note.id << ' ' << plugin.note.version << '\n';
  if (!summary.empty()) streams.out << summary << '\n';
  streams.out << '\n'
              << note_text(plugin.note) << "    file " << plugin.path << "\n    sha256 "
              << plugin.sha256 << '\n'
              << (plugin.python.empty()
                      ? ""
                      : str("    runs with ", plugin::versions_text(plugin.python), '\n'))
              << "\nhooks: " << join(hooks_of(*plugin.table), ", ") << '\n';
  print_options(options, streams);
  streams.out << "auxiliary losses: " << losses_text(plugin) << '\n';
}

using memory::InstanceOutline;
using memory::ParameterOutline;
using memory::QueueOutline;
using memory::StateOutline;
using memory::TierOutline;

Json extent_json(std::int64_t extent) {
  if (extent == MNEME_LANES) return "B";
  if (extent == MNEME_ANY) return "any";
  return extent;
}

Json shape_json(const std::vector<std::int64_t>& dims) {
  Json json = Json::array();
  for (const std::int64_t extent : dims) json.push_back(extent_json(extent));
  return json;
}

// "[B, 64, 32]"
std::string shape_text(const std::vector<std::int64_t>& dims) {
  std::vector<std::string> words;
  for (const std::int64_t extent : dims) {
    const Json json = extent_json(extent);
    words.push_back(json.is_string() ? json.get<std::string>() : json.dump());
  }
  return '[' + join(words, ", ") + ']';
}

std::string scope_text(bool is_model_scope) { return is_model_scope ? "for the model" : "a layer"; }

std::string bytes_text(const std::optional<std::int64_t>& bytes) {
  return bytes ? str(*bytes, " bytes") : "bytes depend on what is written";
}

std::int64_t numbers_of(const TierOutline& tier) {
  return std::accumulate(
      tier.parameters.begin(), tier.parameters.end(), std::int64_t{0},
      [](std::int64_t sum, const ParameterOutline& one) { return sum + one.count; });
}

std::string words_or_none(const std::vector<std::string>& words) {
  return words.empty() ? "nothing" : join(words, ", ");
}

void write_slots(std::ostream& out, const InstanceOutline& instance) {
  for (const StateOutline& slot : instance.slots) {
    out << "            slot " << slot.name << ' ' << shape_text(slot.dims) << ' ' << slot.dtype
        << ' ' << scope_text(slot.is_model_scope) << ": " << bytes_text(slot.bytes) << '\n';
  }
  for (const QueueOutline& queue : instance.queues) {
    out << "            queue " << queue.name << ' ' << shape_text(queue.dims) << ' ' << queue.dtype
        << ' ' << scope_text(queue.is_model_scope) << ", " << queue.rows;
    if (!queue.attributes.empty()) out << " with " << join(queue.attributes, ", ");
    if (queue.start_rows > 0) out << ", " << queue.start_rows << " at the start";
    out << ": " << bytes_text(queue.bytes) << (queue.bytes ? " when full\n" : "\n");
  }
}

void write_instance(std::ostream& out, const std::string& title, const InstanceOutline& instance) {
  out << "    " << title << ", segments of " << instance.segment << ":\n"
      << "        absorbs: " << instance.absorbs
      << "; reads at: " << words_or_none(instance.reads_at)
      << "; wants: " << words_or_none(instance.wants) << '\n'
      << "        context: "
      << (instance.context_rows > 0 ? str("at most ", instance.context_rows, " rows a layer")
                                    : std::string("no rows"))
      << (instance.read_rows > 0 ? str("; reads at most ", instance.read_rows, " rows a layer")
                                 : "")
      << "; segments of "
      << (instance.max_segment > 0 ? str("at most ", instance.max_segment, " tokens")
                                   : std::string("any length"))
      << '\n';
  if (!instance.behaviour.empty()) out << "        " << join(instance.behaviour, "; ") << '\n';
  out << "        state of " << instance.lanes << " lanes (B), over all layers:"
      << (instance.slots.empty() && instance.queues.empty() ? " none\n" : "\n");
  write_slots(out, instance);
  out << "        logged while it was made:" << (instance.logged.empty() ? " nothing\n" : "\n");
  for (const memory::LoggedLine& line : instance.logged) {
    out << "            " << to_word(line.level) << ' ' << line.text << '\n';
  }
}

Json json_of(const StateOutline& state) {
  return {{"name", state.name},
          {"shape", shape_json(state.dims)},
          {"dtype", state.dtype},
          {"scope", state.is_model_scope ? "model" : "layer"},
          {"bytes", state.bytes ? Json(*state.bytes) : Json(nullptr)}};
}

Json json_of(const QueueOutline& queue) {
  Json json = json_of(static_cast<const StateOutline&>(queue));
  json["rows"] = queue.rows;
  json["attributes"] = queue.attributes;
  json["start_rows"] = queue.start_rows;
  json["capacity"] =
      queue.capacity != 0 ? Json(std::max<std::int64_t>(queue.capacity, 0)) : Json(nullptr);
  return json;
}

Json json_of(const ParameterOutline& parameter) {
  return {{"name", parameter.name},
          {"shape", shape_json(parameter.dims)},
          {"scope", parameter.is_model_scope ? "model" : "layer"},
          {"count", parameter.count}};
}

Json json_of(const memory::LoggedLine& line) {
  return {{"level", std::string(to_word(line.level))}, {"text", line.text}};
}

template <typename T>
Json list_json(const std::vector<T>& parts) {
  Json json = Json::array();
  for (const T& part : parts) json.push_back(json_of(part));
  return json;
}

Json json_of(const InstanceOutline& instance) {
  return {{"segment", instance.segment},
          {"lanes", instance.lanes},
          {"absorbs", instance.absorbs},
          {"reads_at", instance.reads_at},
          {"wants", instance.wants},
          {"behaviour", instance.behaviour},
          {"context_rows", instance.context_rows},
          {"read_rows", instance.read_rows > 0 ? Json(instance.read_rows) : Json(nullptr)},
          {"max_segment", instance.max_segment > 0 ? Json(instance.max_segment) : Json(nullptr)},
          {"slots", list_json(instance.slots)},
          {"queues", list_json(instance.queues)},
          {"logged", list_json(instance.logged)}};
}

// What the tier declares, and what its plugin logged meanwhile, as lines of text and as JSON.
// Shapes hold "B" for lanes and "any" for an extent that changes.
std::string tier_text(const TierOutline& tier) {
  std::ostringstream out;
  out << "tier " << tier.name << " (" << tier.place << "), layers " << list_text(tier.served)
      << "\n    file " << tier.plugin->path << "\n    parameters: " << numbers_of(tier)
      << " numbers over all layers\n";
  for (const ParameterOutline& parameter : tier.parameters) {
    out << "        " << parameter.name << ' ' << shape_text(parameter.dims) << ' '
        << scope_text(parameter.is_model_scope) << ": " << parameter.count << '\n';
  }
  write_instance(out, tier.evaluation ? "in training" : "in training and evaluation",
                 tier.training);
  if (tier.evaluation) write_instance(out, "in evaluation", *tier.evaluation);
  return out.str();
}

Json tier_json(const TierOutline& tier) {
  return {{"tier", tier.name},
          {"place", tier.place},
          {"file", tier.plugin->path},
          {"sha256", tier.plugin->sha256},
          {"layers", tier.served},
          {"parameter_count", numbers_of(tier)},
          {"parameters", list_json(tier.parameters)},
          {"training", json_of(tier.training)},
          {"evaluation", tier.evaluation ? json_of(*tier.evaluation) : Json(nullptr)}};
}

// Loads a plugin and prints what it is; with --in also what it declares and logs as a tier of that
// experiment, without data or training. Error (kPlugin) when it cannot be loaded or made; Error
// (kUsage) for an experiment that cannot be read or has no such tier.
int describe_plugin(const PluginsDescribeArguments& arguments, const Streams& streams) {
  arguments.json.check();
  plugin::PluginLoader loader = memory::make_loader();
  std::vector<memory::TierOutline> tiers;
  if (!arguments.experiment.empty()) {
    tiers = read_input([&] { return make_tiers(arguments, loader); });
  }
  const plugin::LoadedPlugin& plugin =
      tiers.empty() ? load(arguments, loader) : *tiers.front().plugin;
  const auto options = plugin::option_specs(*plugin.table, plugin.path);

  Json json = plugin_json(plugin, options);
  for (const memory::TierOutline& tier : tiers) json["tiers"].push_back(tier_json(tier));
  if (!arguments.json.is_stdout()) {
    std::ostringstream text;
    print_plugin(plugin, options, {.out = text, .err = streams.err});
    for (const memory::TierOutline& tier : tiers) text << '\n' << tier_text(tier);
    streams.out << fit_lines(text.str(), streams.out_width);
  }
  arguments.json.write(json, streams);
  return 0;
}

}  // namespace

config::OptionSpec option_spec(const Json& option) {
  using config::OptionType;
  config::OptionSpec out{.key = option.at("key").get<std::string>(),
                         .default_value = std::int64_t{0},
                         .choices = option.value("choices", std::vector<std::string>()),
                         .may_differ_at_evaluation = option.at("at_evaluation").get<bool>()};
  for (const OptionType type :
       {OptionType::kInteger, OptionType::kReal, OptionType::kBoolean, OptionType::kText,
        OptionType::kChoice, OptionType::kIntegerList, OptionType::kRealList}) {
    if (option.at("type") == Json(std::string(config::option_type_text(type)))) out.type = type;
  }
  const auto read_bounds = [&](auto& range) {
    range.min = option.value("min", range.min);
    range.max = option.value("max", range.max);
  };
  if (out.type == OptionType::kInteger || out.type == OptionType::kIntegerList) {
    read_bounds(out.integers);
  } else {
    read_bounds(out.reals);
  }
  return out;
}

void add_plugins_describe(const Command& plugins) {
  const Command command =
      plugins.subcommand("describe",
                         "Load one plugin and print its summary, hooks and options; with --in also "
                         "what it declares and logs as a tier of an experiment");
  const auto arguments = std::make_shared<PluginsDescribeArguments>();
  command.option("NAME", arguments->name, "", "File name, id, or path of the plugin", {required});
  add_plugin_folders(command, arguments->folders);
  command.option("--in", arguments->experiment, "EXP",
                 "Make the plugin's tiers as this experiment does, without data and training");
  command.option("--memory", arguments->memory, "FILE",
                 "Memory file to use in place of the experiment's [memory]");
  arguments->set.add(command);
  arguments->json.add(command);
  command.examples(
      {"mneme plugins describe my_memory",
       "mneme plugins describe ./build/my_memory.so --json my_memory.json",
       "mneme plugins describe my_memory --in configs/quickstart.toml --memory my.toml"});
  command.runs(arguments, &describe_plugin, nullptr, {R"(
--in refuses --plugins: names the folders to look in
--memory, --set, --unset needs --in
)"});
}

}  // namespace mneme::cli
