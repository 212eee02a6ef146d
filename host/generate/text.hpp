// The text around a generation: prompts as tokens, the text that ends it, and tokens as text.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "host/data/text/text.hpp"
#include "host/data/tokenizer/streaming_decoder.hpp"
#include "host/data/vocabulary/vocabulary.hpp"

namespace mneme::generate {

struct Prompt {
  std::vector<std::int32_t> ids;
  std::int64_t unknown = 0;  // words, of a tokenizer characters, that became <unk>
  // The first different ones, and how many more there are: "\"zyx\" at 1:5, \"yx\" at 1:9".
  std::string unknown_list;
  std::int64_t unknown_words = 0;  // different ones, of a word vocabulary
};

// The tokens of a prompt. Lines end as in a corpus, but the last one only where the text says so: a
// prompt is continued, not closed. Without `keeps_eos` a word vocabulary's <eos> are left out
// [LaMemo, generation protocol]. Error (kUsage) naming the first characters or bytes that the
// vocabulary lacks and their places, and for text that is not UTF-8 (char, word).
[[nodiscard]] Prompt encode_prompt(const data::Vocabulary& vocabulary, const data::NamedText& text,
                                   bool keeps_eos = true);

// "1,2,3": ids for models without a text vocabulary. Error (kUsage), which begins with `where`, for
// what is no list of ids.
[[nodiscard]] Prompt parse_prompt_ids(std::string_view list,
                                      const std::string& where = "--prompt-ids");

// --- A text that ends the generation ---

// Lets pieces of a text through until one of the stop texts appears, which may begin in one piece
// and end in another; it and what follows are held back. Of several the one that is whole first
// counts, the longest of those that end together. An empty stop text never appears.
class StopText {
 public:
  explicit StopText(std::vector<std::string> stops);

  // The text that may be shown now: all that cannot be part of a stop text.
  [[nodiscard]] std::string add(std::string_view piece);
  [[nodiscard]] bool is_found() const { return is_found_; }
  // What is still held back when the text ends without one; empty when one was found.
  [[nodiscard]] std::string rest();

 private:
  std::vector<std::string> stops_;
  std::string held_;  // the text's end, a beginning of a stop text
  bool is_found_ = false;
};

// --- Generated tokens as text, token by token ---

// What follows the text so far, for one text. Bytes and characters as they are; words separated by
// blanks, <eos> as a newline; tokens of a tokenizer as whole characters, special ones too; without
// a vocabulary the ids themselves, separated by blanks.
//
// Detokenised, words are joined as they were before the Moses tokeniser and WikiText took them
// apart: "@-@", "@,@" and "@.@" become "-", "," and "." without blanks, closing punctuation, "'s"
// and "n't" join the word before, opening brackets and currency signs the word after, curly quotes
// on their sides, and straight double quotes open and close in turn within a line. What the
// tokeniser lost (an opening apostrophe, say) is not restored.
class TokenWriter {
 public:
  // vocabulary: outlives the writer; null = ids.
  TokenWriter(const data::Vocabulary* vocabulary, bool detokenises);

  // Tokens before the text, which are not written themselves: a quotation that they open is closed
  // in the text, which begins without a blank.
  void follow(const std::vector<std::int32_t>& ids);
  [[nodiscard]] std::string add(std::int32_t id);
  // What was held back of a character that is not complete, as U+FFFD.
  [[nodiscard]] std::string end();

 private:
  std::string add_word(std::string_view word);
  std::string add_detokenised(std::string_view word);

  const data::Vocabulary* vocabulary_;
  bool detokenises_;
  std::optional<data::StreamingDecoder> decoder_;  // of a tokenizer
  std::string followed_;          // text of follow() that the decoder gives back at its end
  bool needs_blank_ = false;      // before the next word
  bool is_in_quotation_ = false;  // of straight double quotes
};

// --- One generated text while it grows ---

class SampleText {
 public:
  // vocabulary: outlives the text; null = ids. stops: the texts that end it.
  SampleText(const data::Vocabulary* vocabulary, bool detokenises, std::vector<std::string> stops)
      : writer_(vocabulary, detokenises), stop_(std::move(stops)) {}

  // As TokenWriter's.
  void follow(const std::vector<std::int32_t>& ids) { writer_.follow(ids); }
  // What may be shown because of this token.
  std::string add(std::int32_t id) {
    ids_.push_back(id);
    return keep(stop_.add(writer_.add(id)));
  }
  // The token is the end of the text, and is not shown.
  void end_with(std::int32_t id) {
    ids_.push_back(id);
    is_at_end_ = true;
  }
  // What may be shown now that no token follows.
  std::string end() { return keep(stop_.add(writer_.end()) + stop_.rest()); }

  [[nodiscard]] bool is_stopped() const { return stop_.is_found(); }
  [[nodiscard]] bool is_at_end() const { return is_at_end_; }
  [[nodiscard]] const std::vector<std::int32_t>& ids() const { return ids_; }
  // Everything shown so far.
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  std::string keep(std::string piece) {
    text_ += piece;
    return piece;
  }

  TokenWriter writer_;
  StopText stop_;
  bool is_at_end_ = false;
  std::vector<std::int32_t> ids_;
  std::string text_;
};

}  // namespace mneme::generate
