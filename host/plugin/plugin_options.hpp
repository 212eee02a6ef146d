// A plugin's published options: from the C ABI to the schema that manifests are checked against.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "host/config/options.hpp"
#include "mneme/plugin.h"

namespace mneme::plugin {

// Size of mneme_option in ABI 0.1.
inline constexpr std::uint32_t kOptionSizeV1 = 72;

// Copies a table's options, each normalised: fields beyond its struct_size are zero. Count, stride
// and struct_size are checked, and every pointer to a text is known to be readable afterwards.
// Errors: Error(kPlugin) that starts with `where`.
[[nodiscard]] std::vector<mneme_option> read_options(const mneme_plugin& table,
                                                     const std::string& where);

// The options of a normalised table as the host's schema, checked by config::check_schema: keys,
// types, bounds, defaults, choices. Errors: Error(kPlugin) that names `where` and the option.
[[nodiscard]] std::vector<config::OptionSpec> option_specs(const mneme_plugin& table,
                                                           const std::string& where);

}  // namespace mneme::plugin
