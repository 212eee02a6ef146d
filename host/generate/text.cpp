#include "host/generate/text.hpp"

#include <algorithm>
#include <array>
#include <set>
#include <span>

#include "host/base/error.hpp"
#include "host/base/integer.hpp"
#include "host/base/text.hpp"
#include "host/base/utf8.hpp"
#include "host/data/text/text.hpp"

namespace mneme::generate {
namespace {

constexpr std::size_t kNamed = 5;  // symbols that messages name

std::string quoted_at(const data::NamedText& text, std::string_view symbol) {
  const auto offset = static_cast<std::size_t>(symbol.data() - text.text.data());
  return str('"', printable(symbol), "\" at ", data::position_text(text, offset));
}

// Different symbols that the vocabulary lacks, in order, with the place of each one's first.
struct Missing {
  std::set<std::string> seen;
  std::vector<std::string> named;  // the first ones

  void add(const data::NamedText& text, std::string_view symbol) {
    if (!seen.insert(std::string(symbol)).second || named.size() == kNamed) return;
    named.push_back(quoted_at(text, symbol));
  }
  [[nodiscard]] std::string list() const {
    const std::string more =
        seen.size() > named.size() ? str(" and ", seen.size() - named.size(), " more") : "";
    return join(named, ", ") + more;
  }
};

// Error (kUsage) for a text with symbols outside a byte or character vocabulary: all of them at
// once.
void check_symbols(const data::Vocabulary& vocabulary, const data::NamedText& text) {
  const bool is_byte = vocabulary.kind() == data::VocabularyKind::kByte;
  Missing missing;
  for (std::size_t i = 0; i < text.text.size();) {
    const std::size_t bytes = is_byte ? 1 : decode_utf8(text.text, i).bytes;
    if (bytes == 0) return;  // encoding reports the error
    const std::string_view symbol = text.text.substr(i, bytes);
    const bool is_dropped = vocabulary.drops_newlines() && symbol == "\n";
    if (!is_dropped && !vocabulary.find(symbol)) missing.add(text, symbol);
    i += bytes;
  }
  if (missing.named.empty()) return;
  throw_usage({.where = "prompt",
               .failed = str("the vocabulary lacks ", is_byte ? "bytes" : "characters", " of it"),
               .expected = str("its ", vocabulary.size(), is_byte ? " bytes" : " characters"),
               .got = missing.list(),
               .hint = "write the prompt as the training text is written"});
}

}  // namespace

Prompt encode_prompt(const data::Vocabulary& vocabulary, const data::NamedText& text,
                     bool keeps_eos) {
  const data::VocabularyKind kind = vocabulary.kind();
  const bool has_words = kind == data::VocabularyKind::kWord;
  if (!has_words && kind != data::VocabularyKind::kTokenizer) check_symbols(vocabulary, text);
  Prompt prompt;
  prompt.unknown = vocabulary.encode(text, prompt.ids).unknown;
  if (!has_words) return prompt;
  if (vocabulary.adds_eos()) {
    const bool is_line_open =
        !text.text.empty() && text.text.back() != '\n' && text.text.back() != '\r';
    if (is_line_open) prompt.ids.pop_back();
    if (!keeps_eos) std::erase(prompt.ids, *vocabulary.find(data::kEndOfLine));
  }
  Missing missing;
  data::for_each_word(
      text,
      [&](std::string_view word) {
        if (!vocabulary.find(word)) missing.add(text, word);
      },
      [] {});
  prompt.unknown_list = missing.list();
  prompt.unknown_words = static_cast<std::int64_t>(missing.seen.size());
  return prompt;
}

Prompt parse_prompt_ids(std::string_view list, const std::string& where) {
  Prompt prompt;
  for (std::size_t from = 0; from <= list.size() && !list.empty();) {
    const std::size_t comma = std::min(list.find(',', from), list.size());
    std::string_view part = list.substr(from, comma - from);
    while (part.starts_with(' ')) part.remove_prefix(1);
    while (part.ends_with(' ') || part.ends_with('\n')) part.remove_suffix(1);
    const auto id = integer_of<std::int32_t>(part);
    if (!id) {
      throw_usage({.where = where,
                   .failed = "this is no list of ids",
                   .expected = "numbers separated by commas, such as 1,2,3",
                   .got = str('"', part, '"')});
    }
    prompt.ids.push_back(*id);
    from = comma + 1;
  }
  return prompt;
}

StopText::StopText(std::vector<std::string> stops) : stops_(std::move(stops)) {
  std::erase(stops_, "");
}

std::string StopText::add(std::string_view piece) {
  if (is_found_) return "";
  held_ += piece;
  std::size_t shown = std::string::npos, end = std::string::npos;
  for (const std::string& stop : stops_) {
    const std::size_t begin = held_.find(stop);
    if (begin == std::string::npos || begin + stop.size() > end) continue;
    if (begin + stop.size() == end && begin > shown) continue;
    shown = begin;
    end = begin + stop.size();
  }
  if (shown != std::string::npos) {
    is_found_ = true;
    std::string out = held_.substr(0, shown);
    held_.clear();
    return out;
  }
  // Holds back the longest suffix that is a beginning of a stop text.
  std::size_t kept = 0;
  for (const std::string& stop : stops_) {
    std::size_t own = std::min(held_.size(), stop.size() - 1);
    while (own > kept && !held_.ends_with(std::string_view(stop).substr(0, own))) --own;
    kept = std::max(kept, own);
  }
  shown = held_.size() - kept;
  std::string out = held_.substr(0, shown);
  held_.erase(0, shown);
  return out;
}

std::string StopText::rest() { return std::exchange(held_, ""); }

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

// Is written without a blank after the previous word.
bool is_closing(std::string_view word) {
  const bool is_contraction = std::ranges::any_of(kApostrophes, [&](std::string_view apostrophe) {
    const std::string_view rest = word.substr(std::min(apostrophe.size(), word.size()));
    return word.starts_with(apostrophe) && !rest.empty() && rest[0] >= 'a' && rest[0] <= 'z';
  });
  return is_contraction || std::ranges::count(kClosing, word) > 0;
}

}  // namespace

