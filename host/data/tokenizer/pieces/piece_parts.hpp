// tokenizer.model as parts of a tokenizer.
#pragma once

#include <memory>

#include "host/data/tokenizer/field.hpp"
#include "host/data/tokenizer/pieces/piece_file.hpp"
#include "host/data/tokenizer/token_model.hpp"

namespace mneme::data {

[[nodiscard]] std::unique_ptr<TokenModel> piece_model(const PieceFile& file);

// The members "added_tokens", "normalizer" (of added tokens) and "decoder" of a tokenizer.json. The
// control and unknown pieces are special tokens. The user-defined pieces of byte pair encoding are
// added tokens of the normalised text; a unigram model finds its own.
[[nodiscard]] FileJson parts_of_pieces(const PieceFile& file, bool adds_space);

}  // namespace mneme::data
