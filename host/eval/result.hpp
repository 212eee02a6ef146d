// What an evaluation measured.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "host/base/text.hpp"
#include "host/eval/protocol.hpp"
#include "host/eval/question_scores.hpp"
#include "host/scores/sums.hpp"

namespace mneme::eval {

// --- Loss by place in the segment, distance from the document's start and word frequency ---

// The means and the sums that they are made of; numbers that are not finite become null.
[[nodiscard]] Json to_json(const scores::Sums& sums);

// The same targets in three groupings. Only buckets that hold a target are listed, by rising
// `from`.
struct Breakdown {
  // By place of the predicting token in its segment, from 0 to T-1.
  std::vector<scores::Bucket> place;
  // By the tokens of the target's own document before it, at least 1, in powers of two: 1, 2-3,
  // 4-7, ... Targets of streams that do not know their documents, and targets that begin a
  // document, are in none.
  std::vector<scores::Bucket> distance;
  // By the times the target's id occurs in the training data, in powers of ten: 1-9, 10-99, ...;
  // "<unk>" and "unseen" (never, or too rare to be counted) come first, with from = -1 and 0. Empty
  // when the counts are not known.
  std::vector<scores::Bucket> frequency;
};

// {"position": {...}, "distance": {...}, "frequency": {...}}: of each the arrays name, from,
// tokens, nll, correct, equally long; an empty list is left out.
[[nodiscard]] Json to_json(const Breakdown& breakdown);

// Collects a breakdown target by target.
class BreakdownSums {
 public:
  BreakdownSums() = default;
  // `training_counts`: of every id in the training data; empty = unknown. `unknown_id`: of <unk>,
  // -1 = none.
  BreakdownSums(std::vector<std::int64_t> training_counts, std::int64_t unknown_id)
      : training_counts_(std::move(training_counts)), unknown_id_(unknown_id) {}

  // One target: its place, its distance (below 1 = not known), its id, its loss.
  void add(std::int64_t place, std::int64_t distance, std::int64_t id, double nll, bool is_correct);
  [[nodiscard]] Breakdown breakdown() const;

 private:
  std::vector<std::int64_t> training_counts_;
  std::int64_t unknown_id_ = -1;
  scores::BucketSums place_;
  scores::BucketSums distance_;
  scores::BucketSums frequency_;  // of frequency_bucket, but for <unk>
  scores::Sums unknown_;          // of <unk>
};

// An evaluation of one stream from an empty memory.
struct Result {
  Protocol protocol;
  scores::Sums total;
  // Of them, the targets that are <eos> at a line's end and those that are <unk>; absent when the
  // vocabulary has none.
  std::optional<scores::Sums> end_of_line;
  std::optional<scores::Sums> unknown;
  Breakdown breakdown;
  // By data::Source: kNone, kInside, kOutside; absent when the task knows no sources.
  std::optional<std::array<scores::Sums, 3>> by_source;
  // Of the task questions; accuracy() is then the share of right answers.
  std::optional<QuestionScores> questions;
  // Segments of full length in which every token but the last predicts one; of them the sum of
  // their mean losses over these tokens.
  std::int64_t blocks = 0;
  double block_loss = 0.0;
  std::map<std::string, double> metrics;  // "<tier>.<name>": mean over segments by target count
  std::map<std::string, double> losses;   // auxiliary losses likewise, before their weight
  std::int64_t segments = 0;
  std::int64_t lanes = 0;
  double seconds = 0.0;                      // of the whole pass, the device's work included
  std::int64_t state_bytes = 0;              // slots, queues and waiting rows: the largest seen
  std::int64_t final_state_bytes = 0;        // after the last segment
  std::int64_t cached_projection_bytes = 0;  // kept keys and values: the largest seen
  // The most that tensors on a GPU held at once; absent on the CPU.
  std::optional<std::int64_t> peak_device_bytes = {};

  [[nodiscard]] double loss() const { return total.loss(); }
  [[nodiscard]] double perplexity() const { return total.perplexity(); }
  [[nodiscard]] double accuracy() const { return total.accuracy(); }
  // The loss for another unit: loss() times the split's tokens for one unit [Protocol]. Per word as
  // a perplexity, per byte and per character also in bits; absent when the split's words, bytes or
  // characters are not known. Of questions bits_per_byte() has the bytes of the right answers that
  // were read.
  [[nodiscard]] std::optional<double> perplexity_per_word() const;
  [[nodiscard]] std::optional<double> perplexity_per_byte() const;
  // exp(mean loss of a block), as the infinity-former's released trainer computes it: a block of T
  // tokens predicts T - 1, the first token of a block is never predicted, and a shorter rest is
  // dropped. Of texts with whole blocks only.
  [[nodiscard]] std::optional<double> perplexity_per_block() const;
  [[nodiscard]] std::optional<double> bits_per_byte() const;
  [[nodiscard]] std::optional<double> bits_per_character() const;
  [[nodiscard]] double tokens_per_second() const;  // targets; 0 when no time was measured
  // Share of the split's targets that were counted; absent when all were, and of data without end.
  [[nodiscard]] std::optional<double> partial_share() const;
  // Accuracy on targets whose source lies before the segment; absent when unknown or when there is
  // no such target.
  [[nodiscard]] std::optional<double> outside_accuracy() const;
};

// Every number of a result under its name; numbers that are not finite become null. The breakdown,
// which is long, is left to its own to_json.
[[nodiscard]] Json to_json(const Result& result);

// The result's perplexities with all that they depend on, in a few sentences without line ends:
// normalisation, tokens counted and left out, context, memory reset, lanes, <eos> and <unk>.
[[nodiscard]] std::string statement(const Result& result);

}  // namespace mneme::eval