TokenWriter::TokenWriter(const data::Vocabulary* vocabulary, bool detokenises)
    : vocabulary_(vocabulary), detokenises_(detokenises) {
  // Special tokens are shown: a text that ends the generation may name them.
  if (vocabulary != nullptr && vocabulary->tokenizer()) {
    decoder_.emplace(vocabulary->tokenizer(), false);
  }
}

std::string TokenWriter::end() {
  if (!decoder_) return "";
  std::string text = decoder_->finish();
  if (text.starts_with(followed_)) text.erase(0, followed_.size());
  followed_.clear();
  return text;
}

void TokenWriter::follow(const std::vector<std::int32_t>& ids) {
  for (const std::int32_t id : ids) static_cast<void>(add(id));
  needs_blank_ = false;
  if (!decoder_ || !decoder_->waits_for_end()) return;
  const auto mark = std::find_if(ids.rbegin(), ids.rend(),
                                 [&](std::int32_t id) { return vocabulary_->is_mark(id); });
  followed_ = vocabulary_->decode(std::span(mark.base(), ids.end()));
}

std::string TokenWriter::add(std::int32_t id) {
  if (vocabulary_ == nullptr) return add_word(str(id));
  if (decoder_) {
    return vocabulary_->is_mark(id) ? end() + vocabulary_->symbol(id) : decoder_->push(id);
  }
  const std::string& symbol = vocabulary_->symbol(id);
  if (vocabulary_->is_mark(id)) is_in_quotation_ = false;
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
  if (std::ranges::count(kOpening, word) > 0) needs_blank_ = false;
  return text;
}

}  // namespace mneme::generate
