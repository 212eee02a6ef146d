// Vocabularies: what a token is, and its id.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "host/base/text.hpp"
#include "host/config/experiment.hpp"
#include "host/data/stream/stream.hpp"
#include "host/data/text/text.hpp"

namespace mneme::data {

class Tokenizer;

inline constexpr std::string_view kEndOfLine = "<eos>";
inline constexpr std::string_view kUnknown = "<unk>";

// Called while a text is read, about every million symbols, with the number read so far; an
// exception that it throws ends the reading.
using OnSymbols = std::function<void(std::int64_t symbols)>;

using VocabularyKind = config::Vocabulary;
using mneme::to_word;

// How a word vocabulary is built.
struct WordOptions {
  bool add_eos = true;         // one <eos> at each line end
  std::int64_t min_count = 1;  // words seen less often become <unk>
  std::int64_t max_size = 0;   // most ids, <eos> and <unk> included; 0 = no bound
};

// The order of a character vocabulary's ids.
enum class CharacterOrder {
  kCodePoint,  // by code point
  kCount,      // by falling count, equal counts by first occurrence [prep_text8.py]
};

// Counts of one encoded text.
struct EncodeCounts {
  std::int64_t tokens = 0;
  std::int64_t lines = 0;
  std::int64_t words = 0;  // whitespace-separated; <eos> is none
  // Words that became <unk> because the vocabulary lacks them; of a tokenizer: characters that
  // became <unk> or, where it has none, were left out.
  std::int64_t unknown = 0;
  std::int64_t bytes = 0;       // that the tokens stand for
  std::int64_t characters = 0;  // likewise: code points, or bytes for a byte vocabulary

  void add(const EncodeCounts& other);
  // Share of the words that became <unk>, in 0 .. 1; 0 without words.
  [[nodiscard]] double unknown_share() const {
    return words == 0 ? 0.0 : static_cast<double>(unknown) / static_cast<double>(words);
  }
};

// A fixed set of symbols with ids 0 .. size()-1.
//
// byte: 256 ids, the bytes themselves; takes any file. Or the bytes that some texts hold, without
//   the newline, which is then left out of every text [prep_enwik8.py].
// char: the code points of the training text. A character outside it is an error with its place,
//   not an <unk>: character models are compared by bits per character, which an <unk> would make
//   meaningless.
// word: whitespace-separated words [Transformer-XL, utils/vocabulary.py]: <eos> has id 0 (when
//   lines end in one), then words by falling count, equal counts by first occurrence. <unk> keeps
//   the place its count gives it when the training text contains it; otherwise it is added as the
//   last id, so that any other text can be encoded.
// tokenizer: that of a pretrained model (tokenizer.hpp). Special tokens that a text has written out
//   become their ids; none is added. A symbol is the bytes that an id stands for inside a text,
//   which may be a part of a character.
class Vocabulary {
 public:
  [[nodiscard]] static Vocabulary bytes();
  // The bytes of the texts but the newline, by falling count, equal counts by first occurrence.
  // Error (kUsage) for texts without such a byte.
  [[nodiscard]] static Vocabulary bytes_without_newline(std::span<const NamedText> texts,
                                                        const OnSymbols& on_symbols = nullptr);
  // Error (kUsage) for text that is not UTF-8 or has no character.
  [[nodiscard]] static Vocabulary characters(std::span<const NamedText> training,
                                             CharacterOrder order = CharacterOrder::kCodePoint,
                                             const OnSymbols& on_symbols = nullptr);
  // Error (kUsage) for text that is not UTF-8 or has no word, and for options out of range.
  [[nodiscard]] static Vocabulary words(std::span<const NamedText> training,
                                        const WordOptions& options = {},
                                        const OnSymbols& on_symbols = nullptr);

  // Of the tokenizer's files; messages of from_json() name them behind the source.
  [[nodiscard]] static Vocabulary pretrained(std::shared_ptr<const Tokenizer> tokenizer);

  // The same with the marks that it lacks as further symbols behind the last one. Marks are between
  // texts. In a text a word vocabulary finds a mark that is written out; other vocabularies never
  // give one.
  [[nodiscard]] Vocabulary with_marks(std::span<const std::string_view> marks) const;

  [[nodiscard]] VocabularyKind kind() const noexcept { return kind_; }
  // The tokenizer; null for other kinds.
  [[nodiscard]] const std::shared_ptr<const Tokenizer>& tokenizer() const noexcept {
    return tokenizer_;
  }
  [[nodiscard]] std::int64_t size() const noexcept {
    return static_cast<std::int64_t>(symbols_.size());
  }
  // True when a word vocabulary puts <eos> at each line end.
  [[nodiscard]] bool adds_eos() const noexcept { return adds_eos_; }
  // True when a byte vocabulary leaves newlines out of every text.
  [[nodiscard]] bool drops_newlines() const noexcept { return drops_newlines_; }
  // How often each id occurs in the text that the vocabulary was built from; empty when that is not
  // known: for bytes(), and for files of older programs.
  [[nodiscard]] const std::vector<std::int64_t>& counts() const noexcept { return counts_; }
  [[nodiscard]] std::int64_t marks() const noexcept { return marks_; }
  // True for the ids of marks, the last ones.
  [[nodiscard]] bool is_mark(std::int64_t id) const noexcept {
    return id >= size() - marks_ && id < size();
  }
  // The id of a symbol (a byte, a character or a word; a token as the tokenizer's vocabulary writes
  // it), if it has one.
  [[nodiscard]] std::optional<std::int32_t> find(std::string_view symbol) const;
  // The id of <unk>; word vocabularies have one, and tokenizers with a token of this name.
  [[nodiscard]] std::optional<std::int32_t> unknown_id() const;
  // The text of an id; Error (kUsage) when the id is out of range.
  [[nodiscard]] const std::string& symbol(std::int64_t id) const;

