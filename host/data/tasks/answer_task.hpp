// Tasks made of generated sequences: a prompt, and the answer that a model is to give.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "host/config/experiment.hpp"

namespace mneme::data {

// All sequences of a task are equally long. Sequence `index` of a split depends on data.seed, the
// split's name and its index alone, so it is the same however sequences are batched, ordered or
// cut. Immutable; any thread.
class AnswerTask {
 public:
  virtual ~AnswerTask() = default;
  AnswerTask(const AnswerTask&) = delete;
  AnswerTask& operator=(const AnswerTask&) = delete;

  // Number of token ids, V. No id pads: where lanes are padded, `Segment::valid` says so.
  [[nodiscard]] virtual std::int64_t vocabulary_size() const = 0;
  // P: tokens before the answer's first one.
  [[nodiscard]] virtual std::int64_t prompt_length() const = 0;
  // A.
  [[nodiscard]] virtual std::int64_t answer_length() const = 0;
  // P prompt ids, then A answer ids.
  [[nodiscard]] virtual std::vector<std::int64_t> sequence(std::string_view split,
                                                           std::int64_t index) const = 0;

  // P + A - 1: what a model reads; the answer's last token is only predicted.
  [[nodiscard]] std::int64_t input_length() const { return prompt_length() + answer_length() - 1; }
  [[nodiscard]] config::Task task() const { return task_; }
  [[nodiscard]] const config::SequenceConfig& settings() const { return settings_; }
  [[nodiscard]] std::uint64_t seed() const { return seed_; }
  // Sequences of "train", "valid" or "test".
  [[nodiscard]] std::int64_t count(std::string_view split) const;

 protected:
  // Takes data.task, data.sequences and data.seed. Error (kUsage) naming the key for a length or
  // an alphabet below 2, and for a split without sequences.
  explicit AnswerTask(const config::DataConfig& data);

 private:
  config::Task task_;
  config::SequenceConfig settings_;
  std::uint64_t seed_;
};

// The task that data.task names; nullptr when it is not one with an answer. Errors as AnswerTask's.
[[nodiscard]] std::unique_ptr<AnswerTask> make_answer_task(const config::DataConfig& data);

}  // namespace mneme::data
