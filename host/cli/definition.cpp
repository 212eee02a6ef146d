#include "host/cli/definition.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <system_error>

#include "host/base/text.hpp"

namespace mneme::cli {
namespace {

// "FILE" of "FILE...", "[FILE]" and "FILE:{a,b}".
std::string bare_type(const std::string& type) {
  std::string bare = type.substr(0, type.find(':'));
  std::erase_if(bare, [](char c) { return c == '[' || c == ']' || c == '.'; });
  return bare;
}

// The words of "FORMAT:{a,b}", as CLI11 describes a check of membership.
std::vector<std::string> words_of(const std::string& type) {
  const std::size_t open = type.find(":{");
  if (open == std::string::npos) return {};
  const std::size_t begin = open + 2;
  return CLI::detail::split(type.substr(begin, type.find('}', begin) - begin), ',');
}

OptionDefinition::Values values_of(const CLI::Option& option) {
  using Values = OptionDefinition::Values;
  if (option.get_items_expected_max() == 0) return Values::kNone;
  if (option.get_items_expected_min() == 0) return Values::kOptional;
  const bool takes_more = option.get_items_expected_max() > 1 && option.get_delimiter() == '\0';
  return takes_more && option.get_allow_extra_args() ? Values::kMany : Values::kOne;
}

OptionDefinition option_definition_of(const CLI::Option& option) {
  OptionDefinition out;
  for (const std::string& name : option.get_snames()) out.names.push_back('-' + name);
  for (const std::string& name : option.get_lnames()) out.names.push_back("--" + name);
  const bool is_positional = option.get_positional();
  if (is_positional) out.names = {option.get_name(true)};
  const std::string type = option.get_type_name();
  out.values = values_of(option);
  if (out.values != OptionDefinition::Values::kNone) {
    out.type = is_positional ? out.names.front() : bare_type(type);
    out.words = words_of(type);
  }
  out.default_text = option.get_default_str();
  if (out.values == OptionDefinition::Values::kOptional) out.default_text.clear();
  out.help = option.get_description();
  out.separator = option.get_delimiter();
  out.is_required = option.get_required();
  out.is_repeatable = option.get_items_expected_max() > 1 && option.get_delimiter() == '\0';
  return out;
}

// The lines below "Examples:".
std::vector<std::string> examples_of(const std::string& footer) {
  std::vector<std::string> lines = CLI::detail::split(footer, '\n');
  std::vector<std::string> examples;
  for (const std::string& line : lines) {
    if (line.starts_with("  ")) examples.push_back(line.substr(2));
  }
  return examples;
}

}  // namespace

std::string OptionDefinition::full_help() const {
  const bool names_words = std::ranges::all_of(
      words, [&](const std::string& word) { return help.find(word) != std::string::npos; });
  std::vector<std::string> more;
  if (!names_words) more.push_back("one of " + join(words, ", "));
  if (!default_text.empty()) more.push_back("default " + default_text);
  if (is_required) more.emplace_back("required");
  return help + (more.empty() ? "" : " (" + join(more, "; ") + ')');
}

std::string OptionDefinition::usage() const {
  const std::string value = values == Values::kOptional ? '[' + type + ']' : type;
  const std::string text = is_positional() ? type
                           : type.empty()  ? names.back()
                                           : names.back() + ' ' + value;
  return values == Values::kMany ? text + "..." : text;
}

std::vector<OptionDefinition> CommandDefinition::positionals() const {
  std::vector<OptionDefinition> out;
  std::ranges::copy_if(options, std::back_inserter(out), &OptionDefinition::is_positional);
  return out;
}

std::string CommandDefinition::usage() const {
  std::vector<std::string> parts;
  for (const OptionDefinition& one : positionals()) {
    parts.push_back(one.is_required ? one.usage() : '[' + one.usage() + ']');
  }
  if (!commands.empty()) parts.emplace_back(needs_command ? "COMMAND" : "[COMMAND]");
  if (options.size() > positionals().size()) parts.emplace_back("[OPTIONS]");
  return join(parts, " ");
}

CommandDefinition definition_of(const CLI::App& command) {
  CommandDefinition out{.name = command.get_name(),
                        .help = command.get_description(),
                        .options = {},
                        .commands = {},
                        .examples = examples_of(command.get_footer()),
                        .needs_command = command.get_require_subcommand_min() > 0};
  for (const CLI::Option* option : command.get_options({})) {
    out.options.push_back(option_definition_of(*option));
  }
  for (const CLI::App* one : command.get_subcommands([](const CLI::App*) { return true; })) {
    out.commands.push_back(definition_of(*one));
  }
  return out;
}

std::string misspelt_command(const CLI::App& command) {
  std::vector<std::string> known;
  for (const CLI::App* one : command.get_subcommands([](const CLI::App*) { return true; })) {
    known.push_back(one->get_name());
  }
  for (const CLI::Option* option : command.get_options({})) {
    if (!option->get_positional()) continue;
    for (const std::string& word : option->results()) {
      std::error_code ignored;
      const std::string hint = did_you_mean(word, known);
      if (hint.empty() || std::filesystem::exists(word, ignored)) continue;
      return str("\"", word, "\" is no ", option->get_name(true),
                 " that is there, and no subcommand", hint);
    }
  }
  return "";
}

}  // namespace mneme::cli
