// Vocabularies from the texts that they are for.
#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "host/base/error.hpp"
#include "host/base/utf8.hpp"
#include "host/data/text/text.hpp"
#include "host/data/vocabulary/vocabulary.hpp"

namespace mneme::data {
namespace {

std::string sources(std::span<const NamedText> texts) {
  std::vector<std::string> names;
  for (const NamedText& text : texts) names.push_back(text.source);
  return join(names, ", ");
}

// Reports at intervals how many symbols were read.
class Meter {
 public:
  explicit Meter(const OnSymbols& on_symbols) : on_symbols_(on_symbols) {}

  void step() {
    if (++count_ % kInterval == 0 && on_symbols_) on_symbols_(count_);
  }

 private:
  static constexpr std::int64_t kInterval = std::int64_t{1} << 20;  // some milliseconds of reading

  const OnSymbols& on_symbols_;
  std::int64_t count_ = 0;
};

// Occurrences of symbols, in order of their first one. The symbols are borrowed from the texts, so
// that memory grows with different symbols and not with the text.
class Counter {
 public:
  struct Entry {
    std::string_view symbol;
    std::int64_t count = 0;
  };

  void add(std::string_view symbol) {
    const auto [found, is_new] = places_.try_emplace(symbol, entries_.size());
    if (is_new) entries_.push_back({symbol, 0});
    ++entries_[found->second].count;
  }
  // By falling count; equal counts stay in order of first occurrence.
  [[nodiscard]] std::vector<Entry> by_count() && {
    std::stable_sort(entries_.begin(), entries_.end(),
                     [](const Entry& a, const Entry& b) { return a.count > b.count; });
    return std::move(entries_);
  }
  [[nodiscard]] std::vector<Entry> by_symbol() && {
    std::sort(entries_.begin(), entries_.end(),
              [](const Entry& a, const Entry& b) { return a.symbol < b.symbol; });
    return std::move(entries_);
  }

 private:
  std::unordered_map<std::string_view, std::size_t> places_;
  std::vector<Entry> entries_;
};

// The words of texts, and what ends their lines.
struct WordCounts {
  std::vector<Counter::Entry> words;  // by falling count, without <eos>
  std::int64_t ends = 0;              // line ends and written <eos>
};

WordCounts count_words(std::span<const NamedText> texts, bool add_eos,
                       const OnSymbols& on_symbols) {
  Counter counter;
  Meter meter(on_symbols);
  WordCounts out;
  for (const NamedText& text : texts) {
    for_each_word(
        text,
        [&](std::string_view word) {
          meter.step();
          if (add_eos && word == kEndOfLine) {
            ++out.ends;
          } else {
            counter.add(word);
          }
        },
        [&] {
          meter.step();
          ++out.ends;
        });
  }
  out.words = std::move(counter).by_count();
  return out;
}

void check_options(const WordOptions& options) {
  if (options.min_count < 1) {
    throw_usage({.where = "data.min_count",
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

Vocabulary Vocabulary::bytes() {
  std::vector<std::string> symbols;
  for (int byte = 0; byte < 256; ++byte) symbols.emplace_back(1, static_cast<char>(byte));
  return {VocabularyKind::kByte, std::move(symbols)};
}

Vocabulary Vocabulary::bytes_without_newline(std::span<const NamedText> texts,
                                             const OnSymbols& on_symbols) {
  Meter meter(on_symbols);
  std::array<std::int64_t, 256> counts{};
  std::vector<Counted> found;  // in order of first occurrence
  for (const NamedText& text : texts) {
    for (const char byte : text.text) {
      meter.step();
      if (byte == '\n') continue;
      if (counts[static_cast<unsigned char>(byte)]++ == 0) found.push_back({{byte}, 0});
    }
  }
  if (found.empty()) {
    throw_usage({.where = sources(texts),
                 .failed = "the text has no byte but newlines to make a vocabulary of"});
  }
  for (Counted& each : found) each.count = counts[static_cast<unsigned char>(each.symbol[0])];
  std::stable_sort(found.begin(), found.end(),
                   [](const Counted& a, const Counted& b) { return a.count > b.count; });
  Vocabulary vocabulary(VocabularyKind::kByte, std::move(found));
  vocabulary.drops_newlines_ = true;
  return vocabulary;
}

Vocabulary Vocabulary::characters(std::span<const NamedText> training, CharacterOrder order,
                                  const OnSymbols& on_symbols) {
  Counter counter;
  Meter meter(on_symbols);
  for (const NamedText& text : training) {
    for (std::size_t i = 0; i < text.text.size();) {
      const std::size_t bytes = decode_utf8(text.text, i).bytes;
      if (bytes == 0) throw_invalid_utf8(text, i);
      meter.step();
      counter.add(text.text.substr(i, bytes));
      i += bytes;
    }
  }
  // UTF-8 sorts by bytes as its code points do.
  const auto entries = order == CharacterOrder::kCount ? std::move(counter).by_count()
                                                       : std::move(counter).by_symbol();
  if (entries.empty()) {
    throw_usage({.where = sources(training),
                 .failed = "the training text has no character to make a vocabulary of"});
  }
  std::vector<Counted> symbols;
  for (const auto& entry : entries) symbols.push_back({std::string(entry.symbol), entry.count});
  return {VocabularyKind::kChar, std::move(symbols)};
}

Vocabulary Vocabulary::words(std::span<const NamedText> training, const WordOptions& options,
                             const OnSymbols& on_symbols) {
  check_options(options);
  const WordCounts counts = count_words(training, options.add_eos, on_symbols);
  if (counts.words.empty()) {
    throw_usage({.where = sources(training),
                 .failed = "the training text has no word to make a vocabulary of",
                 .hint = "name a file with words in data.train"});
  }
  const std::size_t bound = options.max_size == 0 ? std::numeric_limits<std::size_t>::max()
                                                  : static_cast<std::size_t>(options.max_size);
  std::vector<Counted> symbols;
  if (options.add_eos) symbols.push_back({std::string(kEndOfLine), counts.ends});
  std::optional<std::size_t> unknown;
  std::int64_t left_out = 0;
  bool is_full = false;
  for (const auto& [word, count] : counts.words) {
    // One id is reserved for <unk> until it has occurred.
    is_full = is_full || count < options.min_count || symbols.size() + (unknown ? 0 : 1) >= bound;
    if (is_full) {
      left_out += count;
      continue;
    }
    if (word == kUnknown) unknown = symbols.size();
    symbols.push_back({std::string(word), count});
  }
  if (!unknown) {
    unknown = symbols.size();
    symbols.push_back({std::string(kUnknown), 0});
  }
  symbols[*unknown].count += left_out;
  if (symbols.size() > static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max())) {
    throw_usage(sources(training),
                ": more than 2^31 - 1 different words; set data.vocabulary_size");
  }
  Vocabulary vocabulary(VocabularyKind::kWord, std::move(symbols));
  vocabulary.adds_eos_ = options.add_eos;
  return vocabulary;
}

}  // namespace mneme::data
