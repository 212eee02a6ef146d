#include <string>
#include <string_view>
#include <vector>

#include "host/base/text.hpp"
#include "host/cli/completion/completion.hpp"

namespace mneme::cli {
namespace {

// The text inside '...' of a specification for _arguments or _describe.
std::string zsh_escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '\'') {
      out += "'\\''";
      continue;
    }
    if (c == '[' || c == ']' || c == ':' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

// What _arguments calls for a value.
std::string zsh_action(const OptionDefinition& option) {
  const std::string words = join(completed_words(option), " ");
  if (words.empty()) return std::string(completer_of(option).zsh);
  if (option.separator == '\0') return '(' + words + ')';
  return str("_values -s ", option.separator, ' ', option.type, ' ', words);
}

// '*--memory=[help]:FILE:_files' for each name.
std::string option_specs(const OptionDefinition& option) {
  using Values = OptionDefinition::Values;
  std::string text;
  for (const std::string& name : option.names) {
    const bool ends_use = name == "--help" || name == "-h" || name == "--version";
    std::string spec = ends_use ? "(- *)" : option.is_repeatable ? "*" : "";
    const bool takes_equals = option.values != Values::kNone && option.values != Values::kMany;
    spec += str(name, takes_equals ? "=" : "", '[', zsh_escaped(option.help), ']');
    if (option.values == Values::kMany) spec += ":*-*";
    if (option.values == Values::kOptional) spec += ':';
    if (option.values != Values::kNone) {
      spec += str(':', zsh_escaped(option.type), ':', zsh_action(option));
    }
    text += str(" \\\n    '", spec, '\'');
  }
  return text;
}

std::string position_specs(const CommandDefinition& command) {
  std::string text;
  const std::vector<OptionDefinition> places = command.positionals();
  if (!command.commands.empty()) {
    const std::string other = places.empty() ? "" : ';' + zsh_action(places.front());
    text += str(" \\\n    '1:command:{_describe -t commands command commands", other, "}'");
  }
  for (std::size_t i = 0; i < places.size(); ++i) {
    const bool is_many = places[i].values == OptionDefinition::Values::kMany;
    if (i == 0 && !command.commands.empty() && !is_many) continue;
    text += str(" \\\n    '", is_many ? "*" : str(i + 1), ':', zsh_escaped(places[i].type), ':',
                zsh_action(places[i]), '\'');
  }
  return text;
}

std::string function_name(std::string path) {
  for (char& c : path) c = c == ' ' ? '-' : c;
  return '_' + path;
}

// Hands over to the function of a subcommand that stands on the line.
std::string dispatch(const std::string& path, const CommandDefinition& command) {
  std::string list;
  std::vector<std::string> names;
  for (const CommandDefinition& one : command.commands) {
    names.push_back(one.name);
    list += str("    '", one.name, ':', zsh_escaped(one.help), "'\n");
  }
  return str("  if (( CURRENT > 2 )) && [[ $words[2] == (", join(names, "|"),
             ") ]]; then\n    shift words\n    (( CURRENT-- ))\n    ", function_name(path),
             "-$words[1]\n    return\n  fi\n  local -a commands=(\n", list, "  )\n");
}

std::string function_of(const std::string& path, const CommandDefinition& command) {
  std::string text = function_name(path) + "() {\n";
  if (path == command.name) text += "  local mneme_program=${(Q)~words[1]}\n  local -A opt_args\n";
  if (!command.commands.empty()) text += dispatch(path, command);
  text += "  _arguments";
  for (const OptionDefinition& one : command.options) {
    if (!one.is_positional()) text += option_specs(one);
  }
  return text + position_specs(command) + "\n}\n\n";
}

std::string zsh_keys() {
  std::string text =
      "# The keys of an experiment as key:values; # stands for a number, / for a path.\n"
      "typeset -ga _mneme_keys=(\n";
  for (const CompletedKey& one : completed_keys()) {
    text += str("  '", one.key, ':', one.is_path ? "/" : join(one.words, " "), "'\n");
  }
  return text + ")\n\n";
}

constexpr std::string_view kZshFunctions =
    R"script(# Run folders here and one folder below; any folder where there are none.
_mneme_runs() {
  local text=${~${(Q)PREFIX}} expl
  local -a found=( $text*/$_mneme_run_mark(N:h) $text*/*/$_mneme_run_mark(N:h) )
  if (( $#found )) && [[ $PREFIX != \~* ]]; then
    _wanted runs expl run compadd -f -a found
  else
    _files -/
  fi
}

_mneme_plugin_names() {
  local expl folder
  local -a folders
  for folder in ${(s.:.)opt_args[--plugins]}; do folders+=(--plugins ${(Q)folder}); done
  local -a names=( ${(f)"$($mneme_program plugins list $folders 2> /dev/null |
    sed -n 's/^\([^ ].*\)\.so: [^ ]*\.[^ ]* [^ ]*$/\1/p')"} )
  _alternative 'plugins:plugin:compadd -a names' 'files:file:_files'
}

# A key of an experiment and, with = as $1, its value behind KEY=.
_mneme_settings() {
  local number=0 one key values expl
  local -a names match mbegin mend
  [[ $PREFIX =~ '^[a-z_.]*[.]([0-9]+)[.]' ]] && number=$match[1]
  for one in $_mneme_keys; do
    key=${${one%%:*}//\#/$number}
    if [[ -n $1 && $PREFIX == $key=* ]]; then
      values=${one#*:}
      compset -P '*='
      if [[ $values == / ]]; then
        _files
      else
        _wanted values expl $key compadd -- ${=values}
      fi
      return
    fi
    names+=($key)
  done
  _wanted keys expl key compadd -S "$1" -a names
}

)script";

}  // namespace

std::string zsh_completion(const CommandDefinition& program) {
  std::string functions;
  for_each_command(program, [&](const std::string& path, const CommandDefinition& command) {
    functions += function_of(path, command);
  });
  return str(
      "#compdef mneme\n# Completion of mneme's commands in zsh; made by: mneme completion ",
      "zsh\n\n# A folder with this file is a run's.\ntypeset -g _mneme_run_mark=", run_mark(),
      "\n\n", zsh_keys(), kZshFunctions, functions,
      "# The first call is the one that loads this file.\nif [[ $funcstack[1] == _mneme ]]; ",
      "then\n  _mneme \"$@\"\nelif (( $+functions[compdef] )); then\n  compdef _mneme mneme\nelse\n"
      "  print -u2 \"mneme: zsh's completion is off: call autoload -Uz compinit && compinit before "
      "this script\"\nfi\n");
}

}  // namespace mneme::cli
