// Greedy decoding of tasks with an answer: how often the whole answer is right, and how fast.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "host/backbone/model.hpp"
#include "host/base/progress.hpp"
#include "host/base/text.hpp"
#include "host/data/tasks/answer_task.hpp"
#include "host/memory/stack/stack.hpp"
#include "host/memory/state/stack_state.hpp"

namespace mneme::eval {

struct DecodeOptions {
  std::string split = "valid";     // "train", "valid" or "test"
  std::int64_t lanes = 1;          // sequences of a batch
  std::int64_t segment = 1;        // tokens of a segment of the prompt, with memory
  std::int64_t max_sequences = 0;  // decodes the split's first ones; 0 = all
};

// What was decoded.
struct Decoded {
  std::int64_t sequences = 0;
  std::int64_t tokens = 0;             // of answers
  std::int64_t correct_sequences = 0;  // every token right
  std::int64_t correct_tokens = 0;
  std::int64_t fed_tokens = 0;  // tokens that went through the model
  double seconds = 0.0;         // model, memory and arg max; not the making of the prompts
  std::vector<std::int64_t> predictions;  // [sequences, A], in the split's order

  [[nodiscard]] double sequence_accuracy() const;  // in 0 .. 1; 0 when nothing was decoded
  [[nodiscard]] double token_accuracy() const;
};

// Decodes a split batch by batch; each batch starts from an empty memory.
//
// With memory the prompt is fed once, in segments of at most `segment` tokens, then one predicted
// token at a time, each a segment of its own. Without any tier nothing is kept, so every step feeds
// prompt and predictions again as one segment. For a tier that is cut-invariant and drops nothing
// (a segment cache with at least P + A - 2 rows) both compute the same function of the same tokens
// [Transformer-XL article]. Other tiers were not trained on segments of one token: their numbers
// hold for this protocol only.
//
// One thread at a time. Deterministic on CPU. Leaves the model in evaluation mode.
class Decoder {
 public:
  // Keeps references to model and stack. Error (kUsage) for options below 1, and for a task whose
  // vocabulary is not the model's.
  Decoder(backbone::Model& model, memory::Stack& stack,
          std::shared_ptr<const data::AnswerTask> task, DecodeOptions options,
          const Clock& clock = steady_clock());

  [[nodiscard]] std::int64_t batches() const;
  // Decodes the next batch into result(); false when all are done. Errors: what Model::forward and
  // hooks throw; the batch is then not counted.
  bool run_batch();
  [[nodiscard]] const Decoded& result() const { return result_; }

 private:
  [[nodiscard]] at::Tensor with_memory(const at::Tensor& prompt);
  [[nodiscard]] at::Tensor without_memory(const at::Tensor& prompt);
  // Feeds [B,T] as one segment and returns the arg max after its last token, [B,1].
  at::Tensor feed(memory::StackState& state, const at::Tensor& input);
  void count(const at::Tensor& predictions, const std::vector<std::int64_t>& answers);

  backbone::Model& model_;
  memory::Stack& stack_;
  std::shared_ptr<const data::AnswerTask> task_;
  DecodeOptions options_;
  const Clock& clock_;
  std::int64_t sequences_;  // to decode in all
  Decoded result_;
};

// Every number of it under its name, without the predictions.
[[nodiscard]] Json to_json(const Decoded& decoded);

}  // namespace mneme::eval
