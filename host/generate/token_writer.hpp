// Generated tokens as text, token by token.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "host/data/text/vocabulary.hpp"

namespace mneme::generate {

// What follows the text so far, for one text. Bytes and characters as they are; words separated by
// blanks, <eos> as a newline; without a vocabulary the ids themselves, separated by blanks.
//
// Detokenised, words are joined as they were before the Moses tokeniser and WikiText took them
// apart: "@-@", "@,@" and "@.@" become "-", "," and "." without blanks, closing punctuation, "'s"
// and "n't" stand at the word before, opening brackets and currency signs at the word after, curly
// quotes on their sides, and straight double quotes open and close in turn within a line. What the
// tokeniser destroyed (apostrophes that open a quotation, say) is not guessed.
class TokenWriter {
 public:
  // vocabulary: outlives the writer; null = ids.
  TokenWriter(const data::Vocabulary* vocabulary, bool detokenises)
      : vocabulary_(vocabulary), detokenises_(detokenises) {}

  // Tokens that stand before the text and are not written: quotations that they leave open are
  // closed by the text, which begins without a blank.
  void follow(const std::vector<std::int32_t>& ids);
  [[nodiscard]] std::string add(std::int32_t id);

 private:
  std::string add_word(std::string_view word);
  std::string add_detokenised(std::string_view word);

  const data::Vocabulary* vocabulary_;
  bool detokenises_;
  bool needs_blank_ = false;      // before the next word
  bool is_in_quotation_ = false;  // of straight double quotes
};

}  // namespace mneme::generate
