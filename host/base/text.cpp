#include "host/base/text.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <iomanip>
#include <iterator>
#include <nlohmann/json.hpp>
#include <numeric>
#include <sstream>
#include <stdexcept>
#include <utility>

#include "host/base/utf8.hpp"

namespace mneme {
namespace {

// Any number; reals with `format` of std::to_chars.
template <typename Number, typename... Format>
void append_number(std::string& out, Number value, Format... format) {
  std::array<char, 32> buffer{};
  const auto end =
      std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, format...).ptr;
  out.append(buffer.data(), end);
}

}  // namespace

void append(std::string& out, std::string_view text) { out += text; }
void append(std::string& out, char letter) { out += letter; }
void append(std::string& out, bool value) { out += value ? "true" : "false"; }
void append(std::string& out, double value) {
  append_number(out, value, std::chars_format::general, 6);
}
void append(std::string& out, long long value) { append_number(out, value); }
void append(std::string& out, unsigned long long value) { append_number(out, value); }

void append_quoted(std::string& out, std::string_view text) {
  out += '"';
  for (const char letter : text) {
    if (letter == '"' || letter == '\\') out += '\\';
    out += letter;
  }
  out += '"';
}

std::size_t edit_distance(std::string_view a, std::string_view b) {
  const std::size_t width = b.size() + 1;
  std::vector<std::size_t> before_previous(width);
  std::vector<std::size_t> previous(width);
  std::vector<std::size_t> current(width);
  for (std::size_t j = 0; j < width; ++j) previous[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    current[0] = i;
    for (std::size_t j = 1; j < width; ++j) {
      const std::size_t substitution = previous[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      current[j] = std::min({previous[j] + 1, current[j - 1] + 1, substitution});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        current[j] = std::min(current[j], before_previous[j - 2] + 1);
      }
    }
    std::swap(before_previous, previous);
    std::swap(previous, current);
  }
  return previous[b.size()];
}

namespace {

// Words that other programs have for ours, which are not spelt alike.
constexpr std::array<std::pair<std::string_view, std::string_view>, 24> kOtherWords = {
    {{"gpu", "cuda"},          {"nvidia", "cuda"},    {"validation", "valid"}, {"dev", "valid"},
     {"md", "markdown"},       {"tex", "latex"},      {"txt", "text"},         {"c++", "cpp"},
     {"cxx", "cpp"},           {"float", "f32"},      {"float32", "f32"},      {"fp32", "f32"},
     {"single", "f32"},        {"double", "f64"},     {"float64", "f64"},      {"fp64", "f64"},
     {"bfloat16", "bf16"},     {"character", "char"}, {"token", "tokenizer"},  {"bpe", "tokenizer"},
     {"subword", "tokenizer"}, {"begin", "new"},      {"create", "new"},       {"init", "new"}}};

// The candidate that `name` is another program's word for; "" when there is none.
std::string other_word(std::string_view name, const std::vector<std::string>& candidates) {
  std::string lower(name);
  std::ranges::transform(lower, lower.begin(), [](char c) {
    return static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  });
  if (std::ranges::find(candidates, lower) != candidates.end()) return lower;  // "CUDA"
  for (const auto& [other, ours] : kOtherWords) {
    if (lower == other && std::ranges::find(candidates, ours) != candidates.end()) {
      return std::string(ours);
    }
  }
  return "";
}

}  // namespace

std::string nearest(std::string_view name, const std::vector<std::string>& candidates) {
  if (std::string word = other_word(name, candidates); !word.empty()) return word;
  const std::size_t limit = std::clamp<std::size_t>(name.size() / 3, 1, 3);
  std::size_t best_distance = limit + 1;
  const std::string* best = nullptr;
  for (const std::string& candidate : candidates) {
    const std::size_t distance = edit_distance(name, candidate);
    if (distance < best_distance && distance < name.size()) {
      best_distance = distance;
      best = &candidate;
    }
  }
  return best == nullptr ? "" : *best;
}

