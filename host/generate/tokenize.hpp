// A text as people write it in the words of a training text that a tokeniser took apart.
#pragma once

#include <string>
#include <string_view>

#include "host/data/vocabulary/vocabulary.hpp"

namespace mneme::generate {

// Takes the words of a text apart as the Moses tokeniser and WikiText did, which is what
// TokenWriter joins: punctuation, brackets and other symbols become words of their own, "don't"
// becomes "don 't", "well-known" "well @-@ known", "1,000" "1 @,@ 000" and "3.5" "3 @.@ 5". White
// space stays.
//
// The vocabulary decides what rules cannot: a word that it holds stays whole when its parts are not
// all in the vocabulary, or are not more frequent ("Mr.", "<unk>"); an apostrophe goes with the
// part that makes both words known ("do n't", "don 't"). So a prompt that is tokenised already
// stays as it is.
//
// `vocabulary`: one of words. Bytes that are no UTF-8 are letters; encoding reports them.
[[nodiscard]] std::string tokenize(std::string_view text, const data::Vocabulary& vocabulary);

}  // namespace mneme::generate
