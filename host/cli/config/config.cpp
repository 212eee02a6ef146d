// mneme config keys | show | check
#include "host/cli/config/config.hpp"

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "host/base/error.hpp"
#include "host/cli/command.hpp"
#include "host/cli/input.hpp"
#include "host/train/experiment_check.hpp"

namespace mneme::cli {
namespace {

train::ExperimentSource source_of(const ConfigFileArguments& arguments, const char* command) {
  if (arguments.memory.size() > 1) {
    throw_usage("config ", command, " --memory: expected one file, got ", arguments.memory.size());
  }
  train::ExperimentSource source{.path = arguments.experiment};
  if (!arguments.memory.empty()) source.memory = arguments.memory.front();
  source.overrides = arguments.set.overrides();
  return source;
}

Json json_of(const config::Value& value) {
  switch (value.kind()) {
    case config::Kind::kString:
      return value.as_string();
    case config::Kind::kInteger:
      return value.as_integer();
    case config::Kind::kReal:
      return value.as_real();
    case config::Kind::kBoolean:
      return value.as_boolean();
    case config::Kind::kArray: {
      Json json = Json::array();
      for (const config::Value& item : value.items()) json.push_back(json_of(item));
      return json;
    }
    case config::Kind::kTable:
      break;
  }
  Json json = Json::object();
  for (const config::Member& member : value.members()) json[member.key] = json_of(member.value);
  return json;
}

void add_keys(CLI::App& config, Action& action) {
  CLI::App* const command = config.add_subcommand(
      "keys", "List the keys of an experiment file: types, defaults, meaning");
  const auto arguments = std::make_shared<ConfigKeysArguments>();
  command->add_option("TABLE", arguments->tables, "Tables to list, as train or memory.tier")
      ->type_name("");
  command->add_flag("--markdown", arguments->is_markdown, "As the page docs/configuration.md");
  arguments->json.add(*command);
  set_examples(*command, {"mneme config keys", "mneme config keys train memory.tier",
                          "mneme config keys --json keys.json"});
  command->callback([arguments, &action] {
    action = [arguments](const Streams& streams) { return list_keys(*arguments, streams); };
  });
}

void add_file_command(CLI::App& config, Action& action, const std::string& name,
                      const std::string& help,
                      int (*run)(const ConfigFileArguments&, const Streams&),
                      const std::vector<std::string>& examples) {
  CLI::App* const command = config.add_subcommand(name, help);
  const auto arguments = std::make_shared<ConfigFileArguments>();
  command->add_option("EXP", arguments->experiment, "The experiment file")
      ->required()
      ->type_name("");
  add_memory_files(*command, arguments->memory,
                   "Memory file to use in place of the experiment's [memory]");
  arguments->set.add(*command);
  arguments->json.add(*command);
  set_examples(*command, examples);
  command->callback([arguments, run, &action] {
    action = [arguments, run](const Streams& streams) { return run(*arguments, streams); };
  });
}

}  // namespace

int show_experiment(const ConfigFileArguments& arguments, const Streams& streams) {
  arguments.json.check();
  const train::ExperimentSource source = source_of(arguments, "show");
  const std::string text =
      config::to_toml(read_input([&] { return train::resolve_experiment(source); }));
  arguments.json.write(
      {{"format", "mneme-config"}, {"experiment", json_of(config::parse_toml(text, "experiment"))}},
      streams);
  if (!arguments.json.is_stdout()) streams.out << text;
  return 0;
}

int check_experiment(const ConfigFileArguments& arguments, const Streams& streams) {
  arguments.json.check();
  const train::ExperimentSource source = source_of(arguments, "check");
  const train::ExperimentCheck check = read_input([&] { return train::check_experiment(source); });
  arguments.json.write({{"format", "mneme-config-check"},
                        {"path", arguments.experiment.string()},
                        {"checked", check.checked}},
                       streams);
  if (arguments.json.is_stdout()) return 0;
  streams.out << arguments.experiment.string() << ": nothing is wrong with\n";
  for (const std::string& line : check.checked) streams.out << "  " << line << '\n';
  streams.out << "Sizes, memory, schedule and the data's content: mneme train "
              << arguments.experiment.string() << " --dry-run\n";
  return 0;
}

void add_config(CLI::App& app, Action& action) {
  CLI::App* const config =
      app.add_subcommand("config", "List the keys of experiment files; show and check a file");
  config->require_subcommand(1);
  set_examples(*config, {"mneme config keys train", "mneme config show configs/quickstart.toml",
                         "mneme config check configs/quickstart.toml"});
  add_keys(*config, action);
  add_file_command(*config, action, "show",
                   "Print an experiment with every default filled in, as TOML", show_experiment,
                   {"mneme config show configs/quickstart.toml",
                    "mneme config show configs/quickstart.toml --memory my_memory.toml --set "
                    "train.steps=50"});
  add_file_command(*config, action, "check",
                   "Check keys, plugins' options and files of an experiment without running it",
                   check_experiment,
                   {"mneme config check configs/quickstart.toml",
                    "mneme config check configs/quickstart.toml --memory my_memory.toml"});
}

}  // namespace mneme::cli
