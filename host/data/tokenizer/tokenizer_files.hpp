// The files that a tokenizer is read from.
#pragma once

#include <filesystem>
#include <map>
#include <string>

namespace mneme::data {

// The text of each file by its name: "tokenizer.json", or "vocab.json" and "merges.txt", and, where
// there are any, "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json" and
// "config.json", of which only the keys are kept that decide the tokenizer's class
// (folder/tokenizer_class.hpp).
struct TokenizerFiles {
  std::string folder;       // that messages name in front of a file; "" = none
  bool is_in_file = false;  // `folder` is one file that holds the texts
  std::string given;  // what messages call tokenizer.json when a file of another name was given
  std::map<std::string, std::string> texts;

  [[nodiscard]] bool has(const std::string& name) const { return texts.contains(name); }
  // The file as messages call it.
  [[nodiscard]] std::string place(const std::string& name) const;
};

// Reads the files from a folder, or from the folder of a file named tokenizer.json or vocab.json. A
// file of another name is read alone, as a tokenizer.json. Where there is a tokenizer.json,
// vocab.json and merges.txt are not read. Error (kUsage) for a path that is neither, for a folder
// that holds neither and for a vocabulary of another program; Error (kRun) for a file that cannot
// be read.
[[nodiscard]] TokenizerFiles read_tokenizer_files(const std::filesystem::path& path);

// The name of a vocabulary of sentencepiece or tiktoken (tokenizer.model) in a folder without a
// tokenizer that can be read; such a vocabulary is not read. "" = there is none.
[[nodiscard]] std::string find_unread_vocabulary(const std::filesystem::path& folder);
// How files that can be read are made from that vocabulary.
[[nodiscard]] std::string unread_vocabulary_hint(const std::filesystem::path& folder);

}  // namespace mneme::data
