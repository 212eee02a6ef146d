// mneme completion SHELL
#include "host/cli/completion/completion.hpp"

#include <algorithm>
#include <array>
#include <memory>
#include <sstream>

#include "host/cli/arguments.hpp"
#include "host/cli/cli.hpp"
#include "host/cli/streams.hpp"
#include "host/config/keys.hpp"
#include "host/run/run_folder.hpp"

namespace mneme::cli {
namespace {

struct CompletionArguments {
  std::string shell;
  Command program;
};

int print_completion(const CompletionArguments& arguments, const Streams& streams) {
  const CommandDefinition program = arguments.program.definition();
  streams.out << (arguments.shell == "zsh" ? zsh_completion(program) : bash_completion(program));
  return 0;
}

// A blank in front of zsh's functions keeps _arguments from inserting options of its own.
constexpr std::array kCompleters = {Completer{"FILE", "file", "_files"},
                                    Completer{"OUT", "file", "_files"},
                                    Completer{"PATH", "file", "_files"},
                                    Completer{"WEIGHTS", "file", "_files"},
                                    Completer{"SOURCE", "file", "_files"},
                                    Completer{"DIR", "folder", "_files -/"},
                                    Completer{"RUN", "run", " _mneme_runs"},
                                    Completer{"EXP", "experiment", "_files -g \"*.toml(-.)\""},
                                    Completer{"KEY=VALUE", "setting", " _mneme_settings ="},
                                    Completer{"KEY", "key", " _mneme_settings"},
                                    Completer{"NAME", "plugin", " _mneme_plugin_names"}};

// The words of "a" | "b", or of "true or false"; empty for any other type.
std::vector<std::string> words_of_type(const std::string& type) {
  if (type == "true or false") return {"true", "false"};
  std::vector<std::string> words;
  std::istringstream parts(type);
  for (std::string part; parts >> part;) {
    if (part == "|") continue;
    if (part.size() < 2 || part.front() != '"' || part.back() != '"') return {};
    words.push_back(part.substr(1, part.size() - 2));
  }
  return words;
}

}  // namespace

std::vector<CompletedKey> completed_keys() {
  std::vector<CompletedKey> keys;
  for (const config::TableInfo& table : config::experiment_keys()) {
    const std::string number = table.name.starts_with("[[") ? ".#." : ".";
    for (const config::KeyInfo& key : table.keys) {
      if (key.type.starts_with("a table") || key.type == "tables") continue;
      keys.push_back({.key = table.path() + number + key.key,
                      .words = words_of_type(key.type),
                      .is_path = key.type == "a path"});
    }
  }
  return keys;
}

Completer completer_of(const OptionDefinition& option) {
  const auto* const found = std::ranges::find(kCompleters, option.type, &Completer::type);
  return found == kCompleters.end() ? Completer() : *found;
}

std::vector<std::string> completed_words(const OptionDefinition& option) {
  if (option.type == "WHICH") return {"last", "best"};  // a checkpoint
  if (option.type != "TABLE") return option.words;
  std::vector<std::string> tables;
  for (const config::TableInfo& table : config::experiment_keys()) {
    tables.push_back(table.path());
  }
  return tables;
}

std::string run_mark() { return run::RunFolder::at("run").info_file().filename().string(); }

void add_completion(const Command& app) {
  const Command command =
      app.subcommand("completion", "Print a script that completes commands in bash or zsh");
  const auto arguments = std::make_shared<CompletionArguments>(CompletionArguments{{}, app});
  command.option("SHELL", arguments->shell, "", "bash or zsh", {one_of({"bash", "zsh"}), required});
  command.examples({"mneme completion bash > ~/.local/share/bash-completion/completions/mneme",
                    "mneme completion zsh > ~/.zfunc/_mneme"});
  command.runs(arguments, &print_completion);
}

}  // namespace mneme::cli
