#include "host/scores/overlap/words.hpp"

#include <utf8proc.h>

#include <array>
#include <cstddef>

#include "host/base/utf8.hpp"
#include "host/data/text/text.hpp"
#include "host/scores/overlap/porter_stemmer.hpp"

namespace mneme::scores {
namespace {

constexpr char32_t kReplacement = U'\uFFFD';
constexpr char32_t kDottedCapitalI = U'\u0130';
constexpr char32_t kDotAbove = U'\u0307';

bool is_ascii_punctuation(char32_t c) {
  return (c >= U'!' && c <= U'/') || (c >= U':' && c <= U'@') || (c >= U'[' && c <= U'`') ||
         (c >= U'{' && c <= U'~');
}

// The characters between which Python's regular expressions find no \b.
bool is_word_character(char32_t c) {
  const std::string_view category = utf8proc_category_string(static_cast<utf8proc_int32_t>(c));
  return c == U'_' || category.front() == 'L' || category.front() == 'N';
}

bool is_article(std::u32string_view word) {
  return word == U"a" || word == U"an" || word == U"the";
}

std::u32string without_punctuation(std::u32string_view text) {
  std::u32string out;
  for (const char32_t c : text) {
    if (!is_ascii_punctuation(c)) out += c;
  }
  return out;
}

void blank_articles(std::u32string& text) {
  for (std::size_t begin = 0; begin < text.size();) {
    std::size_t end = begin;
    while (end < text.size() && is_word_character(text[end])) ++end;
    if (is_article(std::u32string_view(text).substr(begin, end - begin))) {
      for (std::size_t i = begin; i < end; ++i) text[i] = U' ';
    }
    begin = end + 1;
  }
}

std::vector<std::string> split_at_white_space(std::u32string_view text) {
  std::vector<std::string> words;
  std::size_t begin = 0;
  for (std::size_t i = 0; i <= text.size(); ++i) {
    if (i < text.size() && !data::is_space(text[i])) continue;
    if (i > begin) words.push_back(to_utf8(text.substr(begin, i - begin)));
    begin = i + 1;
  }
  return words;
}

}  // namespace

std::u32string code_points(std::string_view text) {
  std::u32string out;
  for (std::size_t i = 0; i < text.size();) {
    const CodePoint point = decode_utf8(text, i);
    out += point.bytes == 0 ? kReplacement : point.value;
    i += point.bytes == 0 ? 1 : point.bytes;
  }
  return out;
}

std::u32string lower_case(std::string_view text) {
  std::u32string out;
  for (const char32_t c : code_points(text)) {
    if (c == kDottedCapitalI) {
      // The only code point whose lower case is two; utf8proc has mappings to one.
      out += U'i';
      out += kDotAbove;
    } else {
      out += static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c)));
    }
  }
  return out;
}

std::string to_utf8(std::u32string_view text) {
  std::string out;
  std::array<utf8proc_uint8_t, 4> bytes{};
  for (const char32_t c : text) {
    const utf8proc_ssize_t size =
        utf8proc_encode_char(static_cast<utf8proc_int32_t>(c), bytes.data());
    for (utf8proc_ssize_t i = 0; i < size; ++i) {
      out += static_cast<char>(bytes[static_cast<std::size_t>(i)]);
    }
  }
  return out;
}

std::vector<std::string> rouge_words(std::string_view text, bool use_stemmer) {
  std::vector<std::string> words;
  std::string word;
  const auto end_word = [&] {
    if (use_stemmer && word.size() > 3) word = porter_stem(word);
    if (!word.empty()) words.push_back(word);
    word.clear();
  };
  for (const char32_t c : lower_case(text)) {
    if ((c >= U'a' && c <= U'z') || (c >= U'0' && c <= U'9')) {
      word += static_cast<char>(c);
    } else {
      end_word();
    }
  }
  end_word();
  return words;
}

std::vector<std::string> f1_words(std::string_view text) {
  std::u32string letters = without_punctuation(lower_case(text));
  blank_articles(letters);
  return split_at_white_space(letters);
}

std::vector<std::string> meteor_words(std::string_view text) {
  return split_at_white_space(lower_case(text));
}

}  // namespace mneme::scores
