#include "host/data/prepare/data_json.hpp"

#include <nlohmann/json.hpp>

#include "host/base/error.hpp"

namespace mneme::data {

void refuse_prepared(const std::string& where, const std::string& failed,
                     const std::string& expected, const std::string& got) {
  throw_usage({.where = where,
               .failed = failed,
               .expected = expected,
               .got = got,
               .hint =
                   "prepare the data again: mneme data prepare --train FILE --out DIR, with the "
                   "settings of its data.json"});
}

const Json& info_member(const Json& json, const std::string& where, const std::string& key) {
  const auto found = json.find(key);
  if (found != json.end()) return *found;
  refuse_prepared(where, "the prepared file is damaged", str("the key \"", key, "\""), "none");
}

std::int64_t info_count(const Json& json, const std::string& where, const std::string& key) {
  const Json& value = info_member(json, where, key);
  if (value.is_number_integer() && value.get<std::int64_t>() >= 0) {
    return value.get<std::int64_t>();
  }
  refuse_prepared(str(where, ": ", key), "the prepared file is damaged", "a count", value.dump());
}

std::string info_text(const Json& json, const std::string& where, const std::string& key) {
  const Json& value = info_member(json, where, key);
  if (value.is_string()) return value.get<std::string>();
  refuse_prepared(str(where, ": ", key), "the prepared file is damaged", "a text", value.dump());
}

void check_width(const std::filesystem::path& file, const TokenArray& tokens, int width) {
  if (tokens.width() == width) return;
  refuse_prepared(file.string(), "the ids do not belong to the vocabulary",
                  str(width, " bytes an id"), str(tokens.width()));
}

}  // namespace mneme::data
