#include "host/weights/pretrained/end_of_text.hpp"

#include <nlohmann/json.hpp>
#include <optional>

#include "host/base/error.hpp"
#include "host/base/json_text.hpp"
#include "host/base/text.hpp"

namespace mneme::weights {
namespace {

constexpr const char* kKey = "eos_token_id";

// The value of the key; absent where the text has none.
std::optional<Json> value_in(const std::string& text) {
  const Json json = text.empty() ? Json() : parse_json(json_of_python(text));
  if (!json.is_object() || !json.contains(kKey)) return std::nullopt;
  return json.at(kKey);
}

}  // namespace

EndOfText end_of_text(const FolderRecord& record, const std::string& source) {
  EndOfText out{.source = kGenerationName};
  std::optional<Json> value = value_in(record.generation_config);
  if (!value) {
    out.source = kConfigName;
    value = value_in(record.config);
  }
  if (!value || value->is_null()) return out;
  const Json list = value->is_array() ? *value : Json::array({*value});
  for (const Json& one : list) {
    if (one.is_number_integer()) {
      // Others, such as -1 for none, are never drawn.
      if (one >= 0 && one <= INT32_MAX) out.ids.push_back(one.get<std::int32_t>());
      continue;
    }
    throw_run({.where = str(source, ": ", out.source, ": ", kKey),
               .failed = "this names no end of a text",
               .expected = "an id, a list of ids, or null",
               .got = value->dump(),
               .hint = "generate with --ignore-eos"});
  }
  return out;
}

}  // namespace mneme::weights
