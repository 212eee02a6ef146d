// The JSON type of the project: keys keep their order, so written files are deterministic.
#pragma once

#include <nlohmann/json.hpp>

namespace mneme {

using Json = nlohmann::ordered_json;

}  // namespace mneme
