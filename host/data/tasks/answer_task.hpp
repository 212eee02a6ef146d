// Tasks made of generated sequences: a prompt and the answer that the model has to predict.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "host/config/experiment.hpp"
#include "host/data/stream/stream.hpp"

namespace mneme::data {

// A token that a model is asked for.
struct Question {
  std::int64_t place = 0;    // of the token in its sequence, at least 1
  std::int64_t source = -1;  // the newest place before it that says what it is; -1 = not one place
};

// All sequences of a task are equally long. Sequence `index` of a split depends on data.seed, the
// split's name and its index alone, so it is the same however sequences are batched, ordered or
// cut. Immutable; any thread.
class AnswerTask {
 public:
  virtual ~AnswerTask() = default;
  AnswerTask(const AnswerTask&) = delete;
  AnswerTask& operator=(const AnswerTask&) = delete;

  // Number of token ids, V. There is no padding id: `TokenSegment::valid` says where lanes are
  // padded.
  [[nodiscard]] virtual std::int64_t vocabulary_size() const = 0;
  // P: tokens before the answer's first one.
  [[nodiscard]] virtual std::int64_t prompt_length() const = 0;
  // A.
  [[nodiscard]] virtual std::int64_t answer_length() const = 0;
  // P prompt ids, then A answer ids.
  [[nodiscard]] virtual std::vector<std::int64_t> sequence(std::string_view split,
                                                           std::int64_t index) const = 0;

  // Every token that is asked for, by place. By default those of the answer, without sources. A
  // task may ask earlier in the sequence, too; it always asks for the last A tokens.
  [[nodiscard]] virtual std::vector<Question> questions(std::string_view split,
                                                        std::int64_t index) const;
  // Questions of a sequence; the same for all. By default A.
  [[nodiscard]] virtual std::int64_t question_count() const { return answer_length(); }
  // No sequence has a question before this place. By default P.
  [[nodiscard]] virtual std::int64_t first_question() const { return prompt_length(); }
  // True when every question has a source.
  [[nodiscard]] virtual bool has_sources() const { return false; }
  // The groups to which a sequence belongs, for evaluations that are split by them: name -> group,
  // such as "depth" -> "0.2-0.3". The names are the same for all sequences of a task.
  [[nodiscard]] virtual std::map<std::string, std::string> slices(std::string_view split,
                                                                  std::int64_t index) const;
  // The task's own sizes beside settings(), by the names of their keys.
  [[nodiscard]] virtual std::vector<std::pair<std::string, std::int64_t>> sizes() const {
    return {};
  }

  // P + A - 1: what a model reads; the answer's last token is only predicted.
  [[nodiscard]] std::int64_t input_length() const { return prompt_length() + answer_length() - 1; }
  [[nodiscard]] config::Task task() const { return task_; }
  [[nodiscard]] const config::SequenceConfig& settings() const { return settings_; }
  [[nodiscard]] std::uint64_t seed() const { return seed_; }
  // Sequences of "train", "valid" or "test".
  [[nodiscard]] std::int64_t count(std::string_view split) const;

 protected:
  // Takes data.task, data.sequences and data.seed. Error (kUsage) naming the key for a length or
  // an alphabet below 2 (of tasks that have them), for a split without sequences, and for sizes
  // that do not fit together (config::find_size_problem).
  explicit AnswerTask(const config::DataConfig& data);

 private:
  config::Task task_;
  config::SequenceConfig settings_;
  std::uint64_t seed_;
};

// The task that data.task names; nullptr when it is not one with an answer. Errors as AnswerTask's.
[[nodiscard]] std::unique_ptr<AnswerTask> make_answer_task(const config::DataConfig& data);

// --- Segments of a task with an answer ---

// How the I = P + A - 1 inputs of a sequence are cut into c = ceil(I / T) segments of at most T
// tokens: from the front, but the last segment always holds all A places that predict the answer,
// so that one segment is trained on and the others only fill the memory. Where the rest would be
// shorter than A, the first segment is shortened by the missing tokens:
//   c = 1      [I]
//   otherwise  [T - max(0, A - r), T, ..., T, max(r, A)]  with r = I - (c-1) T
// At the published sizes of the sorting task (n 4000, 8000, 16000; T 1024; A 20) nothing is
// shortened.
class AnswerCut {
 public:
  // Error (kUsage) naming `section`.segment when the answer does not fit into a segment.
  AnswerCut(const AnswerTask& task, std::int64_t segment, std::string_view section);

  [[nodiscard]] std::int64_t segments() const { return segments_; }
  // First input of part k and their number.
  [[nodiscard]] std::int64_t begin(std::int64_t part) const;
  [[nodiscard]] std::int64_t length(std::int64_t part) const;

 private:
  std::int64_t inputs_;
  std::int64_t segment_;
  std::int64_t segments_;
  std::int64_t first_;  // tokens of the first segment
};

// Batches of B sequences side by side, one a lane: all lanes run through the segments of their
// sequence, then start the next ones from an empty memory (data.reset does not change that). The
// last batch of an epoch may have lanes without tokens (valid 0). Targets are the tokens of the
// task's questions only. Where all of them belong to the answer, segments but the last of a
// sequence have none. With sources, a target's is Source::kInside when its source is an input of
// the segment, else Source::kOutside.
//
// Training takes the sequences in an order that is drawn anew for each epoch from data.seed and
// options.seed; evaluation takes them as they are numbered. TokenSegment::document is the number.
class AnswerStream : public Stream {
 public:
  // `split` is "train", "valid" or "test". Errors (kUsage) as check_stream_options and AnswerCut.
  AnswerStream(std::shared_ptr<const AnswerTask> task, std::string split,
               const StreamOptions& options);

  bool next(TokenSegment& segment) override;
  [[nodiscard]] std::vector<std::int64_t> position() const override;
  void seek(const std::vector<std::int64_t>& position) override;
  [[nodiscard]] std::int64_t segments_per_epoch() const override {
    return batches_ * cut_.segments();
  }
  [[nodiscard]] std::int64_t targets_per_epoch() const override {
    return count_ * task_->question_count();
  }
  // The last one of a batch, and before it those that may hold a question: where a task asks
  // earlier in the sequence, a segment of a small batch may happen to have none.
  [[nodiscard]] std::int64_t target_segments_per_epoch() const override;

 private:
  // The sequences of one batch, by lane; empty where there is none.
  struct Batch {
    std::int64_t number = -1;  // counted over epochs
    std::vector<std::int64_t> sequences;
    std::vector<std::vector<std::int64_t>> ids;
    std::vector<std::vector<Question>> questions;
  };

  void load_batch(std::int64_t number);
  void fill(std::int64_t lane, std::int64_t part, TokenSegment& segment) const;
  void shuffle(std::int64_t epoch);
  [[nodiscard]] std::vector<PositionField> position_fields() const;

  std::shared_ptr<const AnswerTask> task_;
  std::string split_;
  StreamOptions options_;
  AnswerCut cut_;
  std::int64_t count_;                                       // sequences of an epoch
  std::int64_t batches_;                                     // of an epoch
  std::vector<std::pair<std::string, std::int64_t>> sizes_;  // of the task
  std::int64_t index_ = 0;
  Batch batch_;                      // a cache
  std::vector<std::int64_t> order_;  // cached: the order of training in epoch order_epoch_
  std::int64_t order_epoch_ = -1;
};

}  // namespace mneme::data
