// The unigram language model of tokens [Kudo 2018].
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "host/data/tokenizer/pieces/piece_file.hpp"
#include "host/data/tokenizer/pieces/prefix_index.hpp"
#include "host/data/tokenizer/token_model.hpp"

namespace mneme::data {

// A word becomes the tokens with the greatest sum of scores, found by Viterbi's algorithm. Of equal
// sums the one whose last token begins first is taken. Sums are rounded to f32 as those of
// sentencepiece are, so that equal ids come out where two sums differ by less.
//
// A user-defined token has the score that sentencepiece 0.2.3 gives it, 0.1 for each of its bytes
// but one: other tokens can win over it. Earlier versions had another rule.
//
// A character that is no token itself may become the unknown token, whose score is 10 below the
// least of all. Neighbouring ones become one token, or each byte a token of its own.
class Unigram : public TokenModel {
 public:
  explicit Unigram(const PieceFile& file);

  // Time is the word's length times the length of the longest token at worst.
  std::int64_t encode(std::string_view word, std::vector<std::int32_t>& ids) override;

 private:
  // The best way to cut what lies before a place.
  struct Ending {
    float score = 0.0F;
    std::int32_t id = -1;   // of its last token
    std::size_t begin = 0;  // of that token
    bool is_reached = false;
  };

  std::size_t find_path(std::string_view text);

  PrefixIndex index_;
  std::vector<float> scores_;
  std::int32_t unknown_;
  float unknown_score_;
  bool falls_back_to_bytes_;
  std::array<std::int32_t, 256> byte_ids_{};
  std::vector<Ending> endings_;    // by byte of the text that is being cut
  std::vector<std::size_t> ends_;  // of the tokens of the best path, the last first
};

}  // namespace mneme::data
