// Values of TOML as JSON.
#pragma once

#include "host/base/text.hpp"
#include "host/config/toml/toml.hpp"

namespace mneme::config {

[[nodiscard]] Json json_of(const Value& value);

}  // namespace mneme::config