std::string did_you_mean(std::string_view name, const std::vector<std::string>& candidates) {
  const std::string found = nearest(name, candidates);
  return found.empty() ? "" : str(" (did you mean \"", found, "\"?)");
}

std::string join(const std::vector<std::string>& parts, std::string_view separator) {
  std::string out;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (i > 0) out += separator;
    out += parts[i];
  }
  return out;
}

std::string first_names(const std::vector<std::string>& names, std::size_t most) {
  if (names.size() <= most) return join(names, ", ");
  const auto end = names.begin() + static_cast<std::ptrdiff_t>(most);
  return str(join({names.begin(), end}, ", "), " and ", names.size() - most, " more");
}

std::vector<std::string> distinct_names(const std::vector<std::string>& names) {
  std::vector<std::string> out;
  for (const std::string& name : names) {
    std::string distinct = name;
    for (int i = 2; std::ranges::find(out, distinct) != out.end(); ++i) {
      distinct = str(name, '#', i);
    }
    out.push_back(std::move(distinct));
  }
  return out;
}

std::string quoted_list(const std::vector<std::string>& words, std::string_view separator) {
  std::vector<std::string> quoted;
  for (const std::string& word : words) quoted.push_back('"' + word + '"');
  return join(quoted, separator);
}

std::string list_text(const std::vector<std::int64_t>& values) {
  std::vector<std::string> parts;
  for (const std::int64_t value : values) parts.push_back(std::to_string(value));
  return '[' + join(parts, ", ") + ']';
}

namespace {

std::string fixed(double value, int digits) {
  std::ostringstream out;
  out << std::fixed << std::setprecision(digits) << value;
  return out.str();
}

// Three significant digits for a value in [1, 1000), which keeps columns narrow.
std::string three_digits(double value) {
  return fixed(value, value < 9.995 ? 2 : value < 99.95 ? 1 : 0);
}

std::string two_places(long long value) { return (value < 10 ? "0" : "") + std::to_string(value); }

}  // namespace

std::string digits_text(std::uint64_t value, int base) {
  std::string digits;
  append_number(digits, value, base);
  return digits;
}

std::string human_bytes(std::uint64_t bytes) {
  static constexpr std::array<const char*, 6> kUnits = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  if (bytes < 1024) return str(bytes, " B");
  double value = static_cast<double>(bytes) / 1024.0;
  std::size_t unit = 0;
  while (value >= 1023.95 && unit + 1 < kUnits.size()) {
    value /= 1024.0;
    ++unit;
  }
  return fixed(value, 1) + ' ' + kUnits[unit];
}

std::string format_duration(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0 || seconds > 1e15) return "--";
  if (seconds < 59.95) return fixed(seconds, seconds < 9.995 ? 2 : 1) + 's';
  const long long whole = std::llround(seconds);
  if (whole < 3600) return str(whole / 60, 'm', two_places(whole % 60), 's');
  if (whole < 86400) return str(whole / 3600, 'h', two_places(whole % 3600 / 60), 'm');
  return str(whole / 86400, 'd', two_places(whole % 86400 / 3600), 'h');
}

std::string format_number(double value, int digits) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  return fixed(value, digits);
}

