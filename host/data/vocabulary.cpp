#include "host/data/vocabulary.hpp"

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

#include "host/base/error.hpp"
#include "host/data/utf8.hpp"
#include "host/data/words.hpp"

namespace mneme::data {
namespace {

struct WordCount {
  std::string_view word;
  std::int64_t count = 0;
};

std::string sources(std::span<const NamedText> texts) {
  std::vector<std::string> names;
  for (const NamedText& text : texts) names.push_back(text.source);
  return join(names, ", ");
}

// Words by falling count; equal counts in order of first occurrence. `skipped` is left out.
std::vector<WordCount> count_words(std::span<const NamedText> texts, std::string_view skipped) {
  std::unordered_map<std::string_view, std::size_t> places;
  std::vector<WordCount> counts;
  for (const NamedText& text : texts) {
    for_each_word(
        text.source, text.text,
        [&](std::string_view word) {
          if (word == skipped) return;
          const auto [found, is_new] = places.try_emplace(word, counts.size());
          if (is_new) counts.push_back({word, 0});
          ++counts[found->second].count;
        },
        [] {});
  }
  std::stable_sort(counts.begin(), counts.end(),
                   [](const WordCount& a, const WordCount& b) { return a.count > b.count; });
  return counts;
}

void check_options(const WordOptions& options) {
  if (options.min_count < 1) {
    throw_usage({.where = "min_count",
                 .failed = "a word vocabulary cannot be built",
                 .expected = "a count of at least 1",
                 .got = str(options.min_count)});
  }
  if (options.max_size != 0 && options.max_size < 3) {
    throw_usage({.where = "data.vocabulary_size",
                 .failed = "a word vocabulary cannot be built",
                 .expected = "0 (no bound) or at least 3: <eos>, <unk> and a word",
                 .got = str(options.max_size)});
  }
}

}  // namespace

std::string_view to_word(VocabularyKind kind) {
  switch (kind) {
    case VocabularyKind::kByte:
      return "byte";
    case VocabularyKind::kChar:
      return "char";
    case VocabularyKind::kWord:
      return "word";
  }
  return "?";
}

Vocabulary::Vocabulary(VocabularyKind kind, bool adds_eos, std::vector<std::string> symbols)
    : kind_(kind), adds_eos_(adds_eos), symbols_(std::move(symbols)) {
  ids_.reserve(symbols_.size());
  for (std::size_t i = 0; i < symbols_.size(); ++i) {
    ids_.emplace(symbols_[i], static_cast<std::int32_t>(i));
  }
}

Vocabulary Vocabulary::bytes() {
  std::vector<std::string> symbols;
  for (int byte = 0; byte < 256; ++byte) symbols.emplace_back(1, static_cast<char>(byte));
  return {VocabularyKind::kByte, false, std::move(symbols)};
}

Vocabulary Vocabulary::characters(std::span<const NamedText> training) {
  std::set<std::string, std::less<>> found;  // UTF-8 sorts by bytes as its code points do
  for (const NamedText& text : training) {
    for (std::size_t i = 0; i < text.text.size();) {
      const std::size_t bytes = decode_utf8(text.text, i).bytes;
      if (bytes == 0) throw_invalid_utf8(text.source, text.text, i);
      const std::string_view character = text.text.substr(i, bytes);
      if (!found.contains(character)) found.emplace(character);
      i += bytes;
    }
  }
  if (found.empty()) {
    throw_usage({.where = sources(training),
                 .failed = "the training text has no character to make a vocabulary of"});
  }
  return {VocabularyKind::kChar, false, {found.begin(), found.end()}};
}

Vocabulary Vocabulary::words(std::span<const NamedText> training, const WordOptions& options) {
  check_options(options);
  const std::vector<WordCount> counts =
      count_words(training, options.add_eos ? kEndOfLine : std::string_view{});
  if (counts.empty()) {
    throw_usage({.where = sources(training),
                 .failed = "the training text has no word to make a vocabulary of",
                 .hint = "name a file with words in data.train"});
  }
  const std::size_t bound = options.max_size == 0 ? std::numeric_limits<std::size_t>::max()
                                                  : static_cast<std::size_t>(options.max_size);
  std::vector<std::string> symbols;
  if (options.add_eos) symbols.emplace_back(kEndOfLine);
  bool has_unknown = false;
  for (const WordCount& entry : counts) {
    // One place stays free for <unk> until it has come.
    if (entry.count < options.min_count || symbols.size() + (has_unknown ? 0 : 1) >= bound) break;
    symbols.emplace_back(entry.word);
    has_unknown = has_unknown || entry.word == kUnknown;
  }
  if (!has_unknown) symbols.emplace_back(kUnknown);
  if (symbols.size() > static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max())) {
    throw_usage(sources(training),
                ": more than 2^31 - 1 different words; set data.vocabulary_size");
  }
  return {VocabularyKind::kWord, options.add_eos, std::move(symbols)};
}

