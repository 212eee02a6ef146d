#include "host/cli/old_spellings.hpp"

#include <algorithm>
#include <array>
#include <string_view>

#include "host/base/error.hpp"
#include "host/base/log.hpp"
#include "host/base/text.hpp"

namespace mneme::cli {
namespace {

using Words = std::vector<std::string>;

// What `mneme eval` with `option` is now.
struct Old {
  std::string_view option;
  const char* command;
  std::string_view now;                           // the option's name there; "" = none
  std::array<std::string_view, 2> of_other = {};  // options of another command, with their values
};
constexpr std::array kOld = {
    Old{"--decode", "decode", ""}, Old{"--tokens", "score", "--tokens"},
    Old{"--dump", "score", "--dump"},
    Old{"--samples", "generate", "--for-report", {"--diagnostics"}},
    Old{"--diagnostics", "analyze", "--for-report", {"--samples", "--prompt-tokens"}}};

// "--tokens" as well as "--tokens=FILE".
bool is_option(std::string_view word, std::string_view option) {
  return !option.empty() && word.substr(0, word.find('=')) == option;
}

Words renamed(const Words& words, const Old& old) {
  Words now = {old.command};
  for (std::size_t i = 1; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (is_option(word, old.option)) {
      if (!old.now.empty()) now.push_back(str(old.now, word.substr(old.option.size())));
    } else if (std::ranges::any_of(old.of_other, [&](auto one) { return is_option(word, one); })) {
      if (word.find('=') == std::string::npos) ++i;
    } else {
      now.push_back(word);
    }
  }
  return now;
}

std::string typed(const Words& words) {
  std::string text = "mneme";
  for (const std::string& word : words) text += ' ' + shell_word(word);
  return text;
}

}  // namespace

std::vector<Words> current_spelling(const Words& words) {
  std::vector<Words> commands;
  for (const Old& old : kOld) {
    const bool is_there = !commands.empty() && commands.back().front() == old.command;
    const bool is_used =
        std::ranges::any_of(words, [&](auto& w) { return is_option(w, old.option); });
    if (is_used && !is_there && words.front() == "eval") commands.push_back(renamed(words, old));
  }
  if (commands.empty()) return {words};
  std::vector<std::string> texts;
  for (const Words& command : commands) texts.push_back(typed(command));
  const bool has_json = std::ranges::any_of(words, [](auto& w) { return is_option(w, "--json"); });
  if (has_json && commands.size() > 1) {
    throw_usage({.where = "mneme eval",
                 .failed = "an old spelling of several commands, each of which would write --json",
                 .hint = "type them, each with a --json of its own: " + join(texts, "; ")});
  }
  for (const std::string& text : texts)
    log_warning("an old spelling, which the next release refuses; now it is: ", text);
  return commands;
}

}  // namespace mneme::cli
