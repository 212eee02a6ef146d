// How texts are cut into words before they are compared. Each score has the words of the program
// whose numbers are published: docs/dialogue.md, "Scores of generated text".
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace mneme::scores {

// The code points of a text; U+FFFD for a byte that is no UTF-8.
[[nodiscard]] std::u32string code_points(std::string_view text);

// The text in lower case, code point by code point, as Python's str.lower() gives it; but a capital
// sigma always becomes U+03C3. A byte that is no UTF-8 becomes U+FFFD.
[[nodiscard]] std::u32string lower_case(std::string_view text);

// The code points as UTF-8.
[[nodiscard]] std::string to_utf8(std::u32string_view text);

// Words of ROUGE [PyPI rouge-score, DefaultTokenizer]: runs of a-z and 0-9 of the text in lower
// case; with a stemmer the stem (porter_stem) of each word of more than three letters.
[[nodiscard]] std::vector<std::string> rouge_words(std::string_view text, bool use_stemmer);

// Words of the F1 of dialogue generation: lower case; the 32 ASCII punctuation characters are
// deleted, so that "it's" is the word "its"; then the articles "a", "an" and "the" become blanks
// where no letter, digit or underscore of any script is beside them; then cut at white space.
[[nodiscard]] std::vector<std::string> f1_words(std::string_view text);

// Words of METEOR: lower case, cut at white space as Python's str.split() cuts; punctuation stays
// on its word.
[[nodiscard]] std::vector<std::string> meteor_words(std::string_view text);

}  // namespace mneme::scores
