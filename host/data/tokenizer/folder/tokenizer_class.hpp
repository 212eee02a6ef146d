// The class by which transformers' AutoTokenizer makes a tokenizer of a folder.
//
// Some classes take tokenizer.json as it is. The others take its vocabulary, its merges and its
// post-processor alone and bring all other parts themselves, so that ids may differ from those that
// tokenizer.json alone would give.
#pragma once

#include <optional>
#include <string>

#include "host/data/tokenizer/field.hpp"
#include "host/data/tokenizer/folder/folder_settings.hpp"

namespace mneme::data {

enum class TokenizerClass { kAsItStands, kGemma, kGpt2, kGptNeoX, kLlama, kQwen2 };

// The class that transformers 5.24 takes for these files, by "tokenizer_class" of
// tokenizer_config.json and by "model_type" and "tokenizer_class" of config.json. Error (kUsage)
// naming file and key for a class or a kind of model whose rules are not known here.
[[nodiscard]] TokenizerClass class_of(const TokenizerFiles& files);

// Error (kUsage) naming file and key for a class that makes other ids of a tokenizer.model than
// those of sentencepiece.
void require_class_of_pieces(const TokenizerFiles& files);

// What a class brings itself.
struct ClassParts {
  FileJson normalizer;  // as members of tokenizer.json
  FileJson pre_tokenizer;
  FileJson decoder;
  bool falls_back_to_bytes = false;  // and makes neighbouring unknown characters one token
};
// Of any class but kAsItStands; takes add_prefix_space and legacy from the settings.
[[nodiscard]] ClassParts parts_of(TokenizerClass type, const FolderSettings& settings);

// The special token ("eos_token") of a class where the files do not give it; absent = none.
[[nodiscard]] std::optional<std::string> default_token(TokenizerClass type,
                                                       const std::string& name);

}  // namespace mneme::data
