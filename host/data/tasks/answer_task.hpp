// Tasks made of generated sequences: a prompt and the answer that the model has to predict.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "host/base/random.hpp"
#include "host/config/experiment.hpp"
#include "host/data/stream/stream.hpp"

namespace mneme::data {

// A token that a model is asked for.
struct Question {
  std::int64_t place = 0;  // of the token in its sequence, at least 1
  // The newest place before it that says what it is; where several places together do, the oldest
  // of them; -1 = none, or not known.
  std::int64_t source = -1;
  std::int64_t target = -1;  // the id that is asked for, where it is not that of the token
};

// What all sequences of a task share.
struct AnswerShape {
  // Number of token ids, V. There is no padding id: `TokenSegment::valid` says where lanes are
  // padded.
  std::int64_t vocabulary = 0;
  std::int64_t prompt = 0;  // P: tokens before the answer's first one
  std::int64_t answer = 0;  // A
  // The task's own sizes beside data.sequences, by the names of their keys.
  std::vector<std::pair<std::string, std::int64_t>> sizes = {};
  // The task's own settings that are words.
  struct Word {
    std::string key;
    std::string_view word;
    std::int64_t number;  // in stored positions of streams
  };
  std::vector<Word> words = {};
  std::int64_t questions = answer;       // of a sequence
  std::int64_t first_question = prompt;  // no sequence has a question before this place
  bool has_sources = true;               // questions have one, or are known to have none

  // P + A - 1: what a model reads; the answer's last token is only predicted.
  [[nodiscard]] std::int64_t inputs() const { return prompt + answer - 1; }
};

struct AnswerSequence {
  std::vector<std::int64_t> ids;  // P of the prompt, then A of the answer
  // Every token that is asked for, by place: always the last A tokens, and maybe earlier ones. The
  // last A are always those of `ids`.
  std::vector<Question> questions;
  // The groups to which a sequence belongs, for evaluations that are split by them: name -> group,
  // such as "depth" -> "0.2-0.3". The names are the same for all sequences of a task.
  std::map<std::string, std::string> slices = {};
};

// What one task is: `draw` gets the random numbers of one sequence. A new task is in the file of its
// kinds, in host/config (its word and settings in task_settings.hpp, its keys in
// sections/task_section.cpp), and in report::chance, which else gives it 0.
struct AnswerKind {
  AnswerShape (*shape_of)(const config::DataConfig& data);
  AnswerSequence (*draw)(const config::DataConfig& data, Random& random);
};

// All sequences of a task are equally long. Sequence `index` of a split depends on data.seed, the
// split's name and its index alone, so it is the same however sequences are batched, ordered or
// cut. Immutable; any thread.
class AnswerTask {
 public:
  // Error (kUsage) naming the key for sizes of which no sequence can be made
  // (config::find_size_problem).
  AnswerTask(const config::DataConfig& data, const AnswerKind& kind);

  [[nodiscard]] const config::DataConfig& data() const { return data_; }
  [[nodiscard]] const AnswerShape& shape() const { return shape_; }
  [[nodiscard]] AnswerSequence sequence(std::string_view split, std::int64_t index) const;
  // Sequences of "train", "valid" or "test".
  [[nodiscard]] std::int64_t count(std::string_view split) const;

 private:
  config::DataConfig data_;
  AnswerKind kind_;
  AnswerShape shape_;
};

// Tasks in files of their own.
[[nodiscard]] AnswerKind sorting_kind();
[[nodiscard]] AnswerKind digit_sorting_kind();
[[nodiscard]] AnswerKind state_tracking_kind();
[[nodiscard]] std::map<config::Task, AnswerKind> in_context_kinds();

// The task that data.task names; nullptr when it is not one with an answer. Errors as AnswerTask's.
[[nodiscard]] std::unique_ptr<AnswerTask> make_answer_task(const config::DataConfig& data);

// The words of data.task for which there is one.
[[nodiscard]] std::vector<std::string> answer_task_words();

// All symbols 0 .. alphabet-1 by falling frequency in `tokens`; among equally frequent ones the
// symbol seen first comes first; symbols that do not occur come last, by id.
[[nodiscard]] std::vector<std::int64_t> symbols_by_frequency(std::span<const std::int64_t> tokens,
                                                             std::int64_t alphabet);

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
// the segment, Source::kNone when it has none, else Source::kOutside.
//
// Training takes the sequences in an order that is drawn anew for each epoch from data.seed and
// options.seed; evaluation takes them as they are numbered. TokenSegment::document is the number.
class AnswerStream : public CountedStream {
 public:
  // `split` is "train", "valid" or "test". Errors (kUsage) as check_stream_options and AnswerCut.
  AnswerStream(std::shared_ptr<const AnswerTask> task, std::string split,
               const StreamOptions& options);

  bool next(TokenSegment& segment) override;
  [[nodiscard]] std::int64_t segments_per_epoch() const override {
    return batches_ * cut_.segments();
  }
  [[nodiscard]] std::int64_t targets_per_epoch() const override {
    return count_ * task_->shape().questions;
  }
  [[nodiscard]] std::int64_t tokens_between_resets() const override {
    return task_->shape().inputs();
  }
  // The last one of a batch, and before it those that may hold a question: where a task asks
  // earlier in the sequence, a segment of a small batch may happen to have none.
  [[nodiscard]] std::int64_t target_segments_per_epoch() const override;

 private:
  // The sequences of one batch, by lane; empty where there is none.
  struct Batch {
    std::int64_t number = -1;             // counted over epochs
    std::vector<std::int64_t> documents;  // the sequences' numbers
    std::vector<AnswerSequence> sequences;
  };

  void load_batch(std::int64_t number);
  void fill(std::int64_t lane, std::int64_t part, TokenSegment& segment) const;
  void shuffle(std::int64_t epoch);
  [[nodiscard]] std::vector<PositionField> position_fields() const override;

  std::shared_ptr<const AnswerTask> task_;
  std::string split_;
  StreamOptions options_;
  AnswerCut cut_;
  std::int64_t count_;               // sequences of an epoch
  std::int64_t batches_;             // of an epoch
  Batch batch_;                      // a cache
  std::vector<std::int64_t> order_;  // cached: the order of training in epoch order_epoch_
  std::int64_t order_epoch_ = -1;
};

}  // namespace mneme::data
