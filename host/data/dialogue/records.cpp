#include "host/data/dialogue/records.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "host/base/error.hpp"
#include "host/base/file/file.hpp"
#include "host/base/file/file_kind.hpp"
#include "host/base/json_output.hpp"
#include "host/base/json_text.hpp"
#include "host/base/utf8.hpp"
#include "host/data/text/text.hpp"

namespace mneme::data {
namespace {

constexpr std::size_t kShownWidth = 60;

void check_utf8_of(const NamedText& text) {
  for (std::size_t i = 0; i < text.text.size();) {
    const std::size_t bytes = decode_utf8(text.text, i).bytes;
    if (bytes == 0) {
      refuse_record(position_text(text, i), "the text is not UTF-8", "valid UTF-8",
                    str("the byte ", printable(text.text.substr(i, 1))),
                    "convert the file (iconv -t UTF-8)");
    }
    i += bytes;
  }
}

}  // namespace

void refuse_record(const std::string& where, const std::string& failed, const std::string& expected,
                   const std::string& got, const std::string& hint) {
  throw_usage({.where = where, .failed = failed, .expected = expected, .got = got, .hint = hint});
}

std::string shown(const Json& value) {
  return shortened(printable(value.dump(-1, ' ', false, Json::error_handler_t::replace)),
                   kShownWidth);
}

bool is_blank(std::string_view text) {
  for (std::size_t i = 0; i < text.size();) {
    const CodePoint point = decode_utf8(text, i);
    if (point.bytes == 0 || !is_space(point.value)) return false;
    i += point.bytes;
  }
  return true;
}

const Json& needed(const Json& object, const std::string& where, const std::string& what,
                   const char* key) {
  if (!object.is_object()) refuse_record(where, what, "an object", shown(object));
  const auto member = object.find(key);
  if (member == object.end()) {
    refuse_record(where, str(what, " has no ", key), str("the key \"", key, "\""), shown(object));
  }
  return *member;
}

std::string needed_text(const Json& object, const std::string& where, const std::string& what,
                        const char* key) {
  const Json& member = needed(object, where, what, key);
  if (!member.is_string()) {
    refuse_record(where, str(what, ", ", key), "a text in quotes", shown(member));
  }
  return member.get<std::string>();
}

std::string read_utf8_file(const std::filesystem::path& path) {
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) {
    if (const auto packed = find_packed_beside(path)) {
      refuse_record(path.string(), packed->failed, "JSON lines", packed->got, packed->hint);
    }
  }
  const std::string bytes = read_file(path);
  const NamedText text = text_of_file(path.string(), bytes);
  check_utf8_of(text);
  return std::string(text.text);
}

Json parse_object(const std::string& file, std::size_t first_line, std::string_view text) {
  if (const std::size_t depth = json_depth(text); depth > kMaxJsonDepth) {
    refuse_record(str(file, ":", first_line), "objects and lists in each other",
                  str("at most ", kMaxJsonDepth, " deep"), str(depth));
  }
  try {
    Json json = Json::parse(text);
    if (json.is_object()) return json;
    refuse_record(str(file, ":", first_line), "a record", "a JSON object", shown(json));
  } catch (const Json::parse_error& error) {
    // `byte` counts from 1: the last byte of the part that does not fit, or one past the end.
    const std::size_t offset = std::min(error.byte == 0 ? 0 : error.byte - 1, text.size());
    const std::string_view before = text.substr(0, offset);
    const auto lines = static_cast<std::size_t>(std::count(before.begin(), before.end(), '\n'));
    const std::size_t line_begin = lines == 0 ? 0 : before.rfind('\n') + 1;
    const std::string rest = printable(text.substr(offset, kShownWidth));
    refuse_record(
        str(file, ":", first_line + lines, ":", count_characters(before.substr(line_begin)) + 1),
        "the text is no JSON", "a JSON object",
        rest.empty() ? "its end" : shortened(rest, kShownWidth),
        "a line holds one whole object; quotes and backslashes in texts have a "
        "backslash before them");
  } catch (const Json::out_of_range& error) {  // of a double: 1e999
    refuse_record(str(file, ":", first_line), "a number is too large", "numbers of 64 bits",
                  error.what());
  }
}

void for_each_record(
    const std::filesystem::path& path,
    const std::function<void(const Json& record, const std::string& where)>& on_record) {
  const std::string file = path.string();
  const std::string bytes = read_utf8_file(path);
  std::string_view text = bytes;
  bool has_record = false;
  for (std::size_t line = 1; !text.empty(); ++line) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view record = text.substr(0, end);
    if (!is_blank(record)) {
      on_record(parse_object(file, line, record), str(file, ":", line));
      has_record = true;
    }
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  if (!has_record) {
    refuse_record(file, "the file has no record", "one JSON object a line", "only white space");
  }
}

void DialogueBuilder::begin(std::string id, std::string document, std::string where) {
  const auto [entry, is_new] = places_.try_emplace(id, where);
  if (!is_new) {
    refuse_record(where, "the id of a dialogue", "another one for each dialogue",
                  str("\"", id, "\", which ", entry->second, " has"));
  }
  if (is_blank(document)) {
    refuse_record(where, "the dialogue has no document", "a text", "white space only");
  }
  dialogue_ = {std::move(id), std::move(document), {}, std::move(where)};
  speakers_.clear();
}

void DialogueBuilder::add_turn(std::string speaker, std::string text, std::size_t index) {
  if (is_blank(text)) {
    if (!options_.leaves_out_blank_turns) {
      refuse_record(dialogue_.where, str("turn ", index, " (the first is 0) has no text"), "a text",
                    "white space only",
                    "remove the turn, or leave out such turns (mneme data dialogues "
                    "--leave-out-blank)");
    }
    ++set_.blank_turns;
    return;
  }
  std::vector<Turn>& turns = dialogue_.turns;
  if (options_.joins_turns && !turns.empty() && turns.back().speaker == speaker) {
    turns.back().text.append(" ").append(text);
    ++set_.joined_turns;
    return;
  }
  speakers_.insert(speaker);
  if (speakers_.size() > 2) {
    refuse_record(dialogue_.where, str("turn ", index, " (the first is 0) has a third speaker"),
                  "two speakers in a dialogue", str("\"", speaker, "\""));
  }
  turns.push_back({std::move(speaker), std::move(text)});
}

void DialogueBuilder::end() {
  if (dialogue_.turns.empty()) {
    refuse_record(dialogue_.where, "the dialogue has no turns", "at least one turn with text",
                  "none");
  }
  set_.turns += static_cast<std::int64_t>(dialogue_.turns.size());
  set_.dialogues.push_back(std::move(dialogue_));
  dialogue_ = {};
}

DialogueSet DialogueBuilder::take() { return std::move(set_); }

}  // namespace mneme::data
