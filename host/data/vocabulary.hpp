// Vocabularies: what a token is, and its id.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "host/base/json.hpp"

namespace mneme::data {

inline constexpr std::string_view kEndOfLine = "<eos>";
inline constexpr std::string_view kUnknown = "<unk>";

enum class VocabularyKind { kByte, kChar, kWord };

// "byte", "char", "word".
[[nodiscard]] std::string_view to_word(VocabularyKind kind);

// A text and the name that messages give it.
struct NamedText {
  std::string source;     // the file's path
  std::string_view text;  // borrowed
};

// How a word vocabulary is built.
struct WordOptions {
  bool add_eos = true;         // one <eos> at each line end
  std::int64_t min_count = 1;  // words seen less often become <unk>
  std::int64_t max_size = 0;   // at most so many ids, <eos> and <unk> included; 0 = no bound
};

// What encoding a text met.
struct EncodeCounts {
  std::int64_t tokens = 0;
  std::int64_t lines = 0;
  std::int64_t unknown = 0;     // words that became <unk> because the vocabulary lacks them
  std::int64_t characters = 0;  // of the text: code points, or bytes for a byte vocabulary
};

// A fixed set of symbols with ids 0 .. size()-1.
//
// byte: 256 ids, the bytes themselves; takes any file.
// char: the code points of the training text, sorted. A character outside it is an error with its
//   place, not an <unk>: character models are compared by bits per character, which an <unk> would
//   make meaningless.
// word: whitespace-separated words [Transformer-XL, utils/vocabulary.py]: <eos> has id 0 (when
//   lines end in one), then words by falling count, equal counts by first occurrence. <unk> keeps
//   the place its count gives it when the training text contains it; otherwise it is added as the
//   last id, so that any other text can be encoded.
class Vocabulary {
 public:
  [[nodiscard]] static Vocabulary bytes();
  // Error (kUsage) for text that is not UTF-8 or has no character.
  [[nodiscard]] static Vocabulary characters(std::span<const NamedText> training);
  // Error (kUsage) for text that is not UTF-8 or has no word, and for options out of range.
  [[nodiscard]] static Vocabulary words(std::span<const NamedText> training,
                                        const WordOptions& options = {});

  [[nodiscard]] VocabularyKind kind() const noexcept { return kind_; }
  [[nodiscard]] std::int64_t size() const noexcept {
    return static_cast<std::int64_t>(symbols_.size());
  }
  // True when a word vocabulary puts <eos> at each line end.
  [[nodiscard]] bool adds_eos() const noexcept { return adds_eos_; }
  // The id of a symbol (a byte, a character or a word), if it has one.
  [[nodiscard]] std::optional<std::int32_t> find(std::string_view symbol) const;
  // The id of <unk>; only word vocabularies have one.
  [[nodiscard]] std::optional<std::int32_t> unknown_id() const;
  // The text of an id; Error (kUsage) when the id is out of range.
  [[nodiscard]] const std::string& symbol(std::int64_t id) const;

  // Appends the ids of a text to `ids`. Error (kUsage) with file:line:column for text that is not
  // UTF-8 (char, word) and for characters that the vocabulary lacks (char).
  EncodeCounts encode(const NamedText& text, std::vector<std::int32_t>& ids) const;
  // The text of ids: bytes and characters joined, words separated by spaces and <eos> as a newline.
  [[nodiscard]] std::string decode(std::span<const std::int32_t> ids) const;

  // JSON with keys format, revision, kind, add_eos (word) and symbols (char, word).
  [[nodiscard]] Json to_json() const;
  void save(const std::filesystem::path& path) const;
  // Reads what save() wrote. Error (kUsage) naming the file and what is wrong with it; Error (kRun)
  // when it cannot be read.
  [[nodiscard]] static Vocabulary load(const std::filesystem::path& path);
  [[nodiscard]] static Vocabulary from_json(const Json& json, const std::string& source);

  friend bool operator==(const Vocabulary& a, const Vocabulary& b) {
    return a.kind_ == b.kind_ && a.adds_eos_ == b.adds_eos_ && a.symbols_ == b.symbols_;
  }

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const {
      return std::hash<std::string_view>{}(text);
    }
  };

  Vocabulary(VocabularyKind kind, bool adds_eos, std::vector<std::string> symbols);
  EncodeCounts encode_bytes(const NamedText& text, std::vector<std::int32_t>& ids) const;
  EncodeCounts encode_characters(const NamedText& text, std::vector<std::int32_t>& ids) const;
  EncodeCounts encode_words(const NamedText& text, std::vector<std::int32_t>& ids) const;

  VocabularyKind kind_;
  bool adds_eos_;
  std::vector<std::string> symbols_;
  std::unordered_map<std::string, std::int32_t, Hash, std::equal_to<>> ids_;
};

}  // namespace mneme::data
