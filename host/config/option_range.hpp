// Bounds of an option, as the schema reader takes them. Not for other folders.
#pragma once

#include "host/config/options.hpp"
#include "host/config/toml/schema.hpp"

namespace mneme::config {

// The whole numbers inside the bounds; no bound where it lies outside 64 bits.
[[nodiscard]] IntegerRange integer_range(const OptionSpec& spec);
[[nodiscard]] RealRange real_range(const OptionSpec& spec);

}  // namespace mneme::config
