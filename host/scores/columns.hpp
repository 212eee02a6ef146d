// The losses of an evaluation: of one segment as they are computed, of all targets as they are
// stored, and summed up in the samples that statistics resample.
//
// The way of a loss to an interval, by the files of host/:
//
//   eval/evaluator.cpp                  a segment: SegmentLosses
//   run/record/evaluation_recorder.cpp  all segments: Columns
//   scores/evaluation_files.cpp         sorted and written; stored_evaluation.cpp reads and checks them
//   report/comparison/read_run.cpp      chooses a run's stored evaluations
//   report/comparison/summarize.cpp     its samples, or the losses of its lanes: EvaluationSummary
//   report/differences/differences.cpp  what two arms have in common: stats::PairedDifferences
//   stats/paired.cpp                    the interval: stats::PairedResult, which Difference shows
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "host/data/stream/stream.hpp"
#include "host/scores/sums.hpp"

namespace mneme::scores {

// What an evaluation found at the places [B,T] of a segment, row-major.
struct SegmentLosses {
  std::vector<double> nll;             // nats; 0 where there is no target
  std::vector<std::uint8_t> correct;   // 1 = the target was the arg max; 0 without a target
  std::vector<std::int64_t> best;      // the arg max; -1 without a target
  std::vector<std::int64_t> document;  // of the target, its number; -1 = unknown
  std::vector<std::int64_t> distance;  // tokens of that document before the target; -1 = unknown
};

// The losses of all targets of an evaluation in equally long columns [n], an entry a target, in the
// order of the stream until sort().
//
// Losses are kept in 4 bytes as long as each is exactly a float, which those of a model in f32 or
// bf16 are; an entry takes 29 bytes then, 1 more with sources and 4 more with predictions.
class Columns {
 public:
  // `expected`: targets to come, at most; room for them is set aside, so that growing copies
  // nothing. 0 = unknown.
  explicit Columns(std::int64_t expected = 0);

  // Places without a target are passed over.
  void add(const data::TokenSegment& segment, const SegmentLosses& losses,
           bool keeps_predictions = false);

  [[nodiscard]] std::int64_t size() const { return static_cast<std::int64_t>(target.size()); }
  [[nodiscard]] double nll(std::size_t index) const {
    return is_wide() ? wide_nll[index] : static_cast<double>(narrow_nll[index]);
  }
  [[nodiscard]] bool is_wide() const { return !wide_nll.empty(); }
  // Sorts all columns by document, distance and lane.
  void sort();
  // The sums over all targets, added in the stream's order, in which eval::evaluate_stream adds them: so
  // they equal the evaluation's result bit for bit, before sort() and after it.
  [[nodiscard]] Sums total() const;

  std::vector<float> narrow_nll;  // nats; empty when is_wide()
  std::vector<double> wide_nll;
  std::vector<std::int32_t> target;    // the target's id
  std::vector<std::int32_t> document;  // its number in the split, a task's sequence; -1 = unknown
  std::vector<std::int32_t> distance;  // tokens of that document before the target; -1 = unknown
  std::vector<std::int32_t> lane;
  std::vector<std::int32_t> place;    // of the predicting token in its segment, from 0
  std::vector<std::int32_t> segment;  // its number in the stream, from 0
  // 1 = the target was the arg max; of questions: the last target of a right answer.
  std::vector<std::uint8_t> correct;
  std::vector<std::uint8_t> source;     // of data::Source; empty when the task knows none
  std::vector<std::int32_t> predicted;  // the arg max; empty when it was not kept, as for texts

 private:
  void add_nll(double value);
};

// What a sample holds, by the columns that tell samples apart.
enum class SampleUnit {
  kDocument,  // "document": of a text
  kSequence,  // "sequence": of a task, by its number in the split, which the column document holds
  kEpisode,   // "sequence": of a task that numbers its sequences in each lane; same document and
              // lane
  kLane,      // "lane": documents are unknown
  kQuestion,  // "question": of the task questions, by its number in the file
};

// Of fewer units intervals and p are rough, and below 6 no sign flips reach p = 0.05: blocks of the
// lanes say more (docs/statistics.md, "Blocks of a stream").
inline constexpr std::size_t kFewestDocuments = 10;

// Targets that belong together: what statistics resample, alone or with others of its `unit`.
struct Sample {
  std::string id;              // "valid/12"; of a lane "valid/lane3"; of an episode of a lane
                               // "valid/lane3/12". The same in every evaluation of the split
  std::int64_t document = -1;  // as in the column; -1 = unknown
  std::string sha256;          // first 16 hexadecimal digits, of the target ids in order as i32:
                               // samples of two evaluations hold the same targets when id and
                               // sha256 agree
  Sums sums;
  std::uint64_t seed = 0;              // train.seed
  std::map<std::string, Sums> slices;  // by where the information about the target lies: "none",
                                       // "inside", "outside"; empty when the task does not know
  // The groups to which the sequence belongs, by name, such as "depth" -> "0.2-0.3": what a task
  // knows of it (data::AnswerSequence::slices). All samples have the same names; empty = no groups.
  std::map<std::string, std::string> groups = {};
  // Of questions: samples of an equal one are one unit of statistics; "" = a unit of its own.
  std::string unit = {};

  friend bool operator==(const Sample&, const Sample&) = default;
};

// [n]: of every target of sorted columns, the number of its sample; samples are numbered in the
// order of their first targets.
[[nodiscard]] std::vector<std::int32_t> samples_of_targets(const Columns& columns, SampleUnit unit);

// The samples of sorted columns. `split` and `seed` go into them.
[[nodiscard]] std::vector<Sample> make_samples(const Columns& columns, SampleUnit unit,
                                               const std::string& split, std::uint64_t seed);

// Samples of an equal unit as one, in the place of the first; slices and groups are the first's.
[[nodiscard]] std::vector<Sample> by_unit(const std::vector<Sample>& samples);

}  // namespace mneme::scores
