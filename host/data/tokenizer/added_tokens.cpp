#include "host/data/tokenizer/added_tokens.hpp"

#include <algorithm>
#include <cstddef>

#include "host/base/text.hpp"
#include "host/base/utf8.hpp"
#include "host/data/text/text.hpp"
#include "host/data/tokenizer/words/pattern.hpp"
#include "host/data/tokenizer/words/pattern_syntax.hpp"

namespace mneme::data {
namespace {

// Letters, marks, digits, connectors and joiners: \w of the expressions that PyPI tokenizers use
// here, which are not those of pre-tokenizers.
const Pattern& word_character() {
  static const Pattern pattern =
      Pattern::native(str("[\\p{Alphabetic}", property_class("L"), property_class("M"),
                          property_class("Nd"), property_class("Nl"), "\\p{Pc}\\x{200C}\\x{200D}]"),
                      "single_word");
  return pattern;
}

bool is_white_space(char32_t value) {
  // str.split() of Python, which is_space() is, takes four control characters for spaces, too.
  return is_space(value) && !(value >= 0x1C && value <= 0x1F);
}

bool stands_alone(std::string_view text, std::size_t begin, std::size_t end) {
  const Pattern& word = word_character();
  if (begin > 0 && word.matches_start(text.substr(start_of_last_character(text.substr(0, begin)))))
    return false;
  return end == text.size() || !word.matches_start(text.substr(end));
}

std::size_t without_space_before(std::string_view text, std::size_t begin) {
  while (begin > 0) {
    const std::size_t i = start_of_last_character(text.substr(0, begin));
    if (!is_white_space(decode_utf8(text, i).value)) break;
    begin = i;
  }
  return begin;
}

std::size_t with_space_behind(std::string_view text, std::size_t end) {
  while (end < text.size()) {
    const CodePoint point = decode_utf8(text, end);
    if (!is_white_space(point.value)) break;
    end += point.bytes;
  }
  return end;
}

}  // namespace

TokenFinder::TokenFinder(std::vector<std::pair<std::string, AddedToken>> tokens) {
  nodes_.emplace_back();
  for (auto& [text, token] : tokens) {
    if (text.empty()) continue;
    std::size_t node = 0;
    for (const char byte : text) {
      std::size_t next = child(node, byte);
      if (next == 0) {
        next = nodes_.size();
        nodes_[node].next.emplace_back(byte, next);
        nodes_.emplace_back();
      }
      node = next;
    }
    nodes_[node].token = static_cast<std::ptrdiff_t>(tokens_.size());
    if (first_bytes_.find(text[0]) == first_bytes_.npos) first_bytes_ += text[0];
    tokens_.push_back(std::move(token));
  }
}

std::size_t TokenFinder::child(std::size_t node, char byte) const {
  for (const auto& edge : nodes_[node].next) {
    if (edge.first == byte) return edge.second;
  }
  return 0;
}

const AddedToken* TokenFinder::match(std::string_view text, std::size_t begin,
                                     std::size_t& end) const {
  std::ptrdiff_t found = -1;
  std::size_t node = 0;
  for (std::size_t i = begin; i < text.size(); ++i) {
    node = child(node, text[i]);
    if (node == 0) break;
    if (nodes_[node].token < 0) continue;
    found = nodes_[node].token;
    end = i + 1;
  }
  return found < 0 ? nullptr : &tokens_[static_cast<std::size_t>(found)];
}

void TokenFinder::for_each_part(std::string_view text, bool finds_special,
                                const OnPart& on_part) const {
  std::size_t behind = 0;
  const auto next_place = [&](std::size_t from) {
    return first_bytes_.size() == 1 ? text.find(first_bytes_[0], from)
                                    : text.find_first_of(first_bytes_, from);
  };
  for (std::size_t i = tokens_.empty() ? text.npos : next_place(0); i < text.size();) {
    std::size_t end = 0;
    const AddedToken* token = match(text, i, end);
    if (token == nullptr) {
      i = next_place(i + 1);
      continue;
    }
    std::size_t begin = i;
    i = next_place(end);
    if (!finds_special && token->is_special) continue;
    if (token->is_single_word && !stands_alone(text, begin, end)) continue;
    // Of two tokens that take the space between them, the first has it.
    if (token->takes_left) begin = std::max(without_space_before(text, begin), behind);
    if (token->takes_right) end = with_space_behind(text, end);
    if (behind < begin) on_part(behind, begin, nullptr);
    on_part(begin, end, token);
    behind = end;
  }
  if (behind < text.size()) on_part(behind, text.size(), nullptr);
}

}  // namespace mneme::data
