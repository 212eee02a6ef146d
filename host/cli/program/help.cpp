// The text of --help, made of a command's definition.
#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <sstream>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "host/base/text.hpp"
#include "host/cli/definition.hpp"
#include "host/config/configs_folder.hpp"

namespace mneme::cli {
namespace {

constexpr std::size_t kMaxNameColumns = 28;

// "  name   text", the text in a column of its own; below the name where that is too long.
std::string help_entry(const std::string& name, const std::string& text, std::size_t column,
                       std::size_t width) {
  const std::size_t room = std::max<std::size_t>(20, width > column ? width - column : 0);
  std::string out = "  " + name;
  const bool is_beside = text_width(out) + 1 < column;
  if (text.empty()) return out + '\n';
  std::string gap =
      is_beside ? std::string(column - text_width(out), ' ') : '\n' + std::string(column, ' ');
  for (const std::string& line : wrap_text(text, room)) {
    out += gap + line;
    gap = '\n' + std::string(column, ' ');
  }
  return out + '\n';
}

std::string help_names(const OptionDefinition& option) {
  if (option.is_positional()) return option.usage();
  std::vector<std::string> others(option.names.begin(), option.names.end() - 1);
  others.push_back(option.usage());
  return join(others, ", ");
}

constexpr std::string_view kConfigs = "configs/";

using HelpEntries = std::vector<std::pair<std::string, std::string>>;

std::string help_section(const std::string& title, const HelpEntries& entries, std::size_t width) {
  if (entries.empty()) return "";
  std::size_t column = 0;
  for (const auto& [name, text] : entries) {
    const std::size_t columns = text_width(name) + 4;
    if (columns <= kMaxNameColumns) column = std::max(column, columns);
  }
  column = std::max<std::size_t>(std::min(column, width / 2), 8);
  std::string out = '\n' + title + ":\n";
  for (const auto& [name, text] : entries) out += help_entry(name, text, column, width);
  return out;
}

}  // namespace

std::vector<std::string> examples_here(std::vector<std::string> examples,
                                       const std::filesystem::path& executable) {
  const std::filesystem::path folder = config::folder_of_configs(executable);
  if (folder.empty()) return examples;
  for (std::string& example : examples) {
    std::istringstream words(example);
    std::vector<std::string> placed;
    for (std::string word; words >> word;) {
      const bool is_config = word.starts_with(kConfigs);
      placed.push_back(is_config ? shell_word((folder / word).string()) : word);
    }
    example = join(placed, " ");
  }
  return examples;
}

std::string help_text(const CommandDefinition& command, const std::string& path,
                      std::size_t width) {
  HelpEntries positionals, options, commands;
  for (const OptionDefinition& one : command.options) {
    (one.is_positional() ? positionals : options).emplace_back(help_names(one), one.full_help());
  }
  for (const CommandDefinition& one : command.commands) commands.emplace_back(one.name, one.help);
  std::string out = join(wrap_text(command.help, width), "\n") + '\n' +
                    join(wrap_text(str("Usage: ", path, ' ', command.usage()), width, 4), "\n") +
                    '\n' + help_section("Positionals", positionals, width) +
                    help_section("Options", options, width) +
                    help_section("Commands", commands, width);
  if (!command.examples.empty()) out += "\nExamples:\n  " + join(command.examples, "\n  ") + '\n';
  return out;
}

}  // namespace mneme::cli
