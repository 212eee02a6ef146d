// Translation of regular expressions between two syntaxes.
#pragma once

#include <string>
#include <string_view>

namespace mneme::data {

// The expression, in the syntax of Oniguruma for Ruby, as one of PCRE2 that matches the same texts
// (with UTF, UCP, MULTILINE and "\n" as the only newline). Where the two differ, as in \s, \w, \v,
// \h, \b and in the properties that a later Unicode changed, the meaning of Oniguruma 6.9.10 with
// Unicode 16.0 is written out. What is not translated exactly is refused: Error (kUsage) with the
// place, the part of the expression and its offset.
[[nodiscard]] std::string to_pcre2(std::string_view expression, const std::string& place);

// The text inside brackets for the characters of a general category ("N") or one of the scripts
// Han, Hangul, Hiragana and Katakana, by Unicode 16.0; empty for another name.
[[nodiscard]] std::string property_class(std::string_view name);

}  // namespace mneme::data