std::string format_exact(double value) {
  if (!std::isfinite(value)) return format_number(value, 0);
  std::string text;
  append_number(text, value);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

std::string format_count(double value) {
  static constexpr std::array<const char*, 4> kUnits = {"k", "M", "G", "T"};
  if (!std::isfinite(value)) return format_number(value, 0);
  if (std::fabs(value) < 999.5) return fixed(value, 0);
  std::size_t unit = 0;
  value /= 1000.0;
  while (std::fabs(value) >= 999.5 && unit + 1 < kUnits.size()) {
    value /= 1000.0;
    ++unit;
  }
  return (value < 0 ? "-" : "") + three_digits(std::fabs(value)) + kUnits[unit];
}

namespace {

bool is_letter(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0; }

// Whether a line may end between text[at - 1] and text[at], neither of them a blank. Numbers
// ("-0.5", "1/2") stay whole.
bool may_break(const std::string& text, std::size_t at) {
  const char before = text[at - 1];
  if (!is_letter(text[at]) && text[at] != '.') return false;
  if (before == '_') return true;
  if (before == '/' || before == '-') return at >= 2 && is_letter(text[at - 2]);
  return text[at] == '.' && at + 1 < text.size() && is_letter(text[at + 1]) && is_letter(before);
}

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream in(text);
  return {std::istream_iterator<std::string>(in), {}};
}

// A word, split where may_break() permits it.
std::vector<std::string> parts_of(const std::string& word) {
  std::vector<std::string> parts{""};
  for (std::size_t i = 0; i < word.size(); ++i) {
    if (i > 0 && may_break(word, i)) parts.emplace_back();
    parts.back() += word[i];
  }
  return parts;
}

// The first `width` characters are taken off `text`.
std::string take(std::string& text, std::size_t width) {
  std::size_t end = 0;
  for (std::size_t taken = 0; end < text.size(); ++end) {
    if (!is_continuation(text[end]) && taken++ == width) break;
  }
  std::string head = text.substr(0, end);
  text.erase(0, end);
  return head;
}

}  // namespace

std::size_t text_width(const std::string& text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return !is_continuation(c); }));
}

std::size_t longest_word(const std::string& text) {
  std::size_t longest = 0;
  for (const std::string& word : words_of(text)) longest = std::max(longest, text_width(word));
  return longest;
}

std::string shortened(std::string text, std::size_t width) {
  return text_width(text) <= width ? text : take(text, width - 2) + "..";
}

std::vector<std::string> wrap_text(const std::string& text, std::size_t width, std::size_t indent) {
  std::vector<std::string> lines{""};
  std::size_t used = 0;
  bool begins_line = true;
  const auto next_line = [&] {
    lines.emplace_back(indent, ' ');
    used = indent;
    begins_line = true;
  };
  const auto put = [&](const std::string& piece) {
    lines.back() += piece;
    used += text_width(piece);
    begins_line = false;
  };
  for (const std::string& word : words_of(text)) {
    if (!begins_line && used + 1 + text_width(word) > width) {
      next_line();
    } else if (!begins_line) {
      put(" ");
    }
    if (used + text_width(word) <= width) {
      put(word);
      continue;
    }
    for (std::string part : parts_of(word)) {
      if (!begins_line && used + text_width(part) > width) next_line();
      while (used + text_width(part) > width) {
        put(take(part, width - used));
        next_line();
      }
      put(part);
    }
  }
  return lines;
}

