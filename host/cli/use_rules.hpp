// Which options of a command go together, as a table: refusals and a part of the help are made of it.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace mneme::cli {

// A rule a line, for what is left of its verb if that is given:
//   --watch, --decode refuses --dump, --json -: prints as it goes   none of these may be given
//   --count needs --watch, several FILE: use --all                  one of these must be
//   run folders allows EXP, --quiet: are read as they are           nothing else may be
// Behind the colon is the reason, with what is given as its subject, or for `needs` the remedy. Names
// are options, positional arguments, an option with a value ("--json -"), with more than one value
// ("several FILE"), and modes.
struct UseTable {
  std::string rules = {};
  // What a command calls its arguments as they are, after parsing, as "run folders".
  std::function<std::vector<std::string>()> modes = nullptr;
};

struct UseRule {
  enum class Verb { kRefuses, kNeeds, kAllows };
  std::vector<std::string> of;
  Verb verb = Verb::kRefuses;
  std::vector<std::string> others;
  std::string words;
};

[[nodiscard]] std::vector<UseRule> read_rules(std::string_view text);

// Error (kUsage) for the first rule that `given` breaks.
void check_use(const std::string& command, const std::vector<UseRule>& rules,
               const std::set<std::string>& given);

// The help of an option with what the rules say of it: "With --watch: ...", "...; not with --locked".
[[nodiscard]] std::string help_with_rules(const std::string& option, std::string help,
                                          const std::vector<UseRule>& rules);

}  // namespace mneme::cli
