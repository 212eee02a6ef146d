// What a tokenizer is made of, as read from its files.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "host/data/tokenizer/added_tokens.hpp"
#include "host/data/tokenizer/bpe.hpp"
#include "host/data/tokenizer/decoder.hpp"
#include "host/data/tokenizer/pieces/piece_normalizer.hpp"
#include "host/data/tokenizer/token_model.hpp"
#include "host/data/tokenizer/tokenizer.hpp"
#include "host/data/tokenizer/tokenizer_files.hpp"
#include "host/data/tokenizer/words/normalizer.hpp"
#include "host/data/tokenizer/words/pre_tokenizer.hpp"

namespace mneme::data {

struct TokenizerParts {
  std::unique_ptr<TokenModel> model;
  std::vector<AddedToken> added;  // in the order of the file; ids of the model, or behind them
  Normalizer normalizer;
  // Of tokenizer.model: in place of the normalizer, which is that of added tokens alone then.
  std::unique_ptr<PieceNormalizer> piece_normalizer;
  PreTokenizer pre_tokenizer;
  Decoder decoder;
  std::vector<std::int32_t> prefix;  // of the post-processor
  std::vector<std::int32_t> suffix;
  bool splits_special = false;  // special tokens in a text are text, unless they are asked for
  std::vector<std::string> notes;
  std::string sha256;

  // The id of a token of the model, or an added one.
  [[nodiscard]] std::optional<std::int32_t> find(std::string_view token) const;
  [[nodiscard]] std::int32_t size() const;
  // A text between added tokens as the model gets it. `is_at_start`: none precedes it.
  [[nodiscard]] std::string normalized(std::string_view text, bool is_at_start) const;
};

// The member "model" of tokenizer.json, or the files vocab.json and merges.txt (model.cpp).
struct ModelFields {
  std::vector<std::string> tokens;
  std::vector<Merge> merges;
  BpeSettings settings;
};
[[nodiscard]] ModelFields read_model(const Field& field);
[[nodiscard]] ModelFields read_vocabulary_and_merges(const TokenizerFiles& files);
// Sets the token for characters that the vocabulary lacks. Where it lacks that token, too, a text
// with such a character is refused, naming `place`.
void set_unknown(const std::string& token, const std::string& place, ModelFields& model);

// Reads everything.
[[nodiscard]] TokenizerParts read_parts(const TokenizerFiles& files);

}  // namespace mneme::data
