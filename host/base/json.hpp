// The JSON type of the project: keys keep their order, so written files are deterministic. Files
// that read or make values include <nlohmann/json.hpp>, which costs seconds, for themselves.
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace mneme {

using Json = nlohmann::ordered_json;

// JSON has no NaN and no infinity: they become null.
[[nodiscard]] Json number_or_null(double value);

}  // namespace mneme
