#include "host/generate/token_writer.hpp"

#include <algorithm>
#include <array>

#include "host/base/text.hpp"

namespace mneme::generate {
namespace {

using namespace std::string_view_literals;

constexpr std::array kInner = {std::pair("@-@"sv, "-"sv), std::pair("@,@"sv, ","sv),
                               std::pair("@.@"sv, "."sv)};
constexpr std::array kClosing = {","sv, "."sv,   ";"sv,        ":"sv,      "!"sv,
                                 "?"sv, ")"sv,   "]"sv,        "}"sv,      "%"sv,
                                 "'"sv, "n't"sv, "n\u2019t"sv, "\u2019"sv, "\u201d"sv};
constexpr std::array kOpening = {"("sv,      "["sv,      "{"sv,      "$"sv,
                                 "\u00a3"sv, "\u20ac"sv, "\u2018"sv, "\u201c"sv};
constexpr std::array kApostrophes = {"'"sv, "\u2019"sv};

template <typename List>
bool is_among(const List& list, std::string_view word) {
  return std::find(list.begin(), list.end(), word) != list.end();
}

// Stands at the word before it.
bool is_closing(std::string_view word) {
  const bool is_contraction = std::ranges::any_of(kApostrophes, [&](std::string_view apostrophe) {
    const std::string_view rest = word.substr(std::min(apostrophe.size(), word.size()));
    return word.starts_with(apostrophe) && !rest.empty() && rest[0] >= 'a' && rest[0] <= 'z';
  });
  return is_contraction || is_among(kClosing, word);
}

}  // namespace

void TokenWriter::follow(const std::vector<std::int32_t>& ids) {
  for (const std::int32_t id : ids) static_cast<void>(add(id));
  needs_blank_ = false;
}

std::string TokenWriter::add(std::int32_t id) {
  if (vocabulary_ == nullptr) return add_word(str(id));
  const std::string& symbol = vocabulary_->symbol(id);
  if (vocabulary_->kind() != data::VocabularyKind::kWord) return symbol;
  if (vocabulary_->adds_eos() && symbol == data::kEndOfLine) {
    needs_blank_ = is_in_quotation_ = false;
    return "\n";
  }
  return detokenises_ ? add_detokenised(symbol) : add_word(symbol);
}

std::string TokenWriter::add_word(std::string_view word) {
  std::string text = needs_blank_ ? " " : "";
  needs_blank_ = true;
  return text.append(word);
}

std::string TokenWriter::add_detokenised(std::string_view word) {
  for (const auto& [mark, text] : kInner) {
    if (word != mark) continue;
    needs_blank_ = false;
    return std::string(text);
  }
  if (word == "\"") {
    is_in_quotation_ = !is_in_quotation_;
    if (!is_in_quotation_) needs_blank_ = false;
    std::string text = add_word(word);
    needs_blank_ = !is_in_quotation_;
    return text;
  }
  if (is_closing(word)) needs_blank_ = false;
  std::string text = add_word(word);
  if (is_among(kOpening, word)) needs_blank_ = false;
  return text;
}

}  // namespace mneme::generate
