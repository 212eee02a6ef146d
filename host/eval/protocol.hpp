// The settings of an evaluation that its perplexity depends on.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "host/base/text.hpp"
#include "host/config/experiment.hpp"
#include "host/data/dataset.hpp"
#include "host/data/stream/stream.hpp"
#include "host/memory/segment/segment_hooks.hpp"
#include "host/memory/state/stack_state.hpp"

namespace mneme::eval {

// The unit of a token, the counts that normalise a perplexity, and the context of the model. Counts
// are of the whole split, whatever part of it was evaluated; 0 = not known (ids and generated tasks
// have no text).
struct Protocol {
  std::string unit;                        // what a token is: to_word(VocabularyKind)
  std::string reset;                       // data.reset as it is written; "" = task
  std::int64_t segment = 0;                // T, tokens
  bool has_blocks = false;                 // segments are pieces of a text
  std::int64_t lanes = 0;                  // B; each starts with an empty memory
  std::int64_t context_rows = 0;           // memory rows that a token may attend to besides its own
                                           // segment, at most
  std::int64_t read_rows = 0;              // rows that reads of memories reach beside them, at most
  std::int64_t tokens = 0;                 // of the split
  std::int64_t dropped = 0;                // of them, the remainder of cutting into equal lanes
  std::int64_t targets = 0;                // that an evaluation to the split's end would count; 0 =
                                           // the data have no end
  std::int64_t words = 0;                  // whitespace-separated; <eos> is none
  std::int64_t bytes = 0;                  // of the text
  std::int64_t characters = 0;             // code points; bytes for a byte vocabulary
  std::int64_t unknown = 0;                // words of the text that became <unk>
  std::optional<std::int64_t> eos_id;      // of a vocabulary that puts <eos> at line ends
  std::optional<std::int64_t> unknown_id;  // of <unk>

  // Tokens of the split for one word, byte or character; 0 when unknown. A loss per word is the
  // loss per token times tokens_per_word().
  [[nodiscard]] double tokens_per_word() const;
  [[nodiscard]] double tokens_per_byte() const;
  [[nodiscard]] double tokens_per_character() const;
};

// The protocol of evaluating a split as the experiment says; `context_rows` (evaluate_stream() knows it)
// and `targets` (the stream knows it) are left 0. Without a corpus, as of generated tasks, only
// segment and lanes are known.
[[nodiscard]] Protocol protocol_of(const data::Dataset& dataset, data::Split split,
                                   const config::Experiment& experiment);

// Every field under its name; unknown counts are left out, and read_rows where nothing is read.
[[nodiscard]] Json to_json(const Protocol& protocol);

// What a token could see, for tables: "<segment> + <context rows>", with " + <n> read".
[[nodiscard]] std::string context_text(const Protocol& protocol);

}  // namespace mneme::eval
