// Words of commands that messages tell people to type.
#pragma once

#include <string>
#include <string_view>

namespace mneme {

// The text as one word of a shell's command: quoted where the shell would take it apart.
[[nodiscard]] inline std::string shell_word(std::string_view text) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./,:=+@%";
  if (!text.empty() && text.find_first_not_of(kPlain) == text.npos) return std::string(text);
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? "'\\''" : std::string(1, c);
  return out + "'";
}

}  // namespace mneme
