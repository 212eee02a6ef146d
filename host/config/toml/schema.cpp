#include "host/config/toml/schema.hpp"

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

#include "host/base/text.hpp"
#include "host/base/utf8.hpp"

namespace mneme::config {
namespace {

constexpr std::size_t kShownProblems = 100;

// Whether the position is an option of the command line that names the key: "--set train.lr".
bool is_option_of(const Position& position, const std::string& path) {
  return position.line == 0 && position.source != nullptr && position.source->starts_with("--") &&
         (position.source->ends_with(' ' + path) || position.source->ends_with(',' + path));
}

// "a.b: text", or the text alone where the position names the key already.
std::string entry_text(const Position& position, const std::string& path, ErrorText text) {
  const std::string place = position.text();
  const bool is_said = path.empty() || is_option_of(position, path);
  text.where = is_said ? place : place.empty() ? path : str(place, ": ", path);
  return text.compose();
}

// "memory.tier" of "memory.tier.0".
std::string without_indices(const std::string& path) {
  std::string out;
  for (std::size_t begin = 0; begin < path.size();) {
    const std::size_t end = std::min(path.find('.', begin), path.size());
    const std::string part = path.substr(begin, end - begin);
    if (part.find_first_not_of("0123456789") != std::string::npos) {
      out += (out.empty() ? "" : ".") + part;
    }
    begin = end + 1;
  }
  return out;
}

// The system would take a path to end at its zero byte.
bool can_be_path(const std::string& text) {
  return !text.empty() && text.find('\0') == std::string::npos;
}

// The absolute path that a string value names.
std::filesystem::path resolve_path(const Value& value) {
  const std::filesystem::path path(value.as_string());
  if (path.is_absolute() || value.position().folder == nullptr) return path.lexically_normal();
  return (*value.position().folder / path).lexically_normal();
}

}  // namespace

void Problems::add(const Position& position, const std::string& path, const ErrorText& text) {
  entries_.push_back({position.source == nullptr ? "" : *position.source, position.line,
                      position.column, entry_text(position, path, text)});
}

void Problems::add(const Error& error) { entries_.push_back({"", 0, 0, error.what()}); }

void Problems::throw_if_any() const {
  if (entries_.empty()) return;
  std::vector<Entry> sorted = entries_;
  std::stable_sort(sorted.begin(), sorted.end(), [](const Entry& a, const Entry& b) {
    return std::tie(a.source, a.line, a.column) < std::tie(b.source, b.line, b.column);
  });
  std::vector<std::string> lines;
  for (const Entry& entry : sorted) {
    if (lines.size() == kShownProblems) {
      lines.push_back(str("and ", sorted.size() - kShownProblems, " more problems"));
      break;
    }
    lines.push_back(entry.text);
  }
  throw_usage(join(lines, "\n"));
}

bool RealRange::contains(double value) const {
  if (!std::isfinite(value)) return false;
  const bool is_above = is_open_min ? value > min : value >= min;
  const bool is_below = is_open_max ? value < max : value <= max;
  return is_above && is_below;
}

std::string range_text(const IntegerRange& range) {
  const bool has_min = range.min != std::numeric_limits<std::int64_t>::min();
  const bool has_max = range.max != std::numeric_limits<std::int64_t>::max();
  if (has_min && has_max) return str("an integer in [", range.min, ", ", range.max, ']');
  if (has_min) return str("an integer of at least ", range.min);
  if (has_max) return str("an integer of at most ", range.max);
  return "an integer";
}

std::string range_text(const RealRange& range) {
  const bool has_min = std::isfinite(range.min);
  const bool has_max = std::isfinite(range.max);
  if (has_min && has_max) {
    return str("a real number in ", range.is_open_min ? '(' : '[', range.min, ", ", range.max,
               range.is_open_max ? ')' : ']');
  }
  if (has_min) {
    return str("a real number ", range.is_open_min ? "above " : "of at least ", range.min);
  }
  if (has_max) {
    return str("a real number ", range.is_open_max ? "below " : "of at most ", range.max);
  }
  return "a real number";
}

std::string describe(const Value& value) {
  if (value.kind() == Kind::kString) return toml_string(value.as_string()) + " (a string)";
  const bool is_list = value.kind() == Kind::kArray || value.is_table();
  return is_list ? std::string(kind_text(value.kind())) : value.toml();
}

Reader::Reader(const Value& table, Problems& problems, KeyLog* log)
    : table_(&table), problems_(&problems), log_(log) {}

void Reader::record(const Key& key, const std::string& type, const std::string& fallback) {
  if (log_ == nullptr) return;
  const std::string table = without_indices(table_->path());
  // A getter that uses another one is one request.
  const bool is_again = !log_->empty() && log_->back().table == table &&
                        log_->back().key == key.name && key.text.empty();
  if (is_again) return;
  const std::string words = !key.fallback.empty()          ? std::string(key.fallback)
                            : required_.contains(key.name) ? "required"
                                                           : fallback;
  log_->push_back({table, std::string(key.name), type, words, std::string(key.text)});
}

const Value* Reader::value(std::string_view key) {
  known_.emplace(key);
  return table_->find(key);
}

std::nullopt_t Reader::refuse(const Value& value, const std::string& expected) {
  problems_->add(value.position(), value.path(), {.expected = expected, .got = describe(value)});
  return std::nullopt;
}

const Value* Reader::typed(std::string_view key, Kind kind, const std::string& expected) {
  const Value* found = value(key);
  if (found == nullptr || found->kind() == kind) return found;
  refuse(*found, expected);
  return nullptr;
}

std::optional<std::int64_t> Reader::integer_of(const Value& value, IntegerRange range) {
  if (value.kind() == Kind::kInteger && value.as_integer() >= range.min &&
      value.as_integer() <= range.max) {
    return value.as_integer();
  }
  return refuse(value, range_text(range));
}

std::optional<double> Reader::real_of(const Value& value, RealRange range) {
  const bool is_number = value.kind() == Kind::kInteger || value.kind() == Kind::kReal;
  if (is_number && range.contains(value.as_real())) return value.as_real();
  return refuse(value, range_text(range));
}

// One that a run could not keep is a problem, and none.
std::optional<std::filesystem::path> Reader::path_of(const Value& value) {
  if (value.kind() != Kind::kString || !can_be_path(value.as_string())) {
    return refuse(value, "a path (a string)");
  }
  std::filesystem::path path = resolve_path(value);
  if (is_utf8(path.native())) return path;
  problems_->add(value.position(), value.path(),
                 {.failed = "a run could not keep this path in its experiment.toml",
                  .expected = "a name in UTF-8",
                  .got = path.string(),
                  .hint = "rename the folder or file whose name has other bytes"});
  return std::nullopt;
}

std::optional<std::int64_t> Reader::optional_integer(const Key& key, IntegerRange range) {
  record(key, range_text(range), "none");
  const Value* found = value(key.name);
  return found == nullptr ? std::nullopt : integer_of(*found, range);
}

std::optional<double> Reader::optional_real(const Key& key, RealRange range) {
  record(key, range_text(range), "none");
  const Value* found = value(key.name);
  return found == nullptr ? std::nullopt : real_of(*found, range);
}

std::int64_t Reader::integer(const Key& key, std::int64_t fallback, IntegerRange range) {
  record(key, range_text(range), std::to_string(fallback));
  return optional_integer(key.name, range).value_or(fallback);
}

std::uint64_t Reader::seed(const Key& key, std::uint64_t fallback) {
  record(key, range_text(kNotNegative), std::to_string(fallback));
  const auto found = optional_integer(key.name, kNotNegative);
  return found ? static_cast<std::uint64_t>(*found) : fallback;
}

double Reader::real(const Key& key, double fallback, RealRange range) {
  record(key, range_text(range), format_exact(fallback));
  return optional_real(key.name, range).value_or(fallback);
}

bool Reader::boolean(const Key& key, bool fallback) {
  record(key, "true or false", fallback ? "true" : "false");
  const Value* found = typed(key.name, Kind::kBoolean, "true or false");
  return found == nullptr ? fallback : found->as_boolean();
}

std::string Reader::text(const Key& key, const std::string& fallback) {
  record(key, "a string", toml_string(fallback));
  const Value* found = typed(key.name, Kind::kString, "a string");
  return found == nullptr ? fallback : found->as_string();
}

std::string Reader::choice(std::string_view key, const std::vector<std::string>& choices) {
  const Value* found = value(key);
  if (found == nullptr) return "";
  if (found->kind() != Kind::kString) {
    refuse(*found, quoted_list(choices));
    return "";
  }
  const std::string& word = found->as_string();
  if (std::ranges::find(choices, word) != choices.end()) return word;
  problems_->add(
      found->position(), found->path(),
      {.expected = quoted_list(choices), .got = toml_string(word) + did_you_mean(word, choices)});
  return "";
}

std::filesystem::path Reader::path(const Key& key) {
  record(key, "a path", "none");
  const Value* found = value(key.name);
  return found == nullptr ? std::filesystem::path() : path_of(*found).value_or("");
}

template <typename ItemOf>
auto Reader::list(std::string_view key, const std::string& expected, const ItemOf& item_of) {
  List<typename decltype(item_of(std::declval<const Value&>()))::value_type> out;
  const Value* found = typed(key, Kind::kArray, expected);
  if (found == nullptr) return out;
  for (const Value& value : found->items()) {
    if (auto item = item_of(value)) out.items.push_back(std::move(*item));
  }
  out.is_whole = out.items.size() == found->items().size();
  return out;
}

std::optional<std::vector<std::int64_t>> Reader::integers(const Key& key, IntegerRange range) {
  record(key, "a list, each " + range_text(range), "none");
  return list(key.name, "a list of integers, such as [1, 2]",
              [&](const Value& item) { return integer_of(item, range); })
      .if_whole();
}

OneOrMore Reader::one_or_more(const Key& key, IntegerRange range) {
  record(key, range_text(range) + ", or a list of such", "none");
  const Value* const found = value(key.name);
  if (found == nullptr) return {};
  if (found->kind() != Kind::kArray) {
    const std::optional<std::int64_t> one = integer_of(*found, range);
    return one ? OneOrMore{{*one}} : OneOrMore{};
  }
  if (found->items().empty()) {
    refuse(*found, "an integer, or a list of at least one, such as [256, 0]");
    return {};
  }
  OneOrMore out;
  for (const Value& item : found->items()) {
    if (const auto one = integer_of(item, range)) out.values.push_back(*one);
  }
  return out.values.size() == found->items().size() ? out : OneOrMore{};
}

std::optional<std::vector<double>> Reader::reals(const Key& key, RealRange range) {
  record(key, "a list, each " + range_text(range), "none");
  return list(key.name, "a list of real numbers, such as [0.5, 1.0]",
              [&](const Value& item) { return real_of(item, range); })
      .if_whole();
}

std::optional<std::vector<bool>> Reader::booleans(const Key& key) {
  record(key, "a list of true and false", "none");
  const auto flag_of = [&](const Value& item) -> std::optional<bool> {
    if (item.kind() == Kind::kBoolean) return item.as_boolean();
    return refuse(item, "true or false");
  };
  return list(key.name, "a list of booleans, such as [false, true]", flag_of).if_whole();
}

std::vector<std::string> Reader::texts(const Key& key) {
  record(key, "a list of strings", "none");
  const auto text_of = [&](const Value& item) -> std::optional<std::string> {
    if (item.kind() == Kind::kString && !item.as_string().empty()) return item.as_string();
    return refuse(item, "a string that is not empty");
  };
  return list(key.name, "a list of strings, such as [\"a\"]", text_of).items;
}

std::vector<std::filesystem::path> Reader::paths(const Key& key) {
  record(key, "a list of paths", "none");
  return list(key.name, "a list of paths, such as [\"folder\"]",
              [&](const Value& item) { return path_of(item); })
      .items;
}

const Value* Reader::table(const Key& key) {
  record(key, "a table", "none");
  return typed(
      key.name, Kind::kTable,
      str("a table, [", table_->path().empty() ? "" : table_->path() + '.', key.name, ']'));
}

std::vector<const Value*> Reader::tables(const Key& key) {
  record(key, "tables", "none");
  const std::string name =
      table_->path().empty() ? std::string(key.name) : str(table_->path(), '.', key.name);
  const auto table_of = [&](const Value& item) -> std::optional<const Value*> {
    if (item.is_table()) return &item;
    return refuse(item, str("a table, [[", name, "]]"));
  };
  return list(key.name, str("an array of tables, [[", name, "]]"), table_of).items;
}

bool Reader::require(std::string_view key, const std::string& what) {
  required_.emplace(key);
  if (value(key) != nullptr) return true;
  problem(key, {.failed = "missing", .expected = what});
  return false;
}

void Reader::problem(std::string_view key, ErrorText text) {
  reported_.emplace(key);
  const Value* found = table_->find(key);
  problems_->add(found == nullptr ? table_->position() : found->position(),
                 child_path(table_->path(), key), text);
}

std::string Reader::removal(std::string_view key) const {
  const Value* found = table_->find(key);
  if (found != nullptr) return removal_of(*found);
  return str("remove the key (--unset ", table_->path().empty() ? "" : table_->path() + '.', key,
             ')');
}

std::string removal_of(const Value& value) {
  const Position& position = value.position();
  const bool is_option =
      position.line == 0 && position.source != nullptr && position.source->starts_with("--");
  if (is_option) return "leave out " + *position.source;
  return str("remove the key (--unset ", value.path(), ')');
}

std::vector<Member> Reader::take_rest() {
  std::vector<Member> rest;
  for (const Member& member : table_->members()) {
    if (known_.insert(member.key).second) rest.push_back(member);
  }
  return rest;
}

void Reader::finish(const std::vector<std::string>& also_known) {
  std::vector<std::string> candidates(known_.begin(), known_.end());
  candidates.insert(candidates.end(), also_known.begin(), also_known.end());
  for (const Member& member : take_rest()) {
    if (reported_.contains(member.key)) continue;
    std::string near = nearest(member.key, candidates);
    const std::string hint =
        candidates.empty() || !near.empty() ? "" : "known keys: " + join(candidates, ", ");
    // The command line names a key with its table.
    if (!near.empty() && is_option_of(member.key_position, member.value.path()))
      near = child_path(table_->path(), near);
    problems_->add(
        member.key_position, member.value.path(),
        {.failed = near.empty() ? "unknown key" : str("unknown key (did you mean \"", near, "\"?)"),
         .hint = hint});
  }
}

}  // namespace mneme::config
