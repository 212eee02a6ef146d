// Which options of a command go together, as data: its refusals and a part of its help are made of it.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <vector>

namespace mneme::cli {

// Holds for each of `of` that is given: options, as "--watch", positional arguments, as "EXP", and
// modes, which are words for what a command makes of its arguments, as "run folders".
struct UseRule {
  std::vector<std::string> of;
  std::vector<std::string> refuses = {};  // none of these may be given beside it
  std::vector<std::string> needs = {};    // one of these must be
  std::vector<std::string> allows = {};   // nothing but these may be; empty = anything
  // After `refuses` and `allows`: the reason, as a verb for which the option is the subject. After
  // `needs`: what to do.
  std::string words = {};
};

struct UseTable {
  std::vector<UseRule> rules = {};
  std::function<std::vector<std::string>()> modes = nullptr;  // those that hold, after parsing
};

// Error (kUsage) for the first rule that `given`, options and modes, break.
void check_use(const std::string& command, const std::vector<UseRule>& rules,
               const std::set<std::string>& given);

// The help of an option with what the rules say of it: "With --watch: ...", "...; not with --locked".
[[nodiscard]] std::string help_with_rules(const std::string& option, std::string help,
                                          const std::vector<UseRule>& rules);

}  // namespace mneme::cli
