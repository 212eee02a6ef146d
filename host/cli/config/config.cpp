// mneme config keys | show | check
#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "host/base/error.hpp"
#include "host/base/text.hpp"
#include "host/cli/arguments.hpp"
#include "host/cli/cli.hpp"
#include "host/cli/streams.hpp"
#include "host/config/keys.hpp"
#include "host/config/suite.hpp"
#include "host/config/toml/value_json.hpp"
#include "host/data/dataset.hpp"
#include "host/train/dry_run.hpp"

namespace mneme::cli {
namespace {

struct ConfigKeysArguments {
  std::vector<std::string> tables;  // "model", "memory.tier"; none = all
  bool is_markdown = false;
  JsonArgument json;
};

struct ConfigFileArguments {
  std::filesystem::path experiment;
  std::vector<std::filesystem::path> memory;  // at most one
  SetArgument set;
  JsonArgument json;
};

train::ExperimentSource source_of(const ConfigFileArguments& arguments, const char* command) {
  if (arguments.memory.size() > 1) {
    throw_usage("config ", command, " --memory: expected one file, got ", arguments.memory.size());
  }
  train::ExperimentSource source{.path = arguments.experiment};
  if (!arguments.memory.empty()) source.memory = arguments.memory.front();
  source.overrides = arguments.set.overrides();
  return source;
}

// Prints an experiment with every default filled in, as TOML that means the same.
int show_experiment(const ConfigFileArguments& arguments, const Streams& streams) {
  arguments.json.check();
  const train::ExperimentSource source = source_of(arguments, "show");
  const std::string text =
      config::to_toml(read_input([&] { return train::resolve_experiment(source); }));
  arguments.json.write({{"format", "mneme-config"},
                        {"experiment", config::json_of(config::parse_toml(text, "experiment"))}},
                       streams);
  arguments.json.text(streams) << text;
  return 0;
}

// An arm of a task as `mneme compare --suite` reads it.
train::ExperimentSource source_of(const ConfigFileArguments& arguments,
                                  const config::SuiteTask& task,
                                  const config::SuiteMemory& memory) {
  train::ExperimentSource source{
      .path = task.experiment, .memory = memory.file, .overrides = task.overrides};
  for (const auto& more : {arguments.set.overrides(), memory.overrides}) {
    source.overrides.insert(source.overrides.end(), more.begin(), more.end());
  }
  return source;
}

// Why the table of the suite cannot show the task's measure; empty = it can.
std::set<std::string> measure_problems(const config::SuiteTask& task,
                                       const config::DataConfig& data) {
  try {
    config::check_measure(task, data.task, data::has_sources(data));
  } catch (const Error& error) {
    return {str(task.name, ": ", error.what())};
  }
  return {};
}

// Checks every memory on every task, and tells the problems of all, each once.
int check_suite(const ConfigFileArguments& arguments, const Streams& streams) {
  if (!arguments.memory.empty()) {
    throw_usage("config check --memory: ", arguments.experiment.string(),
                " is a suite, which names its memories; leave it out");
  }
  const config::Suite suite = read_input([&] { return config::read_suite(arguments.experiment); });
  std::vector<std::string> problems;
  Json tasks = Json::array();
  for (const config::SuiteTask& task : suite.tasks) {
    Json arms = Json::array();
    std::set<std::string> of_measure;  // the same for all memories
    for (const config::SuiteMemory& memory : task.memories) {
      try {
        const auto check = train::check_experiment(source_of(arguments, task, memory));
        arms.push_back({{"name", memory.name}, {"checked", check.checked}});
        of_measure.merge(measure_problems(task, check.experiment.data));
      } catch (const Error& error) {
        std::istringstream lines(error.what());
        for (std::string line; std::getline(lines, line);) {
          line = str(task.name, ", ", memory.name, ": ", line);
          problems.push_back(line);
        }
      }
    }
    problems.insert(problems.end(), of_measure.begin(), of_measure.end());
    tasks.push_back({{"name", task.name}, {"arms", std::move(arms)}});
  }
  if (!problems.empty()) throw Error(ErrorKind::kUsage, join(problems, "\n"));
  arguments.json.write({{"format", "mneme-config-check"},
                        {"path", arguments.experiment.string()},
                        {"seeds", suite.seeds},
                        {"tasks", tasks}},
                       streams);
  if (arguments.json.is_stdout()) return 0;
  streams.out << arguments.experiment.string() << ": a suite, nothing is wrong with\n";
  std::size_t runs = 0;
  for (const config::SuiteTask& task : suite.tasks) {
    runs += task.memories.size();
    std::vector<std::string> names;
    for (const config::SuiteMemory& memory : task.memories) names.push_back(memory.name);
    streams.out << "  task " << task.name << ": keys, plugins with their options and files, with "
                << join(names, ", ") << '\n';
  }
  streams.out << runs * static_cast<std::size_t>(suite.seeds) << " trainings, of " << suite.seeds
              << (suite.seeds == 1 ? " seed" : " seeds") << ": mneme compare --suite "
              << shell_word(arguments.experiment.string()) << '\n';
  return 0;
}

// Prints what was checked, of a suite every memory on every task. Error (kUsage) with everything
// that is wrong.
int check_experiment(const ConfigFileArguments& arguments, const Streams& streams) {
  arguments.json.check();
  const bool is_suite =
      read_input([&] { return config::is_suite(config::parse_toml_file(arguments.experiment)); });
  if (is_suite) return check_suite(arguments, streams);
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

// --- mneme config keys ---

using config::KeyInfo;
using config::TableInfo;

std::vector<TableInfo> chosen_tables(const std::vector<std::string>& names) {
  const std::vector<TableInfo>& all = config::experiment_keys();
  if (names.empty()) return all;
  std::vector<TableInfo> out;
  for (const std::string& name : names) {
    const auto found = std::ranges::find(all, config::bare_table(name), &TableInfo::path);
    if (found == all.end()) {
      std::vector<std::string> known;
      for (const TableInfo& table : all) known.push_back(table.path());
      throw_usage({.where = "config keys",
                   .failed = str("there is no table \"", name, '"', did_you_mean(name, known)),
                   .expected = join(known, ", ")});
    }
    out.push_back(*found);
  }
  return out;
}

// The meaning, with the tasks that have the key.
std::string meaning(const KeyInfo& key) {
  return key.tasks.empty() ? key.text : key.text + " (task " + join(key.tasks, ", ") + ')';
}

// The text on lines of at most `width` columns that begin with `indent`.
std::string indented(const std::string& text, const std::string& indent, std::size_t width) {
  const auto lines = wrap_text(text, width - indent.size());
  return indent + join(lines, '\n' + indent) + '\n';
}

std::string default_text(const KeyInfo& key) {
  return (key.fallback.starts_with("required") ? "; " : "; default ") + key.fallback;
}

std::string plain_text(const std::vector<TableInfo>& tables, std::size_t width) {
  std::string out;
  for (const TableInfo& table : tables) {
    out += (out.empty() ? "" : "\n") + table.name + '\n' + indented(table.text, "", width);
    for (const KeyInfo& key : table.keys) {
      out += indented(str(key.key, ": ", key.type, default_text(key)), "    ", width) +
             indented(meaning(key), "        ", width);
    }
  }
  return out;
}

// Escapes a cell's text: '|' would end the cell, and '*' and '<' are Markdown.
std::string cell(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '|' || c == '*' || c == '<') out += '\\';
    out += c;
  }
  return out;
}

std::string markdown(const std::vector<TableInfo>& tables) {
  std::string out;
  for (const TableInfo& table : tables) {
    out += str(out.empty() ? "" : "\n", "## `", table.name, "`\n\n", table.text,
               "\n\n| key | type | default | meaning |\n|---|---|---|---|\n");
    for (const KeyInfo& key : table.keys) {
      out += str("| `", key.key, "` | ", cell(key.type), " | ", cell(key.fallback), " | ",
                 cell(meaning(key)), " |\n");
    }
  }
  return out;
}

Json json_of(const std::vector<TableInfo>& tables) {
  Json list = Json::array();
  for (const TableInfo& table : tables) {
    Json keys = Json::array();
    for (const KeyInfo& key : table.keys) {
      keys.push_back({{"key", key.key},
                      {"type", key.type},
                      {"default", key.fallback},
                      {"text", key.text},
                      {"tasks", key.tasks}});
    }
    list.push_back({{"table", table.path()}, {"text", table.text}, {"keys", std::move(keys)}});
  }
  return {{"format", "mneme-config-keys"}, {"tables", std::move(list)}};
}

// Error (kUsage) for a table that there is none.
int list_keys(const ConfigKeysArguments& arguments, const Streams& streams) {
  arguments.json.check();
  const std::vector<TableInfo> tables = chosen_tables(arguments.tables);
  arguments.json.write(json_of(tables), streams);
  if (arguments.json.is_stdout()) return 0;
  streams.out << (arguments.is_markdown ? markdown(tables) : plain_text(tables, streams.out_width));
  return 0;
}

void add_keys(const Command& config) {
  const Command command =
      config.subcommand("keys", "List the keys of an experiment file: types, defaults, meaning");
  const auto arguments = std::make_shared<ConfigKeysArguments>();
  command.option("TABLE", arguments->tables, "", "Tables to list, as train or memory.tier",
                 {not_empty("a table")});
  command.flag("--markdown", arguments->is_markdown, "As the page docs/configuration.md");
  arguments->json.add(command);
  command.examples({"mneme config keys", "mneme config keys train memory.tier",
                    "mneme config keys --json keys.json"});
  command.runs(arguments, &list_keys);
}

void add_file_command(const Command& config, const std::string& name, const std::string& help,
                      const std::string& file_help,
                      int (*run)(const ConfigFileArguments&, const Streams&),
                      const std::vector<std::string>& examples) {
  const Command command = config.subcommand(name, help);
  const auto arguments = std::make_shared<ConfigFileArguments>();
  command.option("EXP", arguments->experiment, "", file_help, {required});
  add_memory_files(command, arguments->memory,
                   "Memory file to use in place of the experiment's [memory]");
  arguments->set.add(command);
  arguments->json.add(command);
  command.examples(examples);
  command.runs(arguments, run);
}

}  // namespace

void add_config(const Command& app) {
  const Command config =
      app.subcommand("config", "List the keys of experiment files; show and check a file");
  config.require_subcommand();
  config.examples({"mneme config keys train", "mneme config show configs/quickstart.toml",
                   "mneme config check configs/quickstart.toml"});
  add_keys(config);
  add_file_command(
      config, "show", "Print an experiment with every default filled in, as TOML",
      "The experiment file", show_experiment,
      {"mneme config show configs/quickstart.toml",
       "mneme config show configs/quickstart.toml --memory my_memory.toml --set train.steps=50"});
  add_file_command(config, "check",
                   "Check keys, plugins' options and files of an experiment, or of all experiments "
                   "of a suite, without running them",
                   "The experiment file, or a suite", check_experiment,
                   {"mneme config check configs/quickstart.toml",
                    "mneme config check configs/quickstart.toml --memory my_memory.toml",
                    "mneme config check configs/suite/small.toml"});
}

}  // namespace mneme::cli
