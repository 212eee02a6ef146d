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

#include "host/base/error.hpp"
#include "host/data/tokenizer/token_model.hpp"

namespace mneme::data {

// Settings of the member "model" of tokenizer.json beside vocabulary and merges.
struct BpeSettings {
  // What a character becomes that the vocabulary lacks; without it such a character is left out.
  std::optional<std::int32_t> unknown = std::nullopt;
  // Where a file names a token for it that the vocabulary lacks: the error of a text that needs it.
  std::optional<ErrorText> missing_unknown = std::nullopt;
  bool fuses_unknown = false;        // neighbouring unknown characters become one token
  bool falls_back_to_bytes = false;  // such a character becomes <0xNN> for each of its bytes first
  bool ignores_merges = false;       // a word that is in the vocabulary is one token
};

// Two tokens become one. Earlier merges come first.
struct Merge {
  std::int32_t left = 0;
  std::int32_t right = 0;
  std::int32_t result = 0;
  bool ties = false;  // with the merge before it: of these the leftmost in a word comes first
};

class Bpe : public TokenModel {
 public:
  // Of equal pairs in `merges` the last counts. `hidden`: characters that are no tokens but may be
  // merged to one; their ids in `merges` follow those of the tokens. One that is left over is a
  // character that the vocabulary lacks.
  Bpe(std::vector<std::string> tokens, const std::vector<Merge>& merges,
      const BpeSettings& settings, const std::vector<std::string>& hidden = {});

  // Time is n log n in the word's length at worst; words of up to 64 bytes are kept, at most 2^16
  // of them. Error (kUsage) as settings.missing_unknown.
  std::int64_t encode(std::string_view word, std::vector<std::int32_t>& ids) override;

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
  std::int64_t append_merged(std::vector<std::int32_t>& ids) const;
  [[nodiscard]] std::int64_t append_symbols(std::string_view word,
                                            std::vector<std::int32_t>& symbols) const;
  void merge_short(std::vector<std::int32_t>& symbols) const;
  void merge_long(std::vector<std::int32_t>& symbols) const;
  [[nodiscard]] std::int32_t find_character(std::string_view character, char32_t value) const;
  // The rank of a pair, kNoRank when it is not merged; and the token that it becomes.
  [[nodiscard]] std::uint32_t rank(std::int32_t left, std::int32_t right) const {
    return find_pair(left, right).rank;
  }
  [[nodiscard]] std::int32_t merged(std::int32_t left, std::int32_t right) const {
    return find_pair(left, right).result;
  }

  BpeSettings settings_;
  std::array<std::int32_t, 0x800> character_ids_{};  // of code points below, -1 = none
  std::array<std::int32_t, 256> byte_ids_{};         // of <0xNN>, -1 = none

  // Pair to rank by open addressing: a slot of pair kNoPair is free.
  struct Slot {
    std::uint64_t pair;
    std::uint32_t rank;
    std::int32_t result;
  };
  [[nodiscard]] const Slot& find_pair(std::int32_t left, std::int32_t right) const;

  std::vector<Slot> slots_;
  std::vector<std::string> hidden_;  // by id behind the tokens
  std::unordered_map<std::string_view, std::int32_t> hidden_ids_;

  // A text may be cut before the character U+2581, which sentencepiece writes for a space, if no
  // token contains it behind the character that precedes it: no merge reaches over such a place,
  // unless that character is left out.
  bool has_cuts_ = false;
  std::unordered_set<char32_t> before_space_;  // characters that it follows in a token

  std::unordered_map<std::string, Kept, Hash, std::equal_to<>> kept_;
  std::vector<std::int32_t> kept_ids_;
  std::vector<std::int32_t> symbols_;  // of the word being merged
};

}  // namespace mneme::data
