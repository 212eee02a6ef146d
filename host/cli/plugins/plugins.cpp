// mneme plugins list | describe
#include "host/cli/plugins/plugins.hpp"

#include <CLI/CLI.hpp>
#include <memory>

#include "host/cli/command.hpp"

namespace mneme::cli {
namespace {

// Where the plugin is looked for: in folders, or among the tiers of an experiment.
void add_experiment(CLI::App& describe, PluginsDescribeArguments& arguments) {
  add_plugin_folders(describe, arguments.folders);
  CLI::Option* const in =
      describe
          .add_option("--in", arguments.experiment,
                      "Make the plugin's tiers as this experiment does, without data and training")
          ->type_name("EXP")
          ->excludes(describe.get_option("--plugins"));
  describe
      .add_option("--memory", arguments.memory,
                  "With --in: memory file to use in place of the experiment's [memory]")
      ->type_name("FILE")
      ->needs(in);
  arguments.set.add(describe);
  describe.get_option("--set")->needs(in);
  describe.get_option("--unset")->needs(in);
}

}  // namespace

void add_plugins(CLI::App& app, Action& action) {
  CLI::App* const plugins = app.add_subcommand("plugins", "List and describe memory plugins");
  plugins->require_subcommand(1);
  set_examples(*plugins, {"mneme plugins list", "mneme plugins describe my_memory"});

  CLI::App* const list = plugins->add_subcommand(
      "list", "List the plugins of a folder by their notes; runs no code of theirs");
  const auto list_arguments = std::make_shared<PluginsListArguments>();
  add_plugin_folders(*list, list_arguments->folders);
  list_arguments->json.add(*list);
  set_examples(*list, {"mneme plugins list",
                       "mneme plugins list --plugins build/my_memory --json plugins.json"});
  list->callback([list_arguments, &action] {
    action = [list_arguments](const Streams& streams) {
      return list_plugins(*list_arguments, streams);
    };
  });

  CLI::App* const describe = plugins->add_subcommand(
      "describe",
      "Load one plugin and print its summary, hooks and options; with --in also what it declares "
      "and logs as a tier of an experiment");
  const auto arguments = std::make_shared<PluginsDescribeArguments>();
  describe->add_option("NAME", arguments->name, "File name, id, or path of the plugin")
      ->required()
      ->type_name("");
  add_experiment(*describe, *arguments);
  arguments->json.add(*describe);
  set_examples(*describe,
               {"mneme plugins describe my_memory",
                "mneme plugins describe ./build/my_memory.so --json my_memory.json",
                "mneme plugins describe my_memory --in configs/quickstart.toml --memory my.toml"});
  describe->callback([arguments, &action] {
    action = [arguments](const Streams& streams) { return describe_plugin(*arguments, streams); };
  });
}

}  // namespace mneme::cli
