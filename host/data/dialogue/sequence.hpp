// Dialogues as sequences of tokens: marks, types, what is predicted, pieces of a fixed length.
// [infinity-former, document-grounded dialogue]; docs/dialogue.md, "The sequence".
//
//   <doc> document <eos> <speaker2> turn 0 <speaker1> turn 1 <speaker2> turn 2 ...
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "host/data/dialogue/dialogue.hpp"

namespace mneme::data {

// The marks in the order in which they get ids.
inline constexpr std::array<std::string_view, 6> kDialogueMarks = {
    "<bos>", "<eos>", "<pad>", "<speaker1>", "<speaker2>", "<doc>"};

// Ids of the marks.
struct DialogueIds {
  std::int32_t bos = 0;
  std::int32_t eos = 0;
  std::int32_t pad = 0;
  std::int32_t speaker1 = 0;
  std::int32_t speaker2 = 0;
  std::int32_t doc = 0;
  std::int64_t vocabulary_size = 0;  // with the marks

  // The mark of turn `index`, counted from 0: speaker2 for even ones.
  [[nodiscard]] std::int32_t speaker_of(std::int64_t index) const {
    return index % 2 == 0 ? speaker2 : speaker1;
  }
};

// The ids of a text. It is called once for the document and once for each turn.
using TextEncoder = std::function<std::vector<std::int32_t>(std::string_view)>;

// Tokens [begin, end) of a sequence.
struct TokenRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;

  [[nodiscard]] std::int64_t size() const { return end - begin; }
  friend bool operator==(const TokenRange&, const TokenRange&) = default;
};

// Three lists of equal length n, and where the parts lie in them.
struct DialogueSequence {
  std::vector<std::int32_t> tokens;
  // The mark that a token belongs to: doc for <doc>, document and <eos>; for a turn's mark and text
  // the id of the mark.
  std::vector<std::int32_t> types;
  // 1 for the turns' texts, which an evaluation counts; 0 for the document and the marks. Training
  // predicts every token but the first.
  std::vector<std::uint8_t> is_utterance;
  TokenRange document;            // its text, without <doc> and <eos>; empty without a document
  std::vector<TokenRange> turns;  // with their marks

  [[nodiscard]] std::int64_t size() const { return static_cast<std::int64_t>(tokens.size()); }
};

// Without has_document the sequence begins with the first turn.
// Error (kUsage), naming the dialogue's place, when the encoder gives no id for a text, an id that
// is not of the vocabulary, or the id of <speaker1>, <speaker2> or <doc>, which would stand for a
// turn or document that is not there.
[[nodiscard]] DialogueSequence make_sequence(const Dialogue& dialogue, const DialogueIds& ids,
                                             const TextEncoder& encode, bool has_document = true);

// Cuts n tokens into pieces of `length`, counted from the end, in order: only the first piece may
// be shorter. `room` tokens at the end of the last piece stay free for what will be generated
// there, so the last piece has at most `length` - `room` tokens. No pieces for n = 0. Error
// (kUsage) unless length >= 1 and 0 <= room < length.
[[nodiscard]] std::vector<TokenRange> cut_from_end(std::int64_t tokens, std::int64_t length = 512,
                                                   std::int64_t room = 0);

// A turn to generate: what the model reads, and what it is compared with. Both are ranges of the
// dialogue's sequence; the answer is never in the context.
struct GenerationInstance {
  std::int64_t turn = 0;
  TokenRange context;    // from the sequence's start up to and with the turn's own mark
  TokenRange reference;  // the turn's text; dialogue.turns[turn].text is the same as text
};

// The instances of a dialogue in order: the turns that have at least `turns_before` others before
// them. Error (kUsage) for a negative number of turns.
[[nodiscard]] std::vector<GenerationInstance> generation_instances(const DialogueSequence& sequence,
                                                                   std::int64_t turns_before = 0);

}  // namespace mneme::data
