// Integers from text.
#pragma once

#include <charconv>
#include <concepts>
#include <optional>
#include <string_view>
#include <system_error>

namespace mneme {

// The number that the whole text is, in decimal; nothing for other texts and numbers too large.
template <std::integral T>
[[nodiscard]] std::optional<T> integer_of(std::string_view text) {
  T value{};
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && stop == end ? std::optional(value) : std::nullopt;
}

}  // namespace mneme
