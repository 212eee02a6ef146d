#include "host/data/tokenizer/words/pattern_syntax.hpp"

#include <algorithm>
#include <array>
#include <vector>

#include "host/base/error.hpp"
#include "host/base/utf8.hpp"
#include "host/data/tokenizer/words/unicode_tables.hpp"

namespace mneme::data {
namespace {

// Contents of brackets.
constexpr std::string_view kSpace = "\\t-\\r \\x{85}\\p{Z}";  // PCRE2's \s has U+180E too
constexpr std::string_view kHexDigit = "0-9a-fA-F";

// Two letters that are the folding of one character ("st" of U+FB06): with (?i) Oniguruma lets
// them match it, PCRE2 does not.
constexpr std::array<std::string_view, 5> kFoldedPairs = {"ss", "ff", "fi", "fl", "st"};

std::string hexadecimal_range(char32_t first, char32_t last) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  const auto escape = [&](char32_t value) {
    std::string digits;
    for (; value > 0; value >>= 4) digits.insert(digits.begin(), kDigits[value & 0xF]);
    return "\\x{" + digits + "}";
  };
  return first == last ? escape(first) : escape(first) + "-" + escape(last);
}

bool is_ascii_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_ascii_digit(char c) { return c >= '0' && c <= '9'; }
bool is_hexadecimal(char c) {
  return is_ascii_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}
char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c; }

// \w inside brackets. Where it stands alone, and in \b, Oniguruma reads Latin-1 from another table,
// which has the superscripts 1, 2, 3 and the fractions 1/4, 1/2, 3/4 too.
std::string bracketed_word_class() {
  return str("\\p{Alphabetic}", property_class("L"), property_class("M"), property_class("Nd"),
             property_class("Nl"), property_class("Pc"));
}

std::string word_class() { return bracketed_word_class() + "\\x{B2}\\x{B3}\\x{B9}\\x{BC}-\\x{BE}"; }

// A set of characters: what brackets hold, and whether it is what they exclude.
struct CharacterSet {
  std::string inside;
  bool is_negated = false;

  [[nodiscard]] std::string bracketed() const { return str(is_negated ? "[^" : "[", inside, "]"); }
};

class Translator {
 public:
  Translator(std::string_view text, const std::string& place) : text_(text), place_(place) {}

  std::string translate() {
    ignores_case_.push_back(false);
    while (at_ < text_.size()) step();
    return std::move(out_);
  }

 private:
  [[noreturn]] void refuse(std::size_t begin, std::size_t bytes, const std::string& why) const {
    throw_usage({.where = place_,
                 .failed = str("the regular expression has a part that is not understood: ", why),
                 .expected = "what GPT-2, Llama 3 and Qwen patterns are made of",
                 .got = str("\"", text_.substr(begin, bytes), "\" at byte ", begin, " of \"", text_,
                            "\"")});
  }

  [[nodiscard]] bool starts(std::string_view with) const {
    return text_.substr(at_).starts_with(with);
  }
  [[nodiscard]] bool ignores_case() const { return ignores_case_.back(); }

  void copy(std::size_t bytes) {
    out_ += text_.substr(at_, bytes);
    at_ += bytes;
  }

  void step() {
    switch (text_[at_]) {
      case '\\':
        return escape();
      case '[':
        return brackets();
      case '(':
        return open_group();
      case ')':
        if (ignores_case_.size() == 1) refuse(at_, 1, "a parenthesis that nothing opened");
        ignores_case_.pop_back();
        return copy(1);
      case '*':
      case '+':
      case '?':
        copy(1);
        if (starts("?") || starts("+")) copy(1);
        return;
      case '{':
        return braces();
      case '.':
      case '|':
      case '^':
      case '$':
        return copy(1);
      default:
        return letter();
    }
  }

  void letter() {
    const CodePoint point = decode_utf8(text_, at_);
    if (point.bytes == 0) refuse(at_, 1, "a byte that is not UTF-8");
    if (ignores_case()) check_folding(point.bytes);
    if (text_[at_] == '}' || text_[at_] == ']') out_ += '\\';
    copy(point.bytes);
  }

  void check_folding(std::size_t bytes) const {
    if (bytes > 1) refuse(at_, bytes, "(?i) with a letter beyond ASCII");
    if (at_ + 1 >= text_.size()) return;
    const std::array<char, 2> pair = {lower(text_[at_]), lower(text_[at_ + 1])};
    const std::string_view letters(pair.data(), pair.size());
    if (std::find(kFoldedPairs.begin(), kFoldedPairs.end(), letters) != kFoldedPairs.end()) {
      refuse(at_, 2, "(?i) with two letters that are the folding of one character");
    }
  }

