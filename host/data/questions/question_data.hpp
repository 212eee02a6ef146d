// The questions of a split as tokens, and the stream that asks them. docs/tasks.md, "Own questions".
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "host/data/questions/questions.hpp"
#include "host/data/stream/stream.hpp"
#include "host/data/vocabulary/vocabulary.hpp"

namespace mneme::data {

// A prompt with an answer, or with one of the choices.
struct QuestionSequence {
  std::vector<std::int32_t> tokens;
  std::int64_t prompt = 0;    // tokens before the answer's first one; at least 1
  std::int64_t question = 0;  // its number in the file, from 0
  bool is_right = false;      // false: a wrong choice
  std::int64_t bytes = 0;     // of the answer's text

  // The tokens that are read: the last one is only predicted.
  [[nodiscard]] std::int64_t inputs() const { return static_cast<std::int64_t>(tokens.size()) - 1; }
  [[nodiscard]] std::int64_t answer() const { return inputs() + 1 - prompt; }
};

// Immutable after it is made.
struct QuestionData {
  std::filesystem::path file;
  std::vector<OwnQuestion> questions;
  // In the order of the questions; of each the wrong choices first and the right answer last.
  std::vector<QuestionSequence> sequences;
  std::int64_t unknown = 0;  // of the prompts, as EncodeCounts::unknown
  std::string sha256;        // of what was read: prompts, choices, answers, groups and units
};

// Prompt and answer are encoded together: the answer's tokens are those behind as many as the prompt
// has alone. Errors as Vocabulary::encode; Error (kUsage), with file and line, for a prompt without
// a token, for an answer that adds none and for one that the vocabulary lacks.
[[nodiscard]] std::shared_ptr<const QuestionData> encode_questions(
    std::vector<OwnQuestion> questions, const std::filesystem::path& file,
    const Vocabulary& vocabulary);

// Batches of B sequences side by side, one a lane, each from an empty memory (data.reset does not
// change that). A sequence is cut from its beginning into segments of T tokens, of which the last may
// be shorter, and begins so late that all sequences of a batch end in its last segment; until then a
// lane has valid 0. Sequences of a batch have nearly equally many segments. Targets are the tokens of
// the answers. TokenSegment::document is the number of the sequence in QuestionData::sequences.
//
// Training reads the right answers alone, dealt to batches anew for each epoch from data.seed and
// options.seed. Evaluation reads all sequences, those of the fewest segments first, the choices of a
// question one after another.
class QuestionStream final : public CountedStream {
 public:
  // Errors (kUsage) as check_stream_options; with file and line for an answer that is longer than a
  // segment.
  QuestionStream(std::shared_ptr<const QuestionData> data, std::uint64_t seed,
                 const StreamOptions& options);

  bool next(TokenSegment& segment) override;
  [[nodiscard]] std::int64_t segments_per_epoch() const override { return segments_; }
  // Of the right answers, which alone are counted.
  [[nodiscard]] std::int64_t targets_per_epoch() const override { return targets_; }
  // Of the first epoch: where answers lie in two segments, others may have a few more or less.
  [[nodiscard]] std::int64_t target_segments_per_epoch() const override { return target_segments_; }
  [[nodiscard]] std::int64_t tokens_between_resets() const override { return longest_; }

 private:
  struct Batch {
    std::size_t first = 0;  // its sequences in order_
    std::size_t count = 0;
    std::int64_t segments = 0;
  };

  [[nodiscard]] std::int64_t segments_of(const QuestionSequence& sequence) const;
  void check_answers() const;
  // Makes the batches of an epoch.
  void deal(std::int64_t epoch);
  void fill(std::int64_t lane, std::int64_t number, std::int64_t begin,
            TokenSegment& segment) const;
  [[nodiscard]] std::vector<PositionField> position_fields() const override;

  std::shared_ptr<const QuestionData> data_;
  std::uint64_t seed_;
  StreamOptions options_;
  std::vector<std::int64_t> longest_of_;  // of each question: its longest sequence, in segments
  std::int64_t epoch_ = -1;               // of the three below
  std::vector<std::int64_t> order_;       // numbers of sequences
  std::vector<Batch> batches_;
  std::vector<std::int64_t> begins_;  // of each batch: its first segment in the epoch
  std::int64_t segments_ = 0;
  std::int64_t targets_ = 0;
  std::int64_t target_segments_ = 0;
  std::int64_t longest_ = 0;  // tokens of a batch
};

}  // namespace mneme::data
