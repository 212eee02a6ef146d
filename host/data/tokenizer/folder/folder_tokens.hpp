// The tokens of a folder beside the vocabulary, as transformers' AutoTokenizer adds them.
#pragma once

#include "host/data/tokenizer/folder/folder_settings.hpp"
#include "host/data/tokenizer/folder/tokenizer_class.hpp"
#include "host/data/tokenizer/tokenizer_parts.hpp"

namespace mneme::data {

// Adds the tokens of tokenizer.json's member "added_tokens", of added_tokens_decoder or
// added_tokens.json, and the special tokens that the settings or the class name. A token of the
// vocabulary keeps its id; any other gets the next one. `file` is tokenizer.json, or an object
// without members; `place` is its name. Error (kUsage) naming file and key for a token that is no
// token, and for one with another id than it gets.
void add_folder_tokens(const FileJson& file, const std::string& place, TokenizerClass type,
                       const FolderSettings& settings, TokenizerParts& parts);

}  // namespace mneme::data