  void open_group() {
    if (!starts("(?")) {
      ignores_case_.push_back(ignores_case());
      return copy(1);
    }
    for (const std::string_view head : {"(?:", "(?=", "(?!", "(?>", "(?<=", "(?<!"}) {
      if (!starts(head)) continue;
      ignores_case_.push_back(ignores_case());
      return copy(head.size());
    }
    for (const std::string_view head : {"(?i:", "(?-i:"}) {
      if (!starts(head)) continue;
      ignores_case_.push_back(head == "(?i:");
      return copy(head.size());
    }
    refuse(at_, std::min<std::size_t>(4, text_.size() - at_), "this kind of group");
  }

  // {n}, {n,} and {n,m}; other braces are letters, and {,m} is a count to Oniguruma alone.
  void braces() {
    std::size_t i = at_ + 1;
    const auto digits = [&] {
      const std::size_t begin = i;
      while (i < text_.size() && is_ascii_digit(text_[i])) ++i;
      return i - begin;
    };
    const bool has_least = digits() > 0;
    const bool has_comma = i < text_.size() && text_[i] == ',';
    if (has_comma) ++i;
    const bool has_most = has_comma && digits() > 0;
    const bool is_closed = i < text_.size() && text_[i] == '}';
    const bool is_count = is_closed && (has_least || has_most);
    if (!is_count) {
      out_ += "\\{";
      ++at_;
      return;
    }
    const std::size_t bytes = i + 1 - at_;
    if (!has_least) refuse(at_, bytes, "a count without its least number");
    const std::size_t begin = at_;
    copy(bytes);
    if (starts("+")) refuse(begin, bytes + 1, "a + behind a count");
    if (!starts("?")) return;
    if (!has_comma) refuse(begin, bytes + 1, "a ? behind an exact count");
    copy(1);
  }

  void escape() {
    if (at_ + 1 >= text_.size()) refuse(at_, 1, "a backslash at the end");
    const char c = text_[at_ + 1];
    if (c == 'b' || c == 'B') return word_boundary(c == 'b');
    if (c == 'A' || c == 'z' || c == 'Z') return copy(2);
    if (const auto set = set_escape(false); !set.inside.empty()) {
      out_ += set.bracketed();
      return;
    }
    out_ += character_escape();
  }

  // \b as Oniguruma's \w defines it.
  void word_boundary(bool is_boundary) {
    at_ += 2;
    const std::string word = str("[", word_class(), "]");
    const std::string_view second = is_boundary ? "(?!" : "(?=";
    const std::string_view fourth = is_boundary ? "(?=" : "(?!";
    out_ += str("(?:(?<=", word, ")", second, word, ")|(?<!", word, ")", fourth, word, "))");
  }

  // \s, \p{L} and so on, at at_, inside brackets or alone; nothing when it is no set.
  CharacterSet set_escape(bool is_in_brackets) {
    const char c = text_[at_ + 1];
    const auto take = [&](std::string inside, bool is_negated) {
      at_ += 2;
      return CharacterSet{std::move(inside), is_negated};
    };
    switch (c) {
      case 's':
      case 'S':
        return take(std::string(kSpace), c == 'S');
      case 'd':
      case 'D':
        return take(property_class("Nd"), c == 'D');
      case 'w':
      case 'W':
        return take(is_in_brackets ? bracketed_word_class() : word_class(), c == 'W');
      case 'h':
      case 'H':
        return take(std::string(kHexDigit), c == 'H');
      case 'p':
      case 'P':
        return property(c == 'P');
      default:
        return {};
    }
  }

  CharacterSet property(bool is_negated) {
    const std::size_t end = text_.find('}', at_);
    if (at_ + 2 >= text_.size() || text_[at_ + 2] != '{' || end == text_.npos) {
      refuse(at_, 2, "a property without braces");
    }
    std::string_view name = text_.substr(at_ + 3, end - at_ - 3);
    if (name.starts_with('^')) {
      is_negated = !is_negated;
      name.remove_prefix(1);
    }
    const std::size_t bytes = end + 1 - at_;
    std::string inside = property_class(name);
    if (inside.empty()) refuse(at_, bytes, "this property");
    if (ignores_case() && (name == "Lu" || name == "Ll" || name == "Lt")) {
      refuse(at_, bytes, "a case under (?i)");
    }
    at_ += bytes;
    return {std::move(inside), is_negated};
  }

