#include "host/plugin/trained_options.hpp"

#include <algorithm>

#include "host/base/error.hpp"

namespace mneme::plugin {
namespace {

// The value of one option as TOML.
std::string value_text(const config::Value& options, const config::OptionSpec& spec) {
  const config::Value* const given = options.find(spec.key);
  if (given == nullptr) {
    return spec.default_value ? config::option_text(*spec.default_value) : "no value";
  }
  config::TierConfig tier;
  tier.options.set(spec.key, given->position(), *given);
  config::OptionSpec unbounded = spec;
  unbounded.min.reset();
  unbounded.max.reset();
  config::Problems problems;
  const config::OptionValues values = config::resolve_options(tier, {unbounded}, problems);
  // What cannot be read, of another type, say, differs in any case.
  return problems.empty() ? config::option_text(*values.training.find(spec.key)) : given->toml();
}

}  // namespace

std::string OptionChange::text() const {
  return str(option, " = ", now, ", trained with ", trained);
}

config::Value trained_options(const std::vector<config::OptionSpec>& specs,
                              const config::OptionMap& values) {
  std::string lines;
  for (const config::OptionSpec& spec : specs) {
    if (!spec.is_trained) continue;
    lines +=
        str(config::toml_key(spec.key), " = ", config::option_text(*values.find(spec.key)), '\n');
  }
  return config::parse_toml(lines, "options");
}

std::vector<OptionChange> changed_options(const std::string& tier,
                                          const std::vector<config::OptionSpec>& specs,
                                          const config::Value& trained,
                                          const config::OptionMap& now) {
  std::vector<OptionChange> changes;
  for (const config::OptionSpec& spec : specs) {
    if (!spec.is_trained) continue;
    OptionChange change{.tier = tier,
                        .option = spec.key,
                        .trained = value_text(trained, spec),
                        .now = config::option_text(*now.find(spec.key))};
    if (change.trained != change.now) changes.push_back(std::move(change));
  }
  return changes;
}

std::string to_text(const config::Value& options) { return options.toml(); }

config::Value parse_options(const std::string& text, const std::string& source) {
  return *config::parse_toml("options = " + text, source).find("options");
}

bool is_changed(const std::vector<OptionChange>& changes, const std::string& tier) {
  return std::ranges::any_of(changes,
                             [&](const OptionChange& change) { return change.tier == tier; });
}

void throw_changed_options(const std::string& where, const std::vector<OptionChange>& changes,
                           const std::string& hint) {
  std::string lines;
  for (const OptionChange& change : changes) {
    lines += str("\n  tier ", change.tier, ": ", change.text());
  }
  throw_usage({.where = where,
               .failed = str("the memory was trained with other options:", lines, "\n"),
               .hint = hint});
}

}  // namespace mneme::plugin
