#include "host/generate/prompt.hpp"

#include <algorithm>
#include <charconv>
#include <set>
#include <system_error>

#include "host/base/error.hpp"
#include "host/base/text.hpp"
#include "host/data/text/utf8.hpp"
#include "host/data/text/words.hpp"

namespace mneme::generate {
namespace {

constexpr std::size_t kNamed = 5;  // symbols that messages name

std::string quoted_at(const data::NamedText& text, std::string_view symbol) {
  const auto offset = static_cast<std::size_t>(symbol.data() - text.text.data());
  return str('"', symbol, "\" at ", data::position_text(text, offset));
}

// Different symbols that the vocabulary lacks, in order, with the place of each one's first.
class Missing {
 public:
  void add(const data::NamedText& text, std::string_view symbol) {
    if (!seen_.insert(std::string(symbol)).second || named_.size() == kNamed) return;
    named_.push_back(quoted_at(text, symbol));
  }
  [[nodiscard]] const std::vector<std::string>& named() const { return named_; }
  [[nodiscard]] std::string list() const {
    const std::string more =
        seen_.size() > named_.size() ? str(" and ", seen_.size() - named_.size(), " more") : "";
    return join(named_, ", ") + more;
  }

 private:
  std::set<std::string> seen_;
  std::vector<std::string> named_;
};

// Error (kUsage) for a text with symbols outside a byte or character vocabulary: all of them at
// once.
void check_symbols(const data::Vocabulary& vocabulary, const data::NamedText& text) {
  const bool is_byte = vocabulary.kind() == data::VocabularyKind::kByte;
  Missing missing;
  for (std::size_t i = 0; i < text.text.size();) {
    const std::size_t bytes = is_byte ? 1 : data::decode_utf8(text.text, i).bytes;
    if (bytes == 0) return;  // encoding says what is wrong
    const std::string_view symbol = text.text.substr(i, bytes);
    const bool is_dropped = vocabulary.drops_newlines() && symbol == "\n";
    if (!is_dropped && !vocabulary.find(symbol)) missing.add(text, symbol);
    i += bytes;
  }
  if (missing.named().empty()) return;
  throw_usage({.where = "prompt",
               .failed = str("the vocabulary lacks ", is_byte ? "bytes" : "characters", " of it"),
               .expected = str("its ", vocabulary.size(), is_byte ? " bytes" : " characters"),
               .got = missing.list(),
               .hint = "write the prompt as the training text is written"});
}

}  // namespace

Prompt encode_prompt(const data::Vocabulary& vocabulary, const data::NamedText& text,
                     bool keeps_eos) {
  Prompt prompt;
  if (vocabulary.kind() != data::VocabularyKind::kWord) {
    check_symbols(vocabulary, text);
    vocabulary.encode(text, prompt.ids);
    return prompt;
  }
  prompt.unknown = vocabulary.encode(text, prompt.ids).unknown;
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
  return prompt;
}

Prompt parse_prompt_ids(std::string_view list) {
  Prompt prompt;
  for (std::size_t from = 0; from <= list.size() && !list.empty();) {
    const std::size_t comma = std::min(list.find(',', from), list.size());
    std::string_view part = list.substr(from, comma - from);
    while (part.starts_with(' ')) part.remove_prefix(1);
    while (part.ends_with(' ') || part.ends_with('\n')) part.remove_suffix(1);
    std::int32_t id = 0;
    const auto result = std::from_chars(part.data(), part.data() + part.size(), id);
    if (part.empty() || result.ec != std::errc() || result.ptr != part.data() + part.size()) {
      throw_usage({.where = "--prompt-ids",
                   .failed = "this is no list of ids",
                   .expected = "numbers separated by commas, such as 1,2,3",
                   .got = str('"', part, '"')});
    }
    prompt.ids.push_back(id);
    from = comma + 1;
  }
  return prompt;
}

}  // namespace mneme::generate