namespace {

constexpr std::size_t kGap = 2;         // blanks between columns
constexpr std::size_t kIndent = 2;      // of a first cell's further lines
constexpr std::size_t kWholeCell = 24;  // cells up to here are never broken: numbers
constexpr std::size_t kFirst = 20;      // columns that the first column keeps if it needs them

// Columns side by side, the first one of the table among them.
struct Block {
  std::vector<std::size_t> columns;
  std::vector<std::size_t> widths;
};

std::size_t total(const std::vector<std::size_t>& widths) {
  return std::accumulate(widths.begin(), widths.end(), kGap * (widths.size() - 1));
}

// The cells of one row, each broken into the lines of its column; headings stand at the bottom.
std::string lines_of(const Block& block, const std::vector<std::string>& cells, bool is_heading) {
  std::vector<std::vector<std::string>> wrapped;
  std::size_t height = 1;
  for (std::size_t i = 0; i < block.columns.size(); ++i) {
    const std::size_t width = std::max<std::size_t>(1, block.widths[i]);
    const std::size_t indent = i == 0 && width > 2 * kIndent ? kIndent : 0;
    wrapped.push_back(wrap_text(cells[block.columns[i]], width, indent));
    height = std::max(height, wrapped.back().size());
  }
  std::string text;
  for (std::size_t at = 0; at < height; ++at) {
    std::string line;
    for (std::size_t i = 0; i < wrapped.size(); ++i) {
      const std::size_t above = is_heading ? height - wrapped[i].size() : 0;
      const std::string part =
          at >= above && at - above < wrapped[i].size() ? wrapped[i][at - above] : "";
      const std::string blanks(block.widths[i] - text_width(part), ' ');
      line += i == 0 ? part + blanks : std::string(kGap, ' ') + blanks + part;
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + '\n';
  }
  return text;
}

// Whether a row has a cell in a block, its name aside.
bool has_any(const Block& block, const std::vector<std::string>& cells) {
  return std::any_of(block.columns.begin(), block.columns.end(),
                     [&](std::size_t column) { return column > 0 && !cells[column].empty(); });
}

// Raises a width to `wanted` as far as `room` goes, which shrinks.
void widen(std::size_t& width, std::size_t wanted, std::size_t& room) {
  const std::size_t more = std::min(room, wanted > width ? wanted - width : 0);
  width += more;
  room -= more;
}

// Blocks of at most `width` columns with as many columns in each as fit.
std::vector<Block> fitted(const std::vector<std::size_t>& natural,
                          const std::vector<std::size_t>& narrowest, std::size_t width) {
  // What is longer than this is broken anywhere.
  const std::size_t first = std::min(narrowest[0], width / 2);
  const std::size_t most = width - std::min(width - 1, first + kGap);
  std::vector<Block> blocks;
  for (std::size_t i = 1; i < narrowest.size(); ++i) {
    const std::size_t own = std::min(narrowest[i], most);
    if (blocks.empty() || total(blocks.back().widths) + kGap + own > width) {
      blocks.push_back({{0}, {first}});
    }
    blocks.back().columns.push_back(i);
    blocks.back().widths.push_back(own);
  }
  if (blocks.empty()) blocks.push_back({{0}, {std::min(natural[0], width)}});
  for (Block& block : blocks) {
    std::size_t room = width - std::min(width, total(block.widths));
    for (std::size_t i = 0; i < block.columns.size(); ++i) {
      widen(block.widths[i], natural[block.columns[i]], room);
    }
  }
  return blocks;
}

}  // namespace

Table::Table(std::vector<std::string> headings) : headings_(std::move(headings)) {}

void Table::add_row(std::vector<std::string> cells) {
  if (cells.size() > headings_.size()) throw std::logic_error("a table row is too long");
  cells.resize(headings_.size());
  rows_.push_back(std::move(cells));
}

std::string Table::text(std::size_t width) const {
  std::vector<std::size_t> natural;    // with every cell on one line
  std::vector<std::size_t> narrowest;  // with headings and long cells broken at blanks
  std::vector<std::size_t> all;
  for (std::size_t i = 0; i < headings_.size(); ++i) {
    all.push_back(i);
    natural.push_back(text_width(headings_[i]));
    narrowest.push_back(longest_word(headings_[i]));
    for (const auto& row : rows_) {
      const std::size_t cell = text_width(row[i]);
      const std::size_t word = longest_word(row[i]) + (i == 0 ? kIndent : 0);
      natural[i] = std::max(natural[i], cell);
      narrowest[i] = std::max({narrowest[i], word, std::min(cell, i == 0 ? kFirst : kWholeCell)});
    }
    narrowest[i] = std::min(narrowest[i], natural[i]);
  }
  const Block whole{all, natural};
  std::vector<Block> blocks{whole};
  if (width > 0 && total(natural) > width) blocks = fitted(natural, narrowest, width);

  std::string text;
  for (const Block& block : blocks) {
    if (!text.empty()) text += '\n';
    text += lines_of(block, headings_, true);
    for (const auto& row : rows_) {
      if (blocks.size() > 1 && !has_any(block, row) && has_any(whole, row)) continue;
      text += lines_of(block, row, false);
    }
  }
  return text;
}

Json number_or_null(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

}  // namespace mneme
