#include "host/data/dialogue/records.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "host/base/error.hpp"
#include "host/base/file/file.hpp"
#include "host/base/file/file_kind.hpp"
#include "host/base/json_text.hpp"
#include "host/base/utf8.hpp"
#include "host/data/text/text.hpp"

namespace mneme::data {
namespace {

constexpr std::size_t kShownWidth = 60;

void check_utf8_of(const NamedText& text) {
  const std::optional<WideEncoding> wide = find_wide_encoding(text.context());
  const std::string hint = wide ? wide->hint() : "convert the file (iconv -t UTF-8)";
  if (wide) refuse_record(text.source, "the text is not UTF-8", "valid UTF-8", wide->text(), hint);
  for (std::size_t i = 0; i < text.text.size();) {
    const std::size_t bytes = decode_utf8(text.text, i).bytes;
    if (bytes == 0) {
      refuse_record(position_text(text, i), "the text is not UTF-8", "valid UTF-8",
                    str("the byte ", printable(text.text.substr(i, 1))), hint);
    }
    i += bytes;
  }
}

// What is wrong, of nlohmann's message behind the place and before the text that was read, and what
// to do about it where that does not say so.
std::string hint_of(std::string_view message) {
  constexpr std::pair<std::string_view, std::string_view> kHints[] = {
      {"surrogate",
       ": write both halves of the character, \\ud83d\\ude00, or the character itself"},
      {"control character", ""},
      {"; expected end of input",
       ": one object a line, and nothing behind it, or all in one list, [{...}, {...}]"},
      {"unexpected end of input", ": the object is cut off, or lacks a bracket"},
      {"invalid literal",
       ": keys and texts have double quotes, and quotes in texts a backslash before them; NaN and "
       "None are written null; there are no comments"},
      {"invalid string", ": quotes and backslashes in texts have a backslash before them"},
      {"unexpected string", ": a comma is missing, or a backslash before a quote in a text"}};
  const std::size_t begin = message.find(" - ") + 3;
  const std::string_view reason = message.substr(begin, message.find("; last read: ") - begin);
  for (const auto& [kind, hint] : kHints) {
    if (reason.find(kind) != reason.npos) return str(reason, hint);
  }
  return std::string(reason);
}

}  // namespace

void refuse_record(const std::string& where, const std::string& failed, const std::string& expected,
                   const std::string& got, const std::string& hint) {
  throw_usage({.where = where, .failed = failed, .expected = expected, .got = got, .hint = hint});
}

std::string shown(const Json& value) { return shortened(printable(json_text(value)), kShownWidth); }

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

Json parse_object(const std::string& file, std::size_t first_line, std::string_view text,
                  std::string_view before_text) {
  if (const std::size_t depth = json_depth(text); depth > kMaxJsonDepth) {
    refuse_record(str(file, ":", first_line), "objects and lists in each other",
                  str("at most ", kMaxJsonDepth, " deep"), str(depth));
  }
  try {
    std::optional<std::string> repeated;
    Json json = parse_json_or_throw(text, &repeated);
    const std::string where = str(file, ":", first_line);
    if (!json.is_object()) refuse_record(where, "a record", "a JSON object", shown(json));
    if (repeated) refuse_record(where, "a key is there twice", "each key once", shown(*repeated));
    return json;
  } catch (const Json::parse_error& error) {
    // `byte` counts from 1: the last byte of the part that does not fit, or one past the end.
    const std::size_t offset = std::min(error.byte == 0 ? 0 : error.byte - 1, text.size());
    const std::string_view before = text.substr(0, offset);
    const auto lines = static_cast<std::size_t>(std::count(before.begin(), before.end(), '\n'));
    const std::size_t line_begin = lines == 0 ? 0 : before.rfind('\n') + 1;
    const std::string rest = printable(text.substr(offset, kShownWidth));
    const std::int64_t column = count_characters(before.substr(line_begin)) +
                                (lines == 0 ? count_characters(before_text) : 0) + 1;
    refuse_record(str(file, ":", first_line + lines, ":", column), "the text is no JSON",
                  "a JSON object", rest.empty() ? "its end" : shortened(rest, kShownWidth),
                  hint_of(error.what()));
  } catch (const Json::out_of_range& error) {  // of a double: 1e999
    refuse_record(str(file, ":", first_line), "a number is too large", "numbers of 64 bits",
                  error.what());
  }
}

namespace {

// A part of a file that should be an object, and the line on which it begins.
struct RecordText {
  std::size_t line = 0;
  std::string_view text;
  std::string_view before = {};  // on its first line
};

// Where the object that begins at `begin` ends, behind its brace; npos when it does not.
std::size_t end_of_object(std::string_view text, std::size_t begin) {
  std::size_t depth = 0;
  bool is_in_quotes = false;
  for (std::size_t i = begin; i < text.size(); ++i) {
    const char c = text[i];
    if (is_in_quotes && c == '\\') ++i;  // the next letter is escaped
    if (c == '"') is_in_quotes = !is_in_quotes;
    if (is_in_quotes) continue;
    if (c == '{') ++depth;
    if (c == '}' && --depth == 0) return i + 1;
  }
  return text.npos;
}

// Takes a text apart from its beginning on.
class RecordScanner {
 public:
  RecordScanner(const std::string& file, std::string_view text) : file_(file), text_(text) {}

