#include "host/cli/use_rules.hpp"

#include <algorithm>
#include <cctype>
#include <iterator>

#include "host/base/error.hpp"
#include "host/base/text.hpp"

namespace mneme::cli {
namespace {

using Words = std::vector<std::string>;

bool has(const Words& words, const std::string& word) {
  return std::ranges::find(words, word) != words.end();
}

// What is given and must not be beside `option`.
Words refused_by(const UseRule& rule, const std::string& option,
                 const std::set<std::string>& given) {
  Words out;
  std::ranges::copy_if(given, std::back_inserter(out), [&](const std::string& one) {
    const bool is_other = !rule.allows.empty() && one != option && !has(rule.allows, one);
    return is_other || has(rule.refuses, one);
  });
  return out;
}

}  // namespace

void check_use(const std::string& command, const std::vector<UseRule>& rules,
               const std::set<std::string>& given) {
  for (const UseRule& rule : rules) {
    for (const std::string& option : rule.of) {
      if (!given.contains(option)) continue;
      const std::string subject = command + (option.starts_with('-') ? " " : ": ") + option;
      if (const Words refused = refused_by(rule, option, given); !refused.empty()) {
        throw_usage(subject, ' ', rule.words, "; leave ", join(refused, " and "), " out");
      }
      const bool is_alone = std::ranges::none_of(
          rule.needs, [&](const std::string& one) { return given.contains(one); });
      if (rule.needs.empty() || !is_alone) continue;
      throw_usage(subject, " goes with ", join(rule.needs, " or "), "; ",
                  rule.words.empty() ? "add that, or leave " + option + " out" : rule.words);
    }
  }
}

std::string help_with_rules(const std::string& option, std::string help,
                            const std::vector<UseRule>& rules) {
  Words others;
  for (const UseRule& rule : rules) {
    if (!has(rule.of, option)) continue;
    std::ranges::copy(rule.refuses, std::back_inserter(others));
    if (rule.needs.empty()) continue;
    help.front() = static_cast<char>(std::tolower(static_cast<unsigned char>(help.front())));
    help = str("With ", join(rule.needs, " or "), ": ", help);
  }
  return others.empty() ? help : str(help, "; not with ", join(others, ", "));
}

}  // namespace mneme::cli
