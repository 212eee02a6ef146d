#include "host/cli/use_rules.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <iterator>
#include <utility>

#include "host/base/error.hpp"
#include "host/base/text.hpp"

namespace mneme::cli {
namespace {

using Words = std::vector<std::string>;
using Verb = UseRule::Verb;

constexpr std::array kVerbs = {std::pair(" refuses ", Verb::kRefuses),
                               std::pair(" needs ", Verb::kNeeds),
                               std::pair(" allows ", Verb::kAllows)};

Words split_at(std::string_view text, std::string_view mark) {
  Words words;
  for (;;) {
    const std::size_t end = text.find(mark);
    words.emplace_back(text.substr(0, end));
    if (end == std::string_view::npos) return words;
    text.remove_prefix(end + mark.size());
  }
}

bool has(const Words& words, const std::string& word) {
  return std::ranges::find(words, word) != words.end();
}

Words in_both(const std::set<std::string>& given, const Words& others) {
  Words words;
  std::ranges::copy_if(given, std::back_inserter(words),
                       [&](const std::string& one) { return has(others, one); });
  return words;
}

// Names alone: neither values nor modes.
Words without(const std::set<std::string>& given, const std::string& option, const Words& others) {
  Words words;
  std::ranges::copy_if(given, std::back_inserter(words), [&](const std::string& one) {
    return one.find(' ') == std::string::npos && one != option && !has(others, one);
  });
  return words;
}

}  // namespace

std::vector<UseRule> read_rules(std::string_view text) {
  std::vector<UseRule> rules;
  for (const std::string& line : split_at(text, "\n")) {
    const std::size_t colon = line.find(": ");
    const std::string head = line.substr(0, colon);
    for (const auto& [word, verb] : kVerbs) {
      const Words sides = split_at(head, word);
      if (sides.size() != 2) continue;
      rules.push_back({.of = split_at(sides[0], ", "),
                       .verb = verb,
                       .others = split_at(sides[1], ", "),
                       .words = colon == std::string::npos ? "" : line.substr(colon + 2)});
    }
  }
  return rules;
}

void check_use(const std::string& command, const std::vector<UseRule>& rules,
               const std::set<std::string>& given) {
  for (const auto& [of, verb, others, words] : rules) {
    for (const std::string& option : of) {
      if (!given.contains(option)) continue;
      const std::string subject = command + (option.starts_with('-') ? " " : ": ") + option;
      const Words found =
          verb == Verb::kAllows ? without(given, option, others) : in_both(given, others);
      if (verb == Verb::kNeeds && found.empty()) {
        throw_usage(subject, " goes with ", join(others, " or "), "; ",
                    words.empty() ? "add that, or leave " + option + " out" : words);
      }
      if (verb == Verb::kNeeds || found.empty()) continue;
      throw_usage(subject, ' ', words, "; leave ", join(found, " and "), " out");
    }
  }
}

std::string help_with_rules(const std::string& option, std::string help,
                            const std::vector<UseRule>& rules) {
  Words refused;
  for (const auto& [of, verb, others, words] : rules) {
    if (!has(of, option)) continue;
    if (verb == Verb::kRefuses) std::ranges::copy(others, std::back_inserter(refused));
    if (verb != Verb::kNeeds) continue;
    help.front() = static_cast<char>(std::tolower(static_cast<unsigned char>(help.front())));
    help = str("With ", join(others, " or "), ": ", help);
  }
  return refused.empty() ? help : str(help, "; not with ", join(refused, ", "));
}

}  // namespace mneme::cli
