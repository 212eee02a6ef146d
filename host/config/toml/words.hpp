// The words of enumerations in TOML files. Beside each enumeration E stands a function words_of(E):
// a std::array of the words, in the order of the values.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace mneme::config {

template <typename E>
concept Enumeration = std::is_enum_v<E>;

// The value as the file spells it.
template <Enumeration E>
[[nodiscard]] constexpr std::string_view to_word(E value) {
  return words_of(value)[static_cast<std::size_t>(value)];
}

// All words of the enumeration.
template <Enumeration E>
[[nodiscard]] std::vector<std::string> all_words() {
  const auto words = words_of(E{});
  return {words.begin(), words.end()};
}

}  // namespace mneme::config
