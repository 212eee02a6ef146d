// The characters by which byte-level vocabularies write bytes.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace mneme::data {

// Appends the bytes, each as the character that GPT-2's vocabulary [Radford et al. 2019] writes for
// it: printable characters of Latin-1 stand for themselves, the 68 others are U+0100 to U+0143.
void append_as_characters(std::string& out, std::string_view bytes);

// The bytes that such characters stand for; nothing when one of them is no such character.
[[nodiscard]] std::optional<std::string> bytes_of_characters(std::string_view characters);

}  // namespace mneme::data
