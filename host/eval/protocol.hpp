// The settings of an evaluation that its perplexity depends on.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>

#include "host/backbone/model.hpp"
#include "host/base/text.hpp"
#include "host/config/experiment.hpp"
#include "host/data/dataset.hpp"
#include "host/data/stream.hpp"
#include "host/memory/finite_watch.hpp"
#include "host/memory/segment/segment_run.hpp"
#include "host/memory/state/stack_state.hpp"

namespace mneme::eval {

// The unit of a token, the counts that normalise a perplexity, and the context of the model. Counts
// are of the whole split, whatever part of it was evaluated; 0 = not known (ids and generated tasks
// have no text).
struct Protocol {
  std::string unit;                        // of text, what a token is: "byte", "char", "word"
  std::string reset;                       // data.reset: "document", "segment", "never"; "" = task
  std::int64_t segment = 0;                // T, tokens
  std::int64_t lanes = 0;                  // B; each starts with an empty memory
  std::int64_t context_rows = 0;           // memory rows that a token may attend to besides its own
                                           // segment, at most
  std::int64_t read_rows = 0;              // rows that reads of memories reach beside them, at most
  std::int64_t tokens = 0;                 // of the split
  std::int64_t dropped = 0;                // of them, the remainder of cutting into equal lanes
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

// The protocol of evaluating a split as the experiment says; `context_rows` is left 0 (evaluate()
// knows it). Without a corpus, as of generated tasks, only segment and lanes are known.
[[nodiscard]] Protocol protocol_of(const data::Dataset& dataset, data::Split split,
                                   const config::Experiment& experiment);

// Every field under its name; unknown counts are left out, and read_rows where nothing is read.
[[nodiscard]] Json to_json(const Protocol& protocol);

// What a token could see, for tables: "<segment> + <context rows>", with " + <n> read".
[[nodiscard]] std::string context_text(const Protocol& protocol);

// Segments of token ids as tensors on a device.

// Copies a segment to the device: input and target i64 [B,T], target -1 where there is none;
// valid_count is left empty when no lane is padded. Error (kRun) naming lane, position and id for
// ids outside 0 .. vocabulary-1.
[[nodiscard]] backbone::Batch make_batch(const data::TokenSegment& segment, std::int64_t vocabulary,
                                         at::Device device);

// Finds where a segment's values stop being finite.

struct NotFinite {
  std::string place;       // "" = everything is finite
  bool is_plugin = false;  // a hook produced it from finite inputs
};

// A tensor of the memory's state that holds NaN before the segment; "0.org.x.1.mean" in its place.
[[nodiscard]] NotFinite find_in_state(const memory::StackState& state);

// Passes a segment through the model and names the first thing that is not finite, in the order of
// computation: a hook's result, the embedding, a layer's attention block, a layer's output, the
// loss, an auxiliary loss. For example "layer 3 (from 0), output of the attention block, lane 0" or
// "result of plugin org.x, tier 0, hook read, layer 1, lane 2". `run` was begun with `watch`; it is
// not committed.
[[nodiscard]] NotFinite find_not_finite(backbone::Model& model, const backbone::Batch& batch,
                                        memory::SegmentRun& run, const memory::FiniteWatch& watch);

}  // namespace mneme::eval
