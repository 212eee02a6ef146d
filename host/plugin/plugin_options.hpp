// What a plugin's table declares about options and auxiliary losses: from the C ABI to the schema
// that memory files are checked against; and the comparison of trained options with present ones.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "host/config/experiment.hpp"
#include "host/config/options.hpp"
#include "host/config/toml/schema.hpp"
#include "host/config/toml/toml.hpp"
#include "mneme/config.h"

struct mneme_plugin;

namespace mneme::plugin {

// The NUL-terminated text at an address in a plugin's table; nothing when it is NULL or longer than
// `limit` bytes. no_text() says which.
[[nodiscard]] std::optional<std::string> read_text(const char* text, std::size_t limit);
[[nodiscard]] inline std::string no_text(const char* text) {
  return text == nullptr ? "NULL" : "a longer text";
}

// The smallest struct_size that a mneme_option may have.
inline constexpr std::uint32_t kOptionSizeV1 = 120;

// Copies a table's options, each normalised: fields beyond its struct_size are zero. Count, stride,
// struct_size and the lengths of texts are checked. Errors: Error(kPlugin) that starts with
// `where`.
[[nodiscard]] std::vector<mneme_option> read_options(const mneme_plugin& table,
                                                     const std::string& where);

// The options of a normalised table as the host's schema, checked by config::check_schema: keys,
// types, bounds, defaults, choices. Errors: Error(kPlugin) that names `where` and the option.
[[nodiscard]] std::vector<config::OptionSpec> option_specs(const mneme_plugin& table,
                                                           const std::string& where);

// --- Trained options (MNEME_OPTION_TRAINED) ---

// Parameters and state are valid only with the values of these options under which they were made.
// So the values are saved with them and compared with the present ones.
//
// Tables of options by the tier's name, "<index>.<plugin id>". An option that a table lacks has its
// schema's default.
using TierOptions = std::map<std::string, config::Value>;

// Metadata of a saved state: this and a tier's name before the tier's table.
inline const std::string kSavedOptions = "options.";

inline const std::string kCarryHint =
    "use the trained values, or train a new run; memory.carry = \"reset\" starts the tier's "
    "parameters and state afresh";

// An option that has another value than the one that a tier was trained with; values as TOML.
struct OptionChange {
  std::string tier;  // "<index>.<plugin id>"
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

// Names that the plugin's hooks may give to aux; absent = it does not declare them.
using LossNames = std::optional<std::vector<std::string>>;

// The names that a plugin's table declares. Error(kPlugin) that starts with `where` for an empty
// name or one given twice.
[[nodiscard]] LossNames read_loss_names(const mneme_plugin& table, const std::string& where);

// Each weight.<loss> of a tier whose plugin does not declare that loss is added to `problems`. When
// a plugin declares nothing, a warning says that the names are unchecked.
void check_weights(const config::TierConfig& tier, const LossNames& names,
                   config::Problems& problems);

// Throws CallError for a name that the plugin's declaration lacks.
void check_declared(const LossNames& names, const std::string& name);

}  // namespace mneme::plugin
