// Feeds a text to a model and its memory, token by token or in chunks.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "host/backbone/model.hpp"
#include "host/generate/generator.hpp"
#include "host/memory/stack.hpp"

namespace mneme::generate {

// Holds the state after the committed segments, and the open segment. Not movable, because the open
// segment refers to the state. One thread at a time. Cannot be used after an error.
class TokenFeeder {
 public:
  // The saved form: the committed state, and the open segment's tokens, split into the steps in
  // which they were fed. Feeding them in the same steps gives the same bits on the CPU.
  struct Saved {
    memory::StackState::Saved state;  // with the keys and values that blocks keep
    std::vector<at::Tensor> steps;    // i64 [B,n]
    std::int64_t lanes = 1;
    std::int64_t tokens = 0;
  };

  // An empty text in one lane. Both outlive the session. Puts the model into evaluation mode.
  TokenFeeder(backbone::Model& model, memory::Stack& stack);
  // Errors: Error (kUsage) as Stack::restore.
  TokenFeeder(backbone::Model& model, memory::Stack& stack, const Saved& saved);
  ~TokenFeeder();
  TokenFeeder(const TokenFeeder&) = delete;
  TokenFeeder& operator=(const TokenFeeder&) = delete;

  [[nodiscard]] std::int64_t lanes() const { return state_.lanes(); }
  // Tokens fed, of each lane.
  [[nodiscard]] std::int64_t tokens() const { return tokens_; }
  // Those of them in the open segment.
  [[nodiscard]] std::int64_t held() const;
  [[nodiscard]] const memory::StackState& state() const { return state_; }

  // Feeds ids [B,n] in steps that end where a segment has `segment` tokens; there it is closed. An
  // open segment that has as many already is closed first. Returns the last layer's output after
  // the newest token, [B,D]. Errors: what the model and hooks throw.
  at::Tensor feed(const at::Tensor& ids, std::int64_t segment);
  // One lane becomes `lanes` equal ones, lane i with stream i of random numbers: what follows in a
  // lane does not depend on how many there are.
  void multiply(std::int64_t lanes);
  [[nodiscard]] Saved save() const;

 private:
  at::Tensor step(const at::Tensor& ids);
  void close();

  backbone::Model& model_;
  memory::Stack& stack_;
  memory::StackState state_;
  std::unique_ptr<memory::SegmentRun> run_;  // of the open segment; null = none
  std::unique_ptr<backbone::OpenSegment> open_;
  std::vector<at::Tensor> steps_;
  std::int64_t tokens_ = 0;
};

// Conversations on disk: a text that another process continues.
//
// A safetensors file: state/<name> (the memory's slots, queues, and the keys and values that are
// kept of them), open (i64 [1,n], the open segment's tokens). Metadata: format, revision,
// identity.<key>, state (JSON: counters), steps (JSON: lengths in which the open segment was fed),
// lanes, tokens, pending, seed, checksums as a checkpoint's.

// What a conversation must be continued with: keys such as "weights" or "vocabulary" with values to
// compare.
using Identity = std::map<std::string, std::string>;

// Writes atomically. Error (kRun) when the file cannot be written.
void write_conversation(const std::filesystem::path& path, const Generator::Saved& saved,
                        const Identity& identity);

// Reads what write_conversation wrote. Error (kUsage) when one of the identity's values is another
// than the file's, naming the key and both; Error (kRun) for a file that is none of these, that is
// damaged, or whose contents contradict each other: ids outside the vocabulary, steps that do not
// add up to the open segment. TokenFeeder checks the memory's state.
[[nodiscard]] Generator::Saved read_conversation(const std::filesystem::path& path,
                                                 const Identity& identity, std::int64_t vocabulary);

}  // namespace mneme::generate
