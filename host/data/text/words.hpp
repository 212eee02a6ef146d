// A text as whitespace-separated words and lines, as the official Transformer-XL preparation cuts
// it (Python's universal newlines and str.split()).
#pragma once

#include <functional>
#include <string_view>

#include "host/data/text/text.hpp"

namespace mneme::data {

// Calls `on_word` for every word and `on_line_end` at every line end, in order. Lines end with
// "\n", "\r\n" or "\r"; a last line without an end counts too. Error (kUsage) at the first byte
// that is not UTF-8.
void for_each_word(const NamedText& text, const std::function<void(std::string_view)>& on_word,
                   const std::function<void()>& on_line_end);

}  // namespace mneme::data