  // An escape that stands for one character, at at_.
  std::string character_escape() {
    const char c = text_[at_ + 1];
    if (std::string_view("rntfea").find(c) != std::string_view::npos) return taken(2);
    if (c == 'v') {
      at_ += 2;
      return "\\x0B";  // \v is a set in PCRE2
    }
    if (c == 'x' || c == 'u') return code_point_escape(c);
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x80 || is_ascii_letter(c) || is_ascii_digit(c)) refuse(at_, 2, "this escape");
    return taken(2);
  }

  std::string taken(std::size_t bytes) {
    at_ += bytes;
    return std::string(text_.substr(at_ - bytes, bytes));
  }

  // \x{H...}, \uHHHH, and \xHH below 0x80; above, it is a byte to Oniguruma.
  std::string code_point_escape(char kind) {
    const std::size_t begin = at_;
    std::size_t i = at_ + 2;
    const bool has_braces = kind == 'x' && i < text_.size() && text_[i] == '{';
    if (has_braces) ++i;
    const std::size_t most = kind == 'u' ? 4 : (has_braces ? 6 : 2);
    char32_t value = 0;
    std::size_t digits = 0;
    for (; i < text_.size() && digits < most && is_hexadecimal(text_[i]); ++i, ++digits) {
      const char c = lower(text_[i]);
      value = value * 16 + static_cast<char32_t>(is_ascii_digit(c) ? c - '0' : c - 'a' + 10);
    }
    const bool is_closed = !has_braces || (i < text_.size() && text_[i] == '}');
    const bool is_complete = has_braces ? digits > 0 : digits == most;
    if (!is_closed || !is_complete || (kind == 'x' && !has_braces && value >= 0x80)) {
      refuse(begin, std::min(text_.size(), i + 1) - begin, "this escape");
    }
    if (ignores_case() && value >= 0x80) refuse(begin, i - begin, "(?i) beyond ASCII");
    at_ = i + (has_braces ? 1 : 0);
    return hexadecimal_range(value, value);
  }

  void brackets() {
    const std::size_t begin = at_;
    ++at_;
    std::string inside = "[";
    if (starts("^")) inside += taken(1);
    if (starts("]")) refuse(begin, at_ + 1 - begin, "brackets that begin with ]");
    while (at_ < text_.size() && text_[at_] != ']') inside += bracket_item();
    if (at_ == text_.size()) refuse(begin, text_.size() - begin, "brackets that nothing closes");
    ++at_;
    out_ += inside + "]";
  }

  std::string bracket_item() {
    if (text_[at_] == '[') refuse(at_, 1, "brackets inside brackets");
    if (starts("&&")) refuse(at_, 2, "an intersection");
    if (text_[at_] != '\\') {
      const CodePoint point = decode_utf8(text_, at_);
      if (point.bytes == 0) refuse(at_, 1, "a byte that is not UTF-8");
      if (ignores_case() && point.bytes > 1) {
        refuse(at_, point.bytes, "(?i) with a letter beyond ASCII");
      }
      return taken(point.bytes);
    }
    const std::size_t begin = at_;
    if (at_ + 1 >= text_.size()) refuse(at_, 1, "a backslash at the end");
    const char c = text_[at_ + 1];
    if (c == 'b') refuse(begin, 2, "this escape");
    const CharacterSet set = set_escape(true);
    if (set.inside.empty()) return character_escape();
    if (!set.is_negated) return set.inside;
    if (c == 'S') return "\\S\\x{180E}";
    refuse(begin, at_ - begin, "what a set excludes, inside brackets");
  }

  std::string_view text_;
  const std::string& place_;
  std::size_t at_ = 0;
  std::string out_;
  std::vector<bool> ignores_case_;  // of the open groups
};

}  // namespace

std::string to_pcre2(std::string_view expression, const std::string& place) {
  return Translator(expression, place).translate();
}

std::string property_class(std::string_view name) {
  constexpr std::array<std::string_view, 34> kCategories = {
      "L",  "Lu", "Ll", "Lt", "Lm", "Lo", "M",  "Mn", "Mc", "Me", "N", "Nd",
      "Nl", "No", "P",  "Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po", "S", "Sm",
      "Sc", "Sk", "So", "Z",  "Zs", "Zl", "Zp", "Cc", "Cf", "Co"};
  if (name == "Han") {
    return "\\p{sc:Han}\\x{2B739}\\x{2EBF0}-\\x{2EE5D}\\x{31350}-\\x{323AF}";
  }
  if (name == "Hiragana") return "\\p{sc:Hiragana}\\x{1B132}";
  if (name == "Katakana") return "\\p{sc:Katakana}\\x{1B155}";
  if (name == "Hangul") return "\\p{sc:Hangul}";
  if (std::find(kCategories.begin(), kCategories.end(), name) == kCategories.end()) return "";
  std::string inside = str("\\p{", name, "}");
  for (const CategoryRange& range : added_after_unicode_14()) {
    const bool is_part =
        range.category[0] == name[0] && (name.size() == 1 || range.category[1] == name[1]);
    if (is_part) inside += hexadecimal_range(range.first, range.last);
  }
  return inside;
}

}  // namespace mneme::data
