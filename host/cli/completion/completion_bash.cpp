#include <string>
#include <string_view>
#include <vector>

#include "host/base/text.hpp"
#include "host/cli/completion/completion.hpp"

namespace mneme::cli {
namespace {

// What the script calls a kind of value; the functions below read it.
std::string kind_word(const OptionDefinition& option) {
  const std::string words = join(completed_words(option), " ");
  if (words.empty()) return std::string(completer_of(option).bash);
  return (option.separator == '\0' ? "words " : "list ") + words;
}

// What the script calls each of OptionDefinition::Values.
constexpr std::string_view kValuesLetters = "0?1+";

// 'name:values:kind' for each option, 'values:kind' for each positional argument.
std::string definition_case(const std::string& path, const CommandDefinition& command) {
  std::string options, places;
  for (const OptionDefinition& one : command.options) {
    const std::string rest =
        str(kValuesLetters[static_cast<std::size_t>(one.values)], ':', kind_word(one), '\'');
    if (one.is_positional()) {
      places += str(" '", rest);
    } else {
      for (const std::string& name : one.names) options += str("\n      '", name, ':', rest);
    }
  }
  std::vector<std::string> names;
  for (const CommandDefinition& one : command.commands) names.push_back(one.name);
  return str("    '", path, "')\n      commands=(", join(names, " "), ")\n      places=(",
             places.empty() ? "" : places.substr(1), ")\n      options=(", options,
             ")\n      ;;\n");
}

std::string bash_definitions(const CommandDefinition& program) {
  std::string text =
      R"(# Sets commands, options as name:values:kind and places (positional arguments) as values:kind of the
# command $1. values: 0 = none, ? = perhaps one, 1 = one, + = at least one.
_mneme_define() {
  case $1 in
)";
  for_each_command(program, [&](const std::string& path, const CommandDefinition& command) {
    text += definition_case(path, command);
  });
  return text + "  esac\n}\n\n";
}

// 'key:kind' for each key of an experiment.
std::string bash_keys() {
  std::string text =
      "# The keys of an experiment as key:kind; # stands for a number.\n_mneme_keys=(\n";
  for (const CompletedKey& one : completed_keys()) {
    const std::string kind = one.is_path         ? "file"
                             : one.words.empty() ? ""
                                                 : "words " + join(one.words, " ");
    text += str("  '", one.key, ':', kind, "'\n");
  }
  return text + ")\n\n";
}

constexpr std::string_view kBashFunctions =
    R"script(# Splits the line up to the cursor into words, as the shell does; readline's own words end at = too.
_mneme_split() {
  local line=${COMP_LINE:0:COMP_POINT} quote='' word='' begun='' c i
  words=()
  for ((i = 0; i < ${#line}; i++)); do
    c=${line:i:1}
    if [[ -n $quote ]]; then
      if [[ $c == "$quote" ]]; then quote=''; else word+=$c; fi
    elif [[ $c == "'" || $c == '"' ]]; then
      quote=$c begun=1
    elif [[ $c == \\ ]]; then
      i=$((i + 1)) begun=1
      word+=${line:i:1}
    elif [[ $c == [[:space:]] ]]; then
      [[ -n $begun ]] && words+=("$word")
      word='' begun=''
    else
      word+=$c begun=1
    fi
  done
  words+=("$word")
}

# Candidates are added to COMPREPLY; `before` is what stands in front of them in the same word.
_mneme_add() {
  local one
  while IFS= read -r one; do COMPREPLY+=("$before$one"); done
}

_mneme_words() { # TEXT WORD...
  local text=$1
  shift
  _mneme_add < <(compgen -W "$*" -- "$text")
}

_mneme_files() { # TEXT
  compopt -o filenames 2> /dev/null
  _mneme_add < <(compgen -f -- "$1")
}

_mneme_folders() { # TEXT
  compopt -o filenames 2> /dev/null
  _mneme_add < <(compgen -d -- "$1")
}

# Experiment files and the folders that lead to them.
_mneme_experiments() { # TEXT
  compopt -o filenames 2> /dev/null
  _mneme_add < <(compgen -f -X '!*.toml' -- "$1"; compgen -d -- "$1")
}

# Run folders here and one folder below; any folder where there are none.
_mneme_runs() { # TEXT
  local text=$1 mark found=()
  [[ $text == '~/'* ]] && text=$HOME/${text#'~/'}
  for mark in "$text"*/"$_mneme_run_mark" "$text"*/*/"$_mneme_run_mark"; do
    [[ -f $mark ]] && found+=("${mark%/*}")
  done
  if ((${#found[@]} == 0)); then
    _mneme_folders "$1"
  else
    compopt -o filenames 2> /dev/null
    _mneme_add < <(printf '%s\n' "${found[@]}")
  fi
}

_mneme_plugins() { # TEXT
  local text=$1 i folders=() found
  for ((i = 1; i < ${#words[@]} - 2; i++)); do
    [[ ${words[i]} == --plugins ]] && folders+=(--plugins "${words[i + 1]}")
  done
  found=$("${words[0]/#\~/$HOME}" plugins list "${folders[@]}" 2> /dev/null |
    sed -n 's/^\([^ ].*\)\.so: \([^ ]*\.[^ ]*\) [^ ]*$/\1 \2/p')
  local -a by_name=() by_id=()
  local name id
  while read -r name id; do by_name+=("$name") by_id+=("$id"); done <<< "$found"
  _mneme_words "$text" "${by_name[@]}"
  ((${#COMPREPLY[@]} > 0)) || _mneme_words "$text" "${by_id[@]}"
  ((${#COMPREPLY[@]} > 0)) || _mneme_files "$text"
}

# A key of an experiment, and behind KEY= its value.
_mneme_setting() { # TEXT IS_KEY_ALONE
  local text=$1 number=0 one key names=()
  [[ $text =~ ^[a-z_.]*\.([0-9]+)\. ]] && number=${BASH_REMATCH[1]}
  for one in "${_mneme_keys[@]}"; do
    key=${one%%:*}
    key=${key//'#'/$number}
    if [[ $text == "$key="* ]]; then
      before+=$key=
      _mneme_value "${one#*:}" "${text#*=}"
      return
    fi
    names+=("$key")
  done
  [[ -z $2 ]] && names=("${names[@]/%/=}") && compopt -o nospace 2> /dev/null
  _mneme_words "$text" "${names[@]}"
}

_mneme_value() { # KIND TEXT
  local text=$2
  case $1 in
    file) _mneme_files "$text" ;;
    folder) _mneme_folders "$text" ;;
    run) _mneme_runs "$text" ;;
    experiment) _mneme_experiments "$text" ;;
    plugin) _mneme_plugins "$text" ;;
    setting) _mneme_setting "$text" '' ;;
    key) _mneme_setting "$text" 1 ;;
    words\ *) _mneme_words "$text" ${1#words } ;;
    list\ *)
      before+=${text%"${text##*,}"}
      _mneme_words "${text##*,}" ${1#list }
      ;;
  esac
}

# The option $1 of the command: sets values and kind.
_mneme_find_option() {
  local one
  values=0 kind=''
  for one in "${options[@]}"; do
    [[ ${one%%:*} == "$1" ]] || continue
    one=${one#*:}
    values=${one%%:*} kind=${one#*:}
  done
}

_mneme_has() { # WORD WORDS...
  local word=$1 one
  shift
  for one; do [[ $one == "$word" ]] && return 0; done
  return 1
}

_mneme() {
  local words commands options places before='' path=mneme values=0 kind='' place=0 word i
  COMPREPLY=()
  _mneme_split
  _mneme_define "$path"
  for ((i = 1; i < ${#words[@]} - 1; i++)); do
    word=${words[i]}
    if [[ $values == 1 || ($values != 0 && $word != -*) ]]; then
      [[ $values == + ]] || values=0
    elif [[ $word == --*=* ]]; then
      values=0
    elif [[ $word == -* ]]; then
      _mneme_find_option "$word"
    elif ((place == 0)) && _mneme_has "$word" "${commands[@]}"; then
      path+=" $word"
      _mneme_define "$path"
    else
      place=$((place + 1))
    fi
  done
  local cur=${words[-1]} last=$((${#places[@]} - 1))
  if [[ $values == 1 || ($values != 0 && $cur != -*) ]]; then
    _mneme_value "$kind" "$cur"
  elif [[ $cur == --*=* ]]; then
    _mneme_find_option "${cur%%=*}"
    before=${cur%%=*}=
    _mneme_value "$kind" "${cur#*=}"
  elif [[ $cur == -* ]]; then
    _mneme_words "$cur" "${options[@]%%:*}"
  else
    ((place == 0)) && _mneme_words "$cur" "${commands[@]}"
    ((place > last && last >= 0)) && [[ ${places[last]} == +* ]] && place=$last
    ((place <= last)) && _mneme_value "${places[place]#*:}" "$cur"
  fi
  # Readline replaces only what stands behind the last = or : of the word.
  local behind=$cur c
  for c in = :; do [[ $COMP_WORDBREAKS == *$c* ]] && behind=${behind##*$c}; done
  local kept=${cur%"$behind"}
  COMPREPLY=("${COMPREPLY[@]#"$kept"}")
}

complete -F _mneme mneme
)script";

}  // namespace

std::string bash_completion(const CommandDefinition& program) {
  return str("# Completion of mneme's commands in bash; made by: mneme completion bash\n\n",
             "# A folder with this file is a run's.\n_mneme_run_mark=", run_mark(), "\n\n",
             bash_keys(), bash_definitions(program), kBashFunctions);
}

}  // namespace mneme::cli
