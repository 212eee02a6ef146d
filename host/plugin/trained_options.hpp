// Options that trained parameters and state mean something with (MNEME_OPTION_TRAINED): what a tier
// had when they were made, against what it has now.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "host/config/options.hpp"
#include "host/config/toml/toml.hpp"

namespace mneme::plugin {

// Tables of options by the tier's name, "<place>.<plugin id>". What a table leaves out has the
// default of its schema.
using TierOptions = std::map<std::string, config::Value>;

// Metadata of a saved state: this and a tier's name before the tier's table.
inline const std::string kSavedOptions = "options.";

inline const std::string kCarryHint =
    "use the trained values, or train a new run; memory.carry = \"reset\" starts the tier's "
    "parameters and state afresh";

// An option that has another value than the one that a tier was trained with; values as TOML.
struct OptionChange {
  std::string tier;  // "<place>.<plugin id>"
  std::string option;
  std::string trained;
  std::string now;

  // "tau = 0.5, trained with 0.75".
  [[nodiscard]] std::string text() const;
};

// The table of the options in `values` that the schema marks as trained.
[[nodiscard]] config::Value trained_options(const std::vector<config::OptionSpec>& specs,
                                            const config::OptionMap& values);

// The options that the schema marks as trained and that `trained` and `now` resolve to different
// values. `trained` may come from another version of the plugin: keys that the schema lacks do not
// count, bounds do not either.
[[nodiscard]] std::vector<OptionChange> changed_options(
    const std::string& tier, const std::vector<config::OptionSpec>& specs,
    const config::Value& trained, const config::OptionMap& now);

// A table as text for metadata, and back. Error (kUsage) naming `source` for other text.
[[nodiscard]] std::string to_text(const config::Value& options);
[[nodiscard]] config::Value parse_options(const std::string& text, const std::string& source);

// True when one of the changes is the tier's.
[[nodiscard]] bool is_changed(const std::vector<OptionChange>& changes, const std::string& tier);

// Throws Error (kUsage) naming `where`, every tier, option and both values.
[[noreturn]] void throw_changed_options(const std::string& where,
                                        const std::vector<OptionChange>& changes,
                                        const std::string& hint = kCarryHint);

}  // namespace mneme::plugin
