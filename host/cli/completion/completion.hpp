// Shell completion, made of the program's definitions: mneme completion bash | zsh
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "host/cli/definition.hpp"

namespace mneme::cli {

// A key of an experiment file and what its value is.
struct CompletedKey {
  std::string key;                 // "train.lr", "memory.tier.#.plugin" with # for a number
  std::vector<std::string> words;  // the values that it may have, without quotes; empty = others
  bool is_path = false;
};

// Every key of `mneme config keys`.
[[nodiscard]] std::vector<CompletedKey> completed_keys();

// What completes a value, told by the word that the help shows for it.
struct Completer {
  std::string_view type = {};  // "FILE"
  std::string_view bash = {};  // a kind of value that the script reads; "" = nothing to offer
  std::string_view zsh = {};   // what _arguments calls
};
[[nodiscard]] Completer completer_of(const OptionDefinition& option);
// The words that are offered for a value; empty = its completer's.
[[nodiscard]] std::vector<std::string> completed_words(const OptionDefinition& option);

// The file of a run's folder by which completion knows the folder.
[[nodiscard]] std::string run_mark();

// A script that bash reads with `source`, or finds in share/bash-completion/completions. It needs
// bash 4 and no other file.
[[nodiscard]] std::string bash_completion(const CommandDefinition& program);
// A file _mneme for a folder of zsh's fpath.
[[nodiscard]] std::string zsh_completion(const CommandDefinition& program);

}  // namespace mneme::cli
