#include "host/data/tokenizer/field.hpp"

#include "host/base/error.hpp"
#include "host/base/json_text.hpp"
#include "host/base/utf8.hpp"

namespace mneme::data {
namespace {

constexpr std::size_t kLongestShown = 120;  // bytes of a value in a message

std::string shown(const FileJson& json) {
  if (json.is_object() && json.size() > 8) return str("an object of ", json.size(), " members");
  if (json.is_array() && json.size() > 8) return str("an array of ", json.size(), " elements");
  const std::string text = json.dump(-1, ' ', true, FileJson::error_handler_t::replace);
  return text.size() <= kLongestShown ? text : text.substr(0, kLongestShown) + "...";
}

}  // namespace

std::string Field::place_of(std::string_view key) const {
  return str(place_, is_root_ ? ": " : ".", key);
}

std::optional<Field> Field::member(const std::string& key) const {
  if (!json_->is_object()) refuse("an object");
  const auto found = json_->find(key);
  if (found == json_->end()) return std::nullopt;
  return Field(*found, place_of(key), false);
}

std::optional<Field> Field::find(const std::string& key) const {
  const auto found = member(key);
  return found && !found->is_null() ? found : std::nullopt;
}

Field Field::at(const std::string& key) const {
  if (const auto found = find(key)) return *found;
  const bool is_null = json_->contains(key);
  throw_usage({.where = place_of(key),
               .failed = "the tokenizer cannot be read",
               .expected = "a value",
               .got = is_null ? "null" : "no such member"});
}

Field Field::element(std::size_t index) const {
  return {(*json_)[index], str(place_, "[", index, "]"), false};
}

std::vector<Field> Field::elements() const {
  if (!json_->is_array()) refuse("an array");
  std::vector<Field> out;
  for (std::size_t i = 0; i < json_->size(); ++i) out.push_back(element(i));
  return out;
}

void Field::require_object(std::initializer_list<std::string_view> known) const {
  if (!json_->is_object()) refuse("an object");
  for (const auto& [key, value] : json_->items()) {
    if (std::find(known.begin(), known.end(), key) != known.end()) continue;
    Field(value, place_of(key), false)
        .refuse("no such member",
                "this program does not know what it means, so the ids could differ");
  }
}

void Field::require_object_of_any() const {
  if (!json_->is_object()) refuse("an object");
}

const std::string& Field::text() const {
  if (!json_->is_string()) refuse("a string");
  return json_->get_ref<const std::string&>();
}

const std::string& Field::character() const {
  const std::string& one = text();
  if (one.empty() || decode_utf8(one, 0).bytes != one.size()) refuse("one character");
  return one;
}

bool Field::flag() const {
  if (!json_->is_boolean()) refuse("true or false");
  return json_->get<bool>();
}

std::int64_t Field::integer() const {
  if (!json_->is_number_integer()) refuse("an integer");
  return json_->get<std::int64_t>();
}

bool Field::flag(const std::string& key, bool otherwise) const {
  const auto found = find(key);
  return found ? found->flag() : otherwise;
}

void Field::refuse(const std::string& expected, const std::string& hint) const {
  throw_usage({.where = place_,
               .failed = "the tokenizer has a setting that is not understood",
               .expected = expected,
               .got = shown(*json_),
               .hint = hint});
}

void Field::fail(const std::string& what, const std::string& expected, const std::string& got,
                 const std::string& hint) const {
  throw_usage({.where = place_, .failed = what, .expected = expected, .got = got, .hint = hint});
}

FileJson parse_file_json(const std::string& text, const std::string& file) {
  if (const std::size_t depth = json_depth(text); depth > kMaxJsonDepth) {
    throw_usage({.where = file,
                 .failed = "objects and arrays lie too deep in each other",
                 .expected = str("at most ", kMaxJsonDepth, " levels"),
                 .got = str(depth)});
  }
  try {
    return FileJson::parse(text);
  } catch (const FileJson::parse_error& error) {
    throw_usage({.where = file,
                 .failed = "the file is no JSON",
                 .expected = "a JSON object",
                 .got = str("an error at byte ", error.byte, " of ", text.size()),
                 .hint = "it may be cut off; copy it again"});
  } catch (const FileJson::out_of_range& error) {  // of a double: 1e999
    throw_usage({.where = file,
                 .failed = "a number is too large",
                 .expected = "numbers of 64 bits",
                 .got = error.what()});
  }
}

}  // namespace mneme::data
