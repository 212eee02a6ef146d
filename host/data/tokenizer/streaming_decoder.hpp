// Text of ids as they come, for generation.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "host/data/tokenizer/tokenizer.hpp"

namespace mneme::data {

// Returns text as soon as it is complete: never a part of a character, and nothing that a later
// token could change. All that push() and finish() return is decode() of all ids, with one
// exception: where a run of byte-fallback tokens (<0xNN>) is not UTF-8 as a whole, decode() makes
// all its bytes U+FFFD, this only those that are no part of a character.
//
// Behind Fuse, ByteLevel or ByteFallback, a decoder's Replace and the end of its Strip see the
// whole text at once; where there are such steps, all text comes with finish().
class StreamingDecoder {
 public:
  explicit StreamingDecoder(std::shared_ptr<const Tokenizer> tokenizer, bool skips_special = true);
  ~StreamingDecoder();
  StreamingDecoder(StreamingDecoder&&) noexcept;
  StreamingDecoder& operator=(StreamingDecoder&&) noexcept;

  // True where all text comes with finish().
  [[nodiscard]] bool waits_for_end() const { return waits_for_end_; }
  // The text that this id completes. Error (kUsage) for an id out of range.
  [[nodiscard]] std::string push(std::int32_t id);
  // What is left, an incomplete character as U+FFFD; the next push() begins a new text.
  [[nodiscard]] std::string finish();

 private:
  struct Stage;

  [[nodiscard]] std::string pass(std::vector<std::string> tokens, bool is_end);
  void begin();

  std::shared_ptr<const Tokenizer> tokenizer_;
  bool skips_special_;
  bool waits_for_end_ = false;
  bool is_first_ = true;
  std::vector<std::int32_t> ids_;  // all of them, where everything waits for the end
  std::vector<Stage> stages_;
};

}  // namespace mneme::data
