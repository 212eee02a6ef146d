#include "host/plugin/plugin_losses.hpp"

#include <algorithm>

#include "host/base/error.hpp"
#include "host/base/log.hpp"
#include "host/config/toml/schema.hpp"
#include "host/plugin/call_error.hpp"
#include "host/plugin/plugin_memory.hpp"

namespace mneme::plugin {
namespace {

constexpr std::size_t kMaxLossesText = 4096;

[[noreturn]] void refuse_losses(const std::string& where, const std::string& expected,
                         const std::string& got) {
  throw_plugin({.where = where,
                .failed = "bad table of functions: its losses",
                .expected = expected,
                .got = got,
                .hint = "report it to the plugin's author"});
}

std::vector<std::string> split_names(const std::string& text) {
  std::vector<std::string> names;
  for (std::size_t begin = 0; !text.empty() && begin <= text.size();) {
    const std::size_t end = std::min(text.find('|', begin), text.size());
    names.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return names;
}

std::string declared_text(const std::vector<std::string>& names) {
  return names.empty() ? "none" : quoted_list(names);
}

}  // namespace

LossNames read_loss_names(const mneme_plugin& table, const std::string& where) {
  if (table.losses == nullptr) return std::nullopt;
  const auto text = read_plugin_text(table.losses, kMaxLossesText);
  if (!text) refuse_losses(where, "names separated by '|'", "an address that is no text");
  std::vector<std::string> names = split_names(*text);
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (names[i].empty()) refuse_losses(where, "names separated by '|'", '"' + *text + '"');
    if (std::find(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(i), names[i]) !=
        names.begin() + static_cast<std::ptrdiff_t>(i)) {
      refuse_losses(where, "each name once", '"' + *text + '"');
    }
  }
  return names;
}

void check_weights(const config::TierConfig& tier, const LossNames& names,
                   config::Problems& problems) {
  for (const auto& weight : tier.weights) {
    const std::string& name = weight.first;
    if (!names) {
      log_warning(tier.position.text(), ": the plugin ", tier.plugin,
                  " does not declare its auxiliary losses: weight.", name,
                  " is taken unchecked, and does nothing when no loss has this name");
      continue;
    }
    if (std::ranges::find(*names, name) != names->end()) continue;
    const config::Value* const written = tier.weight_table.find(name);
    problems.add(
        written == nullptr ? tier.position : written->position(),
        written == nullptr ? "weight." + config::toml_key(name) : written->path(),
        {.failed = str("the plugin ", tier.plugin, " gives no auxiliary loss \"", name, '"',
                       did_you_mean(name, *names)),
         .expected = names->empty() ? "no weight.<loss>" : "weight.<loss> of " + join(*names, ", "),
         .hint = names->empty() && written != nullptr ? config::removal_of(*written) : ""});
  }
}

void check_declared(const LossNames& names, const std::string& name) {
  if (!names || std::ranges::find(*names, name) != names->end()) return;
  throw CallError(
      MNEME_E_INVALID_ARGUMENT,
      str("aux: the plugin does not declare the auxiliary loss \"", name, '"',
          did_you_mean(name, *names), "; declared: ", declared_text(*names),
          "; add it to mneme_plugin.losses (C++: static constexpr const char* kLosses)"));
}

}  // namespace mneme::plugin
