// The commands of the program as data: what help, shell completion and the man page are made of.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

namespace CLI {
class App;
}  // namespace CLI

namespace mneme::cli {

// An option or, with a name without hyphens, a positional argument.
struct OptionDefinition {
  // How many values follow one use of the option.
  enum class Values { kNone, kOptional, kOne, kMany };

  std::vector<std::string> names;  // "-h", "--help"; of a positional argument its one name
  std::string type;                // what the help shows for its value, as "FILE"; "" of a flag
  std::vector<std::string> words;  // the only values that are taken; empty = others too
  std::string default_text;        // "" = the help names none
  std::string help;
  Values values = Values::kNone;
  char separator = '\0';  // of several values in one word; '\0' = a word is one value
  bool is_required = false;
  bool is_repeatable = false;

  [[nodiscard]] bool is_positional() const { return !names.front().starts_with('-'); }
  // The help and, where it does not name them, the words, the default and that it is required.
  [[nodiscard]] std::string full_help() const;
  // "--memory FILE", "RUN...", "--json [FILE]".
  [[nodiscard]] std::string usage() const;
};

struct CommandDefinition {
  std::string name;  // "train"; "mneme" for the program
  std::string help;
  std::vector<OptionDefinition> options;  // with positional arguments, in the help's order
  std::vector<CommandDefinition> commands;
  std::vector<std::string> examples;
  bool needs_command = false;  // one of `commands` must be named

  [[nodiscard]] std::vector<OptionDefinition> positionals() const;
  // "EXP [OPTIONS]": what follows the command's name.
  [[nodiscard]] std::string usage() const;
};

// The command with everything below it.
[[nodiscard]] CommandDefinition definition_of(const CLI::App& command);

// Of a parsed command that has subcommands and arguments: the message about a word that was taken
// for an argument, though nothing is at such a path and it is nearly a subcommand's name; "" = none.
[[nodiscard]] std::string misspelt_command(const CLI::App& command);

// Examples as they can be typed in the current folder: "configs/..." in them becomes the path of that
// file in the installation, or the checkout's build, of the program `executable`, unless it is here
// or nowhere.
[[nodiscard]] std::vector<std::string> examples_here(std::vector<std::string> examples,
                                                     const std::filesystem::path& executable);

// The text of --help: usage, positional arguments, options, commands and examples in lines of at
// most `width` columns; examples stay on one line each, so that they can be copied. `path`: "mneme
// train".
[[nodiscard]] std::string help_text(const CommandDefinition& command, const std::string& path,
                                    std::size_t width);

// Calls `visit` with the words that name a command, as "mneme train", and its definition, for this
// one and all below it, a parent before its children.
template <typename Visit>
void for_each_command(const CommandDefinition& command, Visit&& visit,
                      const std::string& parent = "") {
  const std::string path = parent.empty() ? command.name : parent + ' ' + command.name;
  visit(path, command);
  for (const CommandDefinition& one : command.commands) for_each_command(one, visit, path);
}

}  // namespace mneme::cli
