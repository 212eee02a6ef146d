// The auxiliary losses that a plugin declares, and a tier's weights checked against them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "host/config/experiment.hpp"
#include "host/config/toml/schema.hpp"
#include "mneme/plugin.h"

namespace mneme::plugin {

// Names that the plugin's hooks may give to aux; absent = it does not declare them.
using LossNames = std::optional<std::vector<std::string>>;

// The declaration of a table, whose text need not be readable. Error(kPlugin) that starts with
// `where` for a text that is none, an empty name or one given twice.
[[nodiscard]] LossNames read_loss_names(const mneme_plugin& table, const std::string& where);

// The place of each weight.<loss> of a tier that its plugin never gives goes to `problems`. Of a
// plugin without declaration nothing is known: a warning says so.
void check_weights(const config::TierConfig& tier, const LossNames& names,
                   config::Problems& problems);

// Throws CallError for a name that is declared neither by the plugin nor left open by it.
void check_declared(const LossNames& names, const std::string& name);

}  // namespace mneme::plugin
