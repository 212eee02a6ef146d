#include "host/base/json.hpp"

#include <cmath>
#include <nlohmann/json.hpp>

namespace mneme {

Json number_or_null(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

}  // namespace mneme
