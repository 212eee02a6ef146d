#include "host/optim/untrained.hpp"

#include <algorithm>
#include <map>

#include "host/base/text.hpp"

namespace mneme::optim {

std::vector<std::string> untrained_lines(const Adam& optimizer, const memory::Stack& stack,
                                         std::int64_t steps) {
  constexpr std::size_t kNamed = 4;
  std::map<std::string, std::string> tier_of;  // by parameter; the backbone's have none
  for (const memory::TierParameter& parameter : stack.parameters()) {
    tier_of[parameter.name] = parameter.tier;
  }
  std::map<std::string, std::vector<std::string>> by_owner;
  for (const std::string& name : optimizer.untrained()) {
    const auto tier = tier_of.find(name);
    by_owner[tier == tier_of.end() ? "the backbone" : "tier " + tier->second].push_back(name);
  }
  std::vector<std::string> lines;
  for (auto& [owner, names] : by_owner) {
    const std::size_t count = names.size();
    names.resize(std::min(count, kNamed));
    lines.push_back(str(owner, ": no gradient has reached ", count, " of its parameters in ", steps,
                        steps == 1 ? " step" : " steps",
                        ", they keep their first values: ", join(names, ", "),
                        count > kNamed ? str(" and ", count - kNamed, " more") : std::string()));
  }
  return lines;
}

}  // namespace mneme::optim
