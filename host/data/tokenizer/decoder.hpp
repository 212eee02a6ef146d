// From tokens back to text.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "host/data/tokenizer/field.hpp"
#include "host/data/tokenizer/words/pattern.hpp"

namespace mneme::data {

// One step of a decoder.
struct ByteLevelStep {};     // characters of byte_alphabet.hpp become bytes, all tokens one text
struct ByteFallbackStep {};  // a run of tokens <0xNN> becomes the text of these bytes
struct FuseStep {};          // all tokens become one
struct ReplaceStep {
  Pattern pattern;
  std::string content;
};
// Takes up to `first` of a character from the beginning and up to `last` from the end of each.
struct StripStep {
  std::string character;
  std::size_t first = 0;
  std::size_t last = 0;
};
struct MetaspaceStep {
  std::string replacement;  // becomes a space, in the first token nothing
  bool drops_first = true;
};
using DecoderStep =
    std::variant<ByteLevelStep, ByteFallbackStep, FuseStep, ReplaceStep, StripStep, MetaspaceStep>;

// The member "decoder" of tokenizer.json: ByteLevel, ByteFallback, Fuse, Replace, Strip, Metaspace
// and Sequence.
class Decoder {
 public:
  // No decoder: tokens are joined by spaces.
  Decoder() = default;
  // Error (kUsage) naming the field for anything else.
  explicit Decoder(const Field& field);

  [[nodiscard]] bool is_empty() const { return is_empty_; }
  [[nodiscard]] const std::vector<DecoderStep>& steps() const { return steps_; }
  // The text of tokens. Bytes that are no UTF-8 become U+FFFD.
  [[nodiscard]] std::string decode(std::vector<std::string> tokens) const;
  // The bytes that one token stands for between others: without what is done at the ends of a text.
  [[nodiscard]] std::string bytes_inside(std::string token) const;

 private:
  void add(const Field& field);

  bool is_empty_ = true;
  double growth_ = 1.0;
  std::vector<DecoderStep> steps_;
};

// --- Parts of the steps, which decoding token by token (streaming_decoder.hpp) shares ---

// The byte of a token <0xNN>, or -1.
[[nodiscard]] int byte_of_token(std::string_view token);
// The bytes that a token of a byte-level vocabulary stands for: one that has another character, as
// added tokens may, stands for itself.
[[nodiscard]] std::string bytes_of_token(std::string_view token);
// A token without the replacement of spaces.
[[nodiscard]] std::string without_metaspace(std::string_view token, const MetaspaceStep& step,
                                            bool is_first);
[[nodiscard]] std::string stripped(std::string_view token, const StripStep& step);

// Moves the complete characters at the start of `bytes` to the result and leaves bytes that begin a
// character; what cannot be UTF-8 becomes U+FFFD, one for each longest part of a character [Unicode
// 3.9, substitution of maximal subparts].
[[nodiscard]] std::string take_complete(std::string& bytes);
// The same for the end of a text: what is left is no character either.
[[nodiscard]] std::string take_all(std::string& bytes);

}  // namespace mneme::data
