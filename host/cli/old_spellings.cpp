#include "host/cli/old_spellings.hpp"

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "host/base/log.hpp"
#include "host/base/text.hpp"

namespace mneme::cli {
namespace {

using Words = std::vector<std::string>;

// "--tokens" as well as "--tokens=FILE".
bool is_option(std::string_view word, std::string_view option) {
  return word.starts_with(option) && (word.size() == option.size() || word[option.size()] == '=');
}

bool has_option(const Words& words, std::string_view option) {
  return std::ranges::any_of(words, [&](const auto& word) { return is_option(word, option); });
}

Words renamed(Words words, const char* command) {
  words.front() = command;
  std::string text = "mneme";
  for (const std::string& word : words) text += ' ' + shell_word(word);
  log_warning("an old spelling, which the next release refuses; now it is: ", text);
  return words;
}

}  // namespace

std::vector<Words> current_spelling(const Words& words) {
  if (words.empty() || words.front() != "eval") return {words};
  if (has_option(words, "--decode")) {
    Words now = words;
    std::erase(now, "--decode");
    return {renamed(now, "decode")};
  }
  if (has_option(words, "--tokens") || has_option(words, "--dump")) {
    return {renamed(words, "score")};
  }
  return {words};
}

}  // namespace mneme::cli