std::optional<std::int32_t> Vocabulary::find(std::string_view symbol) const {
  const auto found = ids_.find(symbol);
  if (found == ids_.end()) return std::nullopt;
  return found->second;
}

std::optional<std::int32_t> Vocabulary::unknown_id() const {
  return kind_ == VocabularyKind::kWord ? find(kUnknown) : std::nullopt;
}

const std::string& Vocabulary::symbol(std::int64_t id) const {
  if (id < 0 || id >= size()) {
    throw_usage(
        {.where = str("token id ", id),
         .failed = "it names no symbol",
         .expected = str("0 to ", size() - 1, ", the ", to_word(kind_), " vocabulary's ids"),
         .got = str(id)});
  }
  return symbols_[static_cast<std::size_t>(id)];
}

EncodeCounts Vocabulary::encode(const NamedText& text, std::vector<std::int32_t>& ids) const {
  switch (kind_) {
    case VocabularyKind::kByte:
      return encode_bytes(text, ids);
    case VocabularyKind::kChar:
      return encode_characters(text, ids);
    case VocabularyKind::kWord:
      break;
  }
  return encode_words(text, ids);
}

EncodeCounts Vocabulary::encode_bytes(const NamedText& text, std::vector<std::int32_t>& ids) const {
  EncodeCounts counts;
  ids.reserve(ids.size() + text.text.size());
  for (const char byte : text.text) {
    ids.push_back(static_cast<unsigned char>(byte));
    if (byte == '\n') ++counts.lines;
  }
  counts.tokens = counts.characters = static_cast<std::int64_t>(text.text.size());
  return counts;
}

EncodeCounts Vocabulary::encode_characters(const NamedText& text,
                                           std::vector<std::int32_t>& ids) const {
  EncodeCounts counts;
  for (std::size_t i = 0; i < text.text.size();) {
    const std::size_t bytes = decode_utf8(text.text, i).bytes;
    if (bytes == 0) throw_invalid_utf8(text.source, text.text, i);
    const std::string_view character = text.text.substr(i, bytes);
    const auto id = find(character);
    if (!id) {
      throw_usage({.where = position_text(text.source, text.text, i),
                   .failed = "a character that the training text does not have",
                   .expected = str("one of its ", size(), " characters"),
                   .got = str("\"", character, "\""),
                   .hint = "add it to data.train, remove it here, or set data.vocabulary = "
                           "\"byte\", which takes any text"});
    }
    ids.push_back(*id);
    if (text.text[i] == '\n') ++counts.lines;
    ++counts.tokens;
    i += bytes;
  }
  counts.characters = counts.tokens;
  return counts;
}

EncodeCounts Vocabulary::encode_words(const NamedText& text, std::vector<std::int32_t>& ids) const {
  EncodeCounts counts;
  const std::size_t begin = ids.size();
  const std::int32_t unknown = ids_.find(kUnknown)->second;
  const std::int32_t end_of_line = adds_eos_ ? ids_.find(kEndOfLine)->second : 0;
  for_each_word(
      text.source, text.text,
      [&](std::string_view word) {
        const auto id = find(word);
        if (!id) ++counts.unknown;
        ids.push_back(id.value_or(unknown));
      },
      [&] {
        ++counts.lines;
        if (adds_eos_) ids.push_back(end_of_line);
      });
  counts.tokens = static_cast<std::int64_t>(ids.size() - begin);
  counts.characters = count_characters(text.text);
  return counts;
}

std::string Vocabulary::decode(std::span<const std::int32_t> ids) const {
  std::string text;
  bool is_line_start = true;
  for (const std::int32_t id : ids) {
    const std::string& piece = symbol(id);
    if (kind_ != VocabularyKind::kWord) {
      text += piece;
    } else if (adds_eos_ && piece == kEndOfLine) {
      text += '\n';
      is_line_start = true;
    } else {
      if (!is_line_start) text += ' ';
      text += piece;
      is_line_start = false;
    }
  }
  return text;
}

}  // namespace mneme::data
