#include "host/generate/tokenize.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "host/base/text.hpp"
#include "host/base/utf8.hpp"
#include "host/data/text/text.hpp"

namespace mneme::generate {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// A character that stands for itself wherever it is. Those with rules of their own are letters
// here: the period, the comma, the hyphen and the apostrophes.
bool is_symbol(char32_t value) {
  if (value < 0x80) {
    constexpr std::string_view kSymbols = "!\"#$%&()*+/:;<=>?@[\\]^_`{|}~";
    return kSymbols.find(static_cast<char>(value)) != kSymbols.npos;
  }
  if (value == 0x2019) return false;  // an apostrophe
  // Latin-1's symbols without its ordinals and the micro sign, which are letters.
  if (value >= 0xA1 && value <= 0xBF) return value != 0xAA && value != 0xB5 && value != 0xBA;
  if (value == 0xD7 || value == 0xF7) return true;
  const bool is_punctuation = value >= 0x2010 && value <= 0x205E;
  const bool is_currency = value >= 0x20A0 && value <= 0x20CF;
  const bool is_sign = value >= 0x2190 && value <= 0x2BFF;  // arrows, mathematics, shapes
  const bool is_cjk = value >= 0x3001 && value <= 0x3020;
  return is_punctuation || is_currency || is_sign || is_cjk;
}

// Bytes of the apostrophe at `at`; 0 = there is none.
std::size_t apostrophe_at(std::string_view text, std::size_t at) {
  if (text.substr(at).starts_with('\'')) return 1;
  return text.substr(at).starts_with("\u2019") ? 3 : 0;
}

// Calls `on_part` for the parts of a text between the characters that divide it, where they are not
// empty, and `on_divider` for these characters.
template <typename Divides, typename OnPart, typename OnDivider>
void for_each_part(std::string_view text, Divides divides, OnPart on_part, OnDivider on_divider) {
  std::size_t begin = 0;
  const auto end_part = [&](std::size_t end) {
    if (end > begin) on_part(text.substr(begin, end - begin));
  };
  for (std::size_t i = 0; i < text.size();) {
    const CodePoint point = decode_utf8(text, i);
    const std::size_t bytes = std::max<std::size_t>(point.bytes, 1);
    if (point.bytes > 0 && divides(point.value)) {
      end_part(i);
      on_divider(text.substr(i, bytes));
      begin = i + bytes;
    }
    i += bytes;
  }
  end_part(text.size());
}

using Words = std::vector<std::string>;

// Takes one word between white space apart.
class WordTokenizer {
 public:
  explicit WordTokenizer(const data::Vocabulary& vocabulary) : vocabulary_(vocabulary) {}

  [[nodiscard]] Words tokenize(std::string_view word) const {
    Words parts = split_symbols(word);
    return keeps(word, parts) ? Words{std::string(word)} : parts;
  }

 private:
  [[nodiscard]] bool knows(std::string_view word) const {
    return vocabulary_.find(word).has_value();
  }
  [[nodiscard]] bool knows_all(const Words& words) const {
    return std::ranges::all_of(words, [&](const std::string& word) { return knows(word); });
  }
  // How often the training text has the word; 0 also where that is not known.
  [[nodiscard]] std::int64_t count(std::string_view word) const {
    const std::optional<std::int32_t> id = vocabulary_.find(word);
    if (!id || vocabulary_.counts().empty()) return 0;
    return vocabulary_.counts()[static_cast<std::size_t>(*id)];
  }

  // True for a word that the training text has as it is rather than in these parts.
  [[nodiscard]] bool keeps(std::string_view word, const Words& parts) const {
    if (!knows(word)) return false;
    if (!knows_all(parts)) return true;
    const std::int64_t own = count(word);
    return std::ranges::any_of(parts, [&](const std::string& part) { return count(part) <= own; });
  }

  [[nodiscard]] Words split_symbols(std::string_view word) const {
    Words out;
    for_each_part(
        word, is_symbol, [&](std::string_view part) { split_points(part, out); },
        [&](std::string_view symbol) { out.emplace_back(symbol); });
    return out;
  }

  // Takes periods off the end: several stay together, and one stays at a word that is known with it
  // and not rather without.
  void split_points(std::string_view part, Words& out) const {
    const std::size_t last = part.find_last_not_of('.');
    const std::size_t kept = last == part.npos ? 0 : last + 1;
    const std::string_view stem = part.substr(0, kept);
    const std::string_view points = part.substr(kept);
    const bool is_abbreviation = points.size() == 1 && knows(part) && count(part) >= count(stem);
    if (points.empty() || is_abbreviation) {
      split_inside(part, out);
      return;
    }
    if (!stem.empty()) split_inside(stem, out);
    out.emplace_back(points);
  }

  // Commas, hyphens, points of numbers, and apostrophes.
  void split_inside(std::string_view part, Words& out) const {
    std::size_t begin = 0;
    for (std::size_t i = 0; i < part.size(); ++i) {
      const bool is_inner = i > begin && i + 1 < part.size();
      const bool is_in_number = is_inner && is_digit(part[i - 1]) && is_digit(part[i + 1]);
      const std::size_t apostrophe = apostrophe_at(part, i);
      std::string mark;
      std::size_t bytes = 1;
      if (part[i] == ',') {
        mark = is_in_number ? "@,@" : ",";
      } else if (part[i] == '.' && is_in_number) {
        mark = "@.@";
      } else if (part[i] == '-' && is_inner && part[i - 1] != '-' && part[i + 1] != '-') {
        mark = "@-@";
      } else if (apostrophe > 0 && i > begin && i + apostrophe < part.size()) {
        split_contraction(part.substr(begin), i - begin, apostrophe, out);
        return;
      } else if (apostrophe > 0) {
        mark = std::string(part.substr(i, apostrophe));
        bytes = apostrophe;
      }
      if (mark.empty()) continue;
      if (i > begin) out.emplace_back(part.substr(begin, i - begin));
      out.push_back(mark);
      begin = i + bytes;
      i += bytes - 1;
    }
    if (begin < part.size()) out.emplace_back(part.substr(begin));
  }

  // "don't": two words, of which the second begins with the apostrophe or with the n before it.
  void split_contraction(std::string_view part, std::size_t at, std::size_t apostrophe,
                         Words& out) const {
    std::size_t end = at + apostrophe;
    while (end < part.size() && apostrophe_at(part, end) == 0 && part[end] != ',' &&
           part[end] != '-') {
      ++end;
    }
    const auto divided = [&](std::size_t place) {
      return Words{std::string(part.substr(0, place)),
                   std::string(part.substr(place, end - place))};
    };
    Words words = divided(at);
    const bool is_negation =
        at > 1 && part[at - 1] == 'n' && end == at + apostrophe + 1 && part[end - 1] == 't';
    if (is_negation && !knows_all(words)) {
      if (Words other = divided(at - 1); knows_all(other)) words = std::move(other);
    }
    out.insert(out.end(), words.begin(), words.end());
    if (end < part.size()) split_inside(part.substr(end), out);
  }

  const data::Vocabulary& vocabulary_;
};

}  // namespace

std::string tokenize(std::string_view text, const data::Vocabulary& vocabulary) {
  const WordTokenizer tokenizer(vocabulary);
  std::string out;
  for_each_part(
      text, data::is_space,
      [&](std::string_view word) { out += join(tokenizer.tokenize(word), " "); },
      [&](std::string_view space) { out += space; });
  return out;
}

}  // namespace mneme::generate