  // Passes the ids of a text to `sink`, without a flush. Error (kUsage) with file:line:column for
  // text that is not UTF-8 (all but byte) and for symbols that the vocabulary lacks (byte, char).
  [[nodiscard]] EncodeCounts encode(const NamedText& text, TokenSink& sink) const;
  // Appends the ids to `ids`.
  EncodeCounts encode(const NamedText& text, std::vector<std::int32_t>& ids) const;
  // The text of ids: bytes and characters joined, words separated by spaces and <eos> as a newline,
  // tokens as the tokenizer decodes them, special ones included.
  [[nodiscard]] std::string decode(std::span<const std::int32_t> ids) const;

  // SHA-256 of kind, settings and symbols, which decide the ids; the counts do not matter.
  [[nodiscard]] std::string sha256() const;
  // "word vocabulary of 267735 symbols, sha256 0123456789ab...", for messages.
  [[nodiscard]] std::string summary() const;
  // JSON with keys format, revision, kind, add_eos (word), bytes (byte without newline), symbols
  // (char, word), files (tokenizer: their texts by name) and, when there are any, counts and marks.
  [[nodiscard]] Json to_json() const;
  void save(const std::filesystem::path& path) const;
  // Reads what save() wrote. Error (kUsage) naming the file and what is wrong with it; Error (kRun)
  // when it cannot be read.
  [[nodiscard]] static Vocabulary load(const std::filesystem::path& path);
  [[nodiscard]] static Vocabulary from_json(const Json& json, const std::string& source);

  // Equal ids for every text; the counts do not matter.
  friend bool operator==(const Vocabulary& a, const Vocabulary& b) {
    return a.kind_ == b.kind_ && a.adds_eos_ == b.adds_eos_ &&
           a.drops_newlines_ == b.drops_newlines_ && a.symbols_ == b.symbols_ &&
           (a.kind_ != VocabularyKind::kTokenizer || a.sha256() == b.sha256());
  }

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const {
      return std::hash<std::string_view>{}(text);
    }
  };

  // Symbols that share an order: how often each was seen.
  struct Counted {
    std::string symbol;
    std::int64_t count = 0;
  };

  Vocabulary(VocabularyKind kind, std::vector<std::string> symbols);
  Vocabulary(VocabularyKind kind, std::vector<Counted> symbols);
  void index_symbols();
  static Vocabulary read_bytes(const Json& json, const std::string& source);
  void read_counts(const Json& json, const std::string& source);
  [[noreturn]] void refuse_symbol(const NamedText& text, std::size_t offset,
                                  std::size_t bytes) const;
  // Of each kind: passes the ids and counts lines, words that were read as such, and unknown ones.
  void encode_bytes(const NamedText& text, TokenSink& sink, EncodeCounts& counts) const;
  void encode_characters(const NamedText& text, TokenSink& sink, EncodeCounts& counts) const;
  void encode_words(const NamedText& text, TokenSink& sink, EncodeCounts& counts) const;
  void encode_pretrained(const NamedText& text, TokenSink& sink, EncodeCounts& counts) const;
  static Vocabulary read_tokenizer(const Json& files, const std::string& source);
  static Vocabulary read_symbols(const Json& json, const std::string& source);
  static Vocabulary read_marks(Vocabulary vocabulary, const Json& json, const std::string& source);
  // Of a tokenizer with marks.
  [[nodiscard]] std::string decode_with_marks(std::span<const std::int32_t> ids) const;

  VocabularyKind kind_;
  bool adds_eos_ = false;
  bool drops_newlines_ = false;
  std::int64_t marks_ = 0;
  std::vector<std::string> symbols_;  // then the marks
  std::vector<std::int64_t> counts_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  // Ids of one-byte symbols, -1 = none: most characters of most texts.
  std::array<std::int32_t, 256> byte_ids_{};
  std::unordered_map<std::string, std::int32_t, Hash, std::equal_to<>> ids_;
};

// Reads data.vocabulary_file: what save() wrote, or, for the kind kTokenizer, also the files of a
// tokenizer (read_tokenizer_files). `key` names the path in messages. Error (kUsage) when there is
// no such file, or as Vocabulary::load and Tokenizer say; the kind is not compared.
[[nodiscard]] Vocabulary load_vocabulary(const std::filesystem::path& path, VocabularyKind kind,
                                         const std::string& key);

}  // namespace mneme::data
