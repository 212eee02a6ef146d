// The files that a tokenizer is read from.
#pragma once

#include <filesystem>
#include <map>
#include <string>

namespace mneme::data {

// The text of each file by its name: "tokenizer.json", or "vocab.json" and "merges.txt", or
// "tokenizer.model" (bytes), and, where there are any, "tokenizer_config.json",
// "special_tokens_map.json", "added_tokens.json" and "config.json", of which only the keys are kept
// that decide the tokenizer's class (folder/tokenizer_class.hpp).
struct TokenizerFiles {
  std::string folder;       // that messages name in front of a file; "" = none
  bool is_in_file = false;  // `folder` is one file that holds the texts
  std::string given;        // what messages call tokenizer.json, or tokenizer.model, when a file of
                            // another name was given
  std::map<std::string, std::string> texts;

  [[nodiscard]] bool has(const std::string& name) const { return texts.contains(name); }
  // The file as messages call it.
  [[nodiscard]] std::string place(const std::string& name) const;
};

// Reads the files from a folder: tokenizer.json, where there is none vocab.json and merges.txt, where
// there are none tokenizer.model. The path of one of these files names its folder without those
// before it. A file of another name is read alone, as a tokenizer.model where its name ends in
// .model or .spm, else as a tokenizer.json. Error (kUsage) for a path that is neither, for a folder
// that holds none, for a vocabulary of tiktoken and for one that is empty or damaged; Error (kRun)
// for a file that cannot be read, a symbolic link to what is not there included.
[[nodiscard]] TokenizerFiles read_tokenizer_files(const std::filesystem::path& path);

// Whether a folder has files that read_tokenizer_files reads. Error (kRun) for a symbolic link of
// such a name to what is not there.
[[nodiscard]] bool has_tokenizer(const std::filesystem::path& folder);
// The name of a vocabulary in a folder without such files: of tiktoken (tokenizer.model,
// *.tiktoken), or of sentencepiece under another name than tokenizer.model. "" = there is none.
[[nodiscard]] std::string find_unread_vocabulary(const std::filesystem::path& folder);
// How files that can be read are made from that vocabulary.
[[nodiscard]] std::string unread_vocabulary_hint(const std::filesystem::path& folder);

}  // namespace mneme::data
