// Stems of English words.
#pragma once

#include <string>
#include <string_view>

namespace mneme::scores {

// The stem of a word in lower case: Porter's algorithm [Porter 1980, "An algorithm for suffix
// stripping"] with the changes that PyPI nltk makes to it by default (PorterStemmer, mode
// NLTK_EXTENSIONS), because rouge-score and nltk's METEOR use that stemmer:
//   - words of one or two letters stay, and a few irregular words have stems of their own;
//   - "ies" and "ied" become "ie" in words of four letters, and "ied" else becomes "i";
//   - a final "y" becomes "i" after a consonant only, and not where that consonant is all;
//   - step 2 has "bli", "fulli" and "logi", and is repeated after "alli";
//   - a vowel and a consonant alone count as a short ending (*o), so "aging" becomes "age".
// Snowball's "porter" (Debian's libstemmer) is the algorithm without them and stems other words
// differently: "always", "apology", "ages".
// Letters beyond a-z count as consonants. Invalid UTF-8 becomes U+FFFD.
[[nodiscard]] std::string porter_stem(std::string_view word);

}  // namespace mneme::scores
