#include "host/data/tokenizer/pieces/charsmap.hpp"

#include "host/base/error.hpp"
#include "host/base/utf8.hpp"

namespace mneme::data {
namespace {

constexpr std::size_t kLongestRule = 256;  // bytes that are looked at
constexpr std::size_t kLongestReplacement = 1000;
constexpr std::uint32_t kValueBit = std::uint32_t{1} << 31;

// A unit of the trie. A value, or a node: the byte that leads to it, whether a text ends there, and
// what its place is combined with to give its children's.
bool is_value(std::uint32_t unit) { return (unit & kValueBit) != 0; }
std::size_t value_of(std::uint32_t unit) { return unit & (kValueBit - 1); }
std::uint32_t label_of(std::uint32_t unit) { return unit & (kValueBit | 0xFF); }
bool ends_text(std::uint32_t unit) { return (unit >> 8 & 1) != 0; }
std::size_t offset_of(std::uint32_t unit) {
  return std::size_t{unit >> 10} << ((unit & (std::uint32_t{1} << 9)) >> 6);
}

std::uint32_t unit_at(std::string_view bytes, std::size_t place) {
  std::uint32_t out = 0;
  for (std::size_t i = 4; i-- > 0;) out = out << 8 | static_cast<unsigned char>(bytes[place + i]);
  return out;
}

[[noreturn]] void refuse_charsmap(const std::string& place, const std::string& expected,
                                  const std::string& got) {
  throw_usage({.where = place,
               .failed = "the rules for characters cannot be read",
               .expected = expected,
               .got = got,
               .hint = "the file is damaged; fetch it again"});
}

}  // namespace

Charsmap::Charsmap(std::string_view bytes, const std::string& place) {
  if (bytes.empty()) return;
  if (bytes.size() < 4) {
    refuse_charsmap(place, "the trie's size in 4 bytes", str(bytes.size(), " bytes"));
  }
  const std::size_t size = unit_at(bytes, 0);
  bytes.remove_prefix(4);
  if (size == 0 || size % 4 != 0 || size >= bytes.size()) {
    refuse_charsmap(
        place,
        str("a trie of whole units of 4 bytes, fewer than the ", bytes.size(), " that follow"),
        str(size, " bytes"));
  }
  for (std::size_t i = 0; i < size; i += 4) units_.push_back(unit_at(bytes, i));
  replacements_ = bytes.substr(size);
  if (replacements_.back() != '\0' || !is_utf8(replacements_)) {
    refuse_charsmap(place, "replacements in UTF-8, each with NUL at its end", "other bytes");
  }
  for (const std::uint32_t unit : units_) {
    if (!is_value(unit)) continue;
    const std::size_t begin = value_of(unit);
    if (begin >= replacements_.size() || is_continuation(replacements_[begin])) {
      refuse_charsmap(
          place,
          str("replacements that begin before byte ", replacements_.size(), " with a character"),
          str("byte ", begin));
    }
    const std::size_t end = replacements_.find('\0', begin);
    if (end - begin <= kLongestReplacement) continue;
    refuse_charsmap(place, str("replacements of at most ", kLongestReplacement, " bytes"),
                    str(end - begin, " bytes"));
  }
}

Charsmap::Rule Charsmap::find(std::string_view text) const {
  Rule rule;
  if (units_.empty()) return rule;
  std::size_t node = offset_of(units_[0]);
  for (std::size_t i = 0; i < text.size() && i < kLongestRule; ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    node ^= byte;
    if (node >= units_.size() || label_of(units_[node]) != byte) break;
    const std::uint32_t unit = units_[node];
    node ^= offset_of(unit);
    if (!ends_text(unit) || node >= units_.size() || !is_value(units_[node])) continue;
    const std::size_t begin = value_of(units_[node]);
    rule = {i + 1,
            std::string_view(replacements_).substr(begin, replacements_.find('\0', begin) - begin)};
  }
  return rule;
}

}  // namespace mneme::data
