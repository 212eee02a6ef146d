// The data of an experiment, as its table [data] names them, from which streams are made.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <vector>

#include "host/base/text.hpp"
#include "host/config/experiment.hpp"
#include "host/data/corpus/corpus.hpp"
#include "host/data/dialogue/dialogue_data.hpp"
#include "host/data/questions/question_data.hpp"
#include "host/data/stream/stream.hpp"
#include "host/data/tasks/answer_task.hpp"
#include "host/data/vocabulary/vocabulary.hpp"

namespace mneme::data {

// What to read. Defaults: everything that is configured, with a vocabulary made from data.train.
struct DatasetOptions {
  std::vector<Split> splits = {kSplits.begin(), kSplits.end()};  // those not configured are ignored
  std::optional<Vocabulary> vocabulary = std::nullopt;           // of text: a run's stored one
};

// Whether targets of these data have a source (TokenSegment::source), told without reading them.
// Errors as AnswerTask's.
[[nodiscard]] bool has_sources(const config::DataConfig& data);

// Immutable after construction; streams may outlive it.
class Dataset {
 public:
  // Reads and encodes the files, or maps what `mneme data prepare` wrote. The training text is
  // needed for the vocabulary of words and characters unless one is given or data.vocabulary_file
  // names one; the training ids for vocabulary_size unless data.vocabulary_size is set. Error
  // (kUsage) as corpus.hpp, vocabulary.hpp and prepared.hpp say, for a vocabulary of another kind
  // or other settings than the data's, and for a task that is not available.
  explicit Dataset(const config::DataConfig& config, const DatasetOptions& options = {});

  // Number of token ids, V.
  [[nodiscard]] std::int64_t vocabulary_size() const noexcept { return vocabulary_size_; }
  // The vocabulary of text; nullptr for ids and generated tasks.
  [[nodiscard]] const Vocabulary* vocabulary() const noexcept {
    return vocabulary_ ? &*vocabulary_ : nullptr;
  }
  // How often each id occurs in the text that the vocabulary was built from; empty when that is not
  // known (Vocabulary::counts()), and for ids and generated tasks.
  [[nodiscard]] const std::vector<std::int64_t>& training_counts() const noexcept;
  // True when make_stream(split) works: the split's file was read, or the task generates it.
  [[nodiscard]] bool has(Split split) const noexcept;
  // True when segments carry `source`.
  [[nodiscard]] bool has_sources() const noexcept {
    return is_endless() || (answers_ && answers_->shape().has_sources);
  }
  // True when streams without max_segments and epochs never end, as the repeating motif's.
  [[nodiscard]] bool is_endless() const noexcept { return config_.task == config::Task::kMotif; }
  // The task whose sequences have an answer; nullptr for other data.
  [[nodiscard]] std::shared_ptr<const AnswerTask> answer_task() const { return answers_; }
  // The split's tokens; nullptr when it has no file. Valid while the dataset or a stream lives.
  [[nodiscard]] std::shared_ptr<const Corpus> corpus(Split split) const {
    return corpora_[index_of(split)];
  }

  // True when the task is dialogues.
  [[nodiscard]] bool has_dialogues() const noexcept {
    return config_.task == config::Task::kDialogue;
  }
  // The split's dialogues; nullptr for other tasks and when it has no file. Its `corpus` is
  // corpus(split).
  [[nodiscard]] std::shared_ptr<const DialogueData> dialogues(Split split) const {
    return dialogues_[index_of(split)];
  }

  // The split's questions; nullptr for other tasks and when it has no file.
  [[nodiscard]] std::shared_ptr<const QuestionData> questions(Split split) const {
    return questions_[index_of(split)];
  }

  // The marks whose embeddings are the types of tokens (TokenSegment::types), <doc> first; empty
  // where tokens have no types.
  [[nodiscard]] std::vector<std::int64_t> type_marks() const;

  // A stream over the split. Error (kUsage) when has(split) is false, and as LaneStream,
  // MotifStream, AnswerStream and QuestionStream say.
  [[nodiscard]] std::unique_ptr<Stream> make_stream(Split split,
                                                    const StreamOptions& options) const;

  // For reports: task, vocabulary, and per split files, sha256, tokens, documents, unknown words,
  // bytes, characters; or the task's settings.
  [[nodiscard]] Json describe() const;

 private:
  void open_text(const DatasetOptions& options);
  void open_prepared(const DatasetOptions& options);
  // Of vocabulary_; a tokenizer may have fewer ids than its model (data.vocabulary_size).
  void size_vocabulary();
  void open_ids(const DatasetOptions& options);
  void open_dialogues(const DatasetOptions& options);
  void open_questions(const DatasetOptions& options);

  config::DataConfig config_;
  std::int64_t vocabulary_size_ = 0;
  std::optional<Vocabulary> vocabulary_;
  std::shared_ptr<const AnswerTask> answers_;
  std::array<std::shared_ptr<const Corpus>, kSplits.size()> corpora_;
  std::array<std::shared_ptr<const DialogueData>, kSplits.size()> dialogues_;
  std::array<std::shared_ptr<const QuestionData>, kSplits.size()> questions_;
};

}  // namespace mneme::data
