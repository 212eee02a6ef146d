// Byte pair encoding [Sennrich et al. 2016]: a vocabulary, and merges by rank.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace mneme::data {

// Settings of the member "model" of tokenizer.json beside vocabulary and merges.
struct BpeSettings {
  // What a character becomes that the vocabulary lacks; without it such a character is left out.
  std::optional<std::int32_t> unknown;
  bool fuses_unknown = false;        // neighbouring unknown characters become one token
  bool falls_back_to_bytes = false;  // such a character becomes <0xNN> for each of its bytes first
  bool ignores_merges = false;       // a word that is in the vocabulary is one token
};

// Two tokens become one. Earlier merges come first.
struct Merge {
  std::int32_t left = 0;
  std::int32_t right = 0;
  std::int32_t result = 0;
};

// Not movable: its index borrows the tokens. encode() changes the cache and must not run in two
// threads at once.
class Bpe {
 public:
  // `tokens`: different strings, the id is the place. Of equal pairs in `merges` the last counts.
  Bpe(std::vector<std::string> tokens, const std::vector<Merge>& merges,
      const BpeSettings& settings);
  Bpe(const Bpe&) = delete;
  Bpe& operator=(const Bpe&) = delete;

  [[nodiscard]] std::int32_t size() const { return static_cast<std::int32_t>(tokens_.size()); }
  [[nodiscard]] const std::string& token(std::int32_t id) const {
    return tokens_[static_cast<std::size_t>(id)];
  }
  [[nodiscard]] std::optional<std::int32_t> find(std::string_view token) const;

  // Appends the ids of a word, valid UTF-8, and returns how many of its characters the vocabulary
  // lacks and had to give up. Time is n log n in the word's length at worst; words of up to 64
  // bytes are kept, at most 2^16 of them.
  std::int64_t encode(std::string_view word, std::vector<std::int32_t>& ids);

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const {
      return std::hash<std::string_view>{}(text);
    }
  };
  // Where the ids of a word lie in kept_ids_.
  struct Kept {
    std::uint32_t begin = 0;
    std::uint32_t count = 0;
    std::int64_t unknown = 0;
  };

  void find_cuts(const std::vector<Merge>& merges);
  std::int64_t encode_part(std::string_view word, std::vector<std::int32_t>& ids);
  std::int64_t merge_word(std::string_view word, std::vector<std::int32_t>& ids);
  [[nodiscard]] std::int64_t append_symbols(std::string_view word,
                                            std::vector<std::int32_t>& symbols) const;
  void merge_short(std::vector<std::int32_t>& symbols) const;
  void merge_long(std::vector<std::int32_t>& symbols) const;
  [[nodiscard]] std::int32_t find_character(std::string_view character, char32_t value) const;
  // The rank of a pair, kNoRank when it is not merged.
  [[nodiscard]] std::uint32_t rank(std::int32_t left, std::int32_t right) const;

  std::vector<std::string> tokens_;
  BpeSettings settings_;
  std::unordered_map<std::string_view, std::int32_t> ids_;
  std::array<std::int32_t, 0x800> character_ids_{};  // of code points below, -1 = none
  std::array<std::int32_t, 256> byte_ids_{};         // of <0xNN>, -1 = none

  // Pair to rank by open addressing: a slot of pair kNoPair is free.
  struct Slot {
    std::uint64_t pair;
    std::uint32_t rank;
  };
  std::vector<Slot> slots_;
  std::vector<std::int32_t> results_;  // by rank

  // A text may be cut before the character U+2581, which sentencepiece writes for a space, if no
  // token contains it behind the character that precedes it: no merge reaches over such a place.
  bool has_cuts_ = false;
  std::unordered_set<char32_t> before_space_;  // characters that it follows in a token

  std::unordered_map<std::string, Kept, Hash, std::equal_to<>> kept_;
  std::vector<std::int32_t> kept_ids_;
  std::vector<std::int32_t> symbols_;  // of the word being merged
};

}  // namespace mneme::data
