#include "host/config/toml/value_json.hpp"

#include <nlohmann/json.hpp>

namespace mneme::config {

Json json_of(const Value& value) {
  switch (value.kind()) {
    case Kind::kString:
      return value.as_string();
    case Kind::kInteger:
      return value.as_integer();
    case Kind::kReal:
      return value.as_real();
    case Kind::kBoolean:
      return value.as_boolean();
    case Kind::kArray: {
      Json json = Json::array();
      for (const Value& item : value.items()) json.push_back(json_of(item));
      return json;
    }
    case Kind::kTable:
      break;
  }
  Json json = Json::object();
  for (const Member& member : value.members()) json[member.key] = json_of(member.value);
  return json;
}

}  // namespace mneme::config
