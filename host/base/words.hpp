// The words of enumerations, in files and messages. Beside each enumeration E that has words is a
// function words_of(E): it gives a std::array of them, in the order of the values, which count from 0.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mneme {

template <typename E>
concept HasWords = requires(E value) {
  words_of(value);
};

// The value as files spell it.
template <HasWords E>
[[nodiscard]] constexpr std::string_view to_word(E value) {
  return words_of(value)[static_cast<std::size_t>(value)];
}

// The value of a word.
template <HasWords E>
[[nodiscard]] constexpr std::optional<E> find_word(std::string_view word) {
  const auto words = words_of(E{});
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i] == word) return static_cast<E>(i);
  }
  return std::nullopt;
}

// All words of the enumeration.
template <HasWords E>
[[nodiscard]] std::vector<std::string> all_words() {
  const auto words = words_of(E{});
  return {words.begin(), words.end()};
}

}  // namespace mneme
