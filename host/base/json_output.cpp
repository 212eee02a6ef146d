#include "host/base/json_output.hpp"

#include <nlohmann/json.hpp>

namespace mneme {

std::string json_text(const Json& json, int indent) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

}  // namespace mneme
