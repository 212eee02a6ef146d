// Text in lines of a limited width, counted in characters (code points of UTF-8).
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace mneme {

// Columns that a text takes.
[[nodiscard]] std::size_t text_width(const std::string& text);

// Columns of the longest part without a blank.
[[nodiscard]] std::size_t longest_word(const std::string& text);

// The text, or its beginning and ".." in `width` columns (at least 2) where it is longer.
[[nodiscard]] std::string shortened(std::string text, std::size_t width);

// Breaks a text into lines of at most `width` columns (at least 1), the lines after the first
// indented by `indent` (less than width): at blanks; a word that is longer than a line also after
// '_', '/' and '-', before a '.' of a dotted name, and, where that is not enough, anywhere. At
// least one line.
[[nodiscard]] std::vector<std::string> wrap_text(const std::string& text, std::size_t width,
                                                 std::size_t indent = 0);

}  // namespace mneme
