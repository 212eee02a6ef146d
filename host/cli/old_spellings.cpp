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

constexpr std::string_view kForReport = "--for-report";

// "--tokens" as well as "--tokens=FILE".
bool is_option(std::string_view word, std::string_view option) {
  return word.starts_with(option) && (word.size() == option.size() || word[option.size()] == '=');
}

bool has_option(const Words& words, std::string_view option) {
  return std::ranges::any_of(words, [&](const auto& word) { return is_option(word, option); });
}

// With `now` in the place of the option's name.
Words with_option(Words words, std::string_view option, std::string_view now) {
  for (std::string& word : words) {
    if (is_option(word, option)) word.replace(0, option.size(), now);
  }
  return words;
}

// Without the option and its value.
Words without_option(Words words, std::string_view option) {
  for (auto at = words.begin(); at != words.end();) {
    if (!is_option(*at, option)) {
      ++at;
    } else {
      const bool has_value_behind = at->size() == option.size() && at + 1 != words.end();
      at = words.erase(at, at + (has_value_behind ? 2 : 1));
    }
  }
  return words;
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
  std::vector<Words> commands;
  if (has_option(words, "--samples")) {
    commands.push_back(renamed(
        with_option(without_option(words, "--diagnostics"), "--samples", kForReport), "generate"));
  }
  if (has_option(words, "--diagnostics")) {
    const Words others = without_option(without_option(words, "--samples"), "--prompt-tokens");
    commands.push_back(renamed(with_option(others, "--diagnostics", kForReport), "analyze"));
  }
  return commands.empty() ? std::vector<Words>{words} : commands;
}

}  // namespace mneme::cli