  // One object a line.
  std::vector<RecordText> lines() {
    std::vector<RecordText> out;
    for (std::size_t line = 1; at_ < text_.size(); ++line) {
      const std::size_t end = std::min(text_.find('\n', at_), text_.size());
      if (!is_blank(text_.substr(at_, end - at_)))
        out.push_back({line, text_.substr(at_, end - at_)});
      at_ = end + 1;
    }
    return out;
  }
  // Objects over any number of lines.
  std::vector<RecordText> objects() {
    std::vector<RecordText> out;
    while (skip_blanks()) out.push_back(next());
    return out;
  }
  // One list of objects.
  std::vector<RecordText> list() {
    std::vector<RecordText> out;
    skip_blanks();
    ++at_;  // its bracket
    while (skip_blanks() && text_[at_] != ']') {
      if (text_[at_] != '{') refuse("the list of records has another value", "objects");
      out.push_back(next());
      if (is_cut_) return out;
      if (!skip_blanks() || text_[at_] == ']') break;
      if (text_[at_] != ',') refuse("the list of records", "a comma or its end");
      ++at_;
    }
    if (at_ >= text_.size()) refuse("the list of records has no end", "a closing bracket");
    ++at_;
    if (skip_blanks()) refuse("text after the list of records", "one list, or one object a line");
    return out;
  }

 private:
  // False at the end.
  bool skip_blanks() {
    while (at_ < text_.size() && kBlanks.find(text_[at_]) != kBlanks.npos) {
      if (text_[at_++] != '\n') continue;
      ++line_;
      line_begin_ = at_;
    }
    return at_ < text_.size();
  }
  // The object that begins here, or, where it has no end, all that follows.
  RecordText next() {
    const std::size_t found = text_[at_] == '{' ? end_of_object(text_, at_) : text_.npos;
    is_cut_ = found == text_.npos;
    const std::size_t end = std::min(found, text_.size());
    const RecordText out{line_, text_.substr(at_, end - at_),
                         text_.substr(line_begin_, at_ - line_begin_)};
    line_ += static_cast<std::size_t>(std::count(out.text.begin(), out.text.end(), '\n'));
    if (const std::size_t last = out.text.rfind('\n'); last != out.text.npos) {
      line_begin_ = at_ + last + 1;
    }
    at_ = end;
    return out;
  }
  [[noreturn]] void refuse(const std::string& failed, const std::string& expected) const {
    const std::string rest = printable(text_.substr(std::min(at_, text_.size()), kShownWidth));
    refuse_record(str(file_, ":", line_), failed, expected,
                  rest.empty() ? "the file's end" : shortened(rest, kShownWidth));
  }

  static constexpr std::string_view kBlanks = " \t\r\n";
  const std::string& file_;
  std::string_view text_;
  std::size_t at_ = 0;
  std::size_t line_ = 1;
  std::size_t line_begin_ = 0;
  bool is_cut_ = false;  // the last object has no end: parsing it tells the place
};

// The file's form shows at its beginning. A first line that is no object of its own begins one over
// several lines where that is an object; otherwise it is a line with a mistake.
std::vector<RecordText> records_of(const std::string& file, std::string_view text) {
  const std::size_t begin = std::min(text.find_first_not_of(" \t\r\n"), text.size());
  RecordScanner scanner(file, text);
  if (text.substr(begin).starts_with('[')) return scanner.list();
  const std::size_t line_end = std::min(text.find('\n', begin), text.size());
  const std::size_t end =
      text.substr(begin).starts_with('{') ? end_of_object(text, begin) : text.npos;
  const bool has_several_lines = end != text.npos && end > line_end;
  if (has_several_lines && parse_json(text.substr(begin, end - begin)).is_object()) {
    return scanner.objects();
  }
  return scanner.lines();
}

}  // namespace

void for_each_record(
    const std::filesystem::path& path,
    const std::function<void(const Json& record, const std::string& where)>& on_record) {
  const std::string file = path.string();
  const std::string bytes = read_utf8_file(path);
  const std::vector<RecordText> records = records_of(file, bytes);
  for (const RecordText& record : records) {
    on_record(parse_object(file, record.line, record.text, record.before),
              str(file, ":", record.line));
  }
  if (records.empty()) {
    refuse_record(file, "the file has no record", "one JSON object a line, or one list of objects",
                  is_blank(bytes) ? "only white space" : "an empty list");
  }
}

Json first_record(const std::filesystem::path& path) {
  const std::string bytes = read_utf8_file(path);
  const std::vector<RecordText> records = records_of(path.string(), bytes);
  return records.empty() ? Json() : parse_json(records.front().text);
}

void DialogueBuilder::begin(std::string id, std::string document, std::string where) {
  const auto [entry, is_new] = places_.try_emplace(id, where);
  if (!is_new) {
    refuse_record(where, "the id of a dialogue", "another one for each dialogue",
                  str("\"", id, "\", which ", entry->second, " has"));
  }
  if (is_blank(document)) document.clear();
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
