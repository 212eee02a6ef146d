// Collects the scores of an evaluation segment by segment, and stores them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "host/base/text.hpp"
#include "host/data/stream/stream.hpp"
#include "host/scores/stored_evaluation.hpp"

namespace mneme::scores {

// Of a segment's places [B,T], row-major; places without a target are passed over.
struct SegmentColumns {
  std::span<const double> nll;            // nats
  std::span<const std::uint8_t> correct;  // 1 = the target was the arg max
  std::span<const std::int64_t> document;
  std::span<const std::int64_t> distance;
  std::span<const std::int64_t> predicted = {};  // the arg max; empty = not to be kept
};

// The columns of an evaluation (StoredEvaluation has their meaning), in the order of the stream
// until sort().
//
// Losses are kept in 4 bytes as long as each is exactly a float, which those of a model in f32 or
// bf16 are; an entry takes 29 bytes then, 1 more with sources and 4 more with predictions.
class Columns {
 public:
  // `expected`: targets to come, at most; room for them is set aside, so that growing copies
  // nothing. 0 = unknown.
  explicit Columns(std::int64_t expected = 0);

  void add(const data::TokenSegment& segment, const SegmentColumns& scores);

  [[nodiscard]] std::int64_t size() const { return static_cast<std::int64_t>(target.size()); }
  [[nodiscard]] double nll(std::size_t index) const {
    return is_wide() ? wide_nll[index] : static_cast<double>(narrow_nll[index]);
  }
  [[nodiscard]] bool is_wide() const { return !wide_nll.empty(); }
  // Sorts all columns by document, distance and lane.
  void sort();
  // The sums over all targets, added in the stream's order, in which eval::evaluate adds them: so
  // they equal the evaluation's result bit for bit, before sort() and after it.
  [[nodiscard]] Sums total() const;

  std::vector<float> narrow_nll;  // empty when is_wide()
  std::vector<double> wide_nll;
  std::vector<std::int32_t> target, document, distance, lane, place, segment;
  std::vector<std::uint8_t> correct;
  std::vector<std::uint8_t> source;     // empty when the task knows none
  std::vector<std::int32_t> predicted;  // empty when they are not kept

 private:
  void add_nll(double value);
};

// [n]: of every target of sorted columns, the number of its sample; samples are numbered in the
// order of their first targets.
[[nodiscard]] std::vector<std::int32_t> samples_of_targets(const Columns& columns, SampleUnit unit);

// The samples of sorted columns. `split` and `seed` go into them.
[[nodiscard]] std::vector<Sample> make_samples(const Columns& columns, SampleUnit unit,
                                               const std::string& split, std::uint64_t seed);

// An evaluation to be stored.
struct Evaluation {
  EvaluationName name;
  SampleUnit unit = SampleUnit::kDocument;
  // The keys of evaluation.json beside format, version, split, step, unit, sample_columns,
  // checksums and vocabulary_counts. `seed` and `result` (with tokens, nll, correct) are needed.
  Json info;
  // Of every id in the training data; empty = unknown. Written when the run has none yet.
  std::vector<std::int64_t> vocabulary_counts = {};
  // Sample::groups by Sample::document; none = samples have no groups.
  std::function<std::map<std::string, std::string>(std::int64_t document)> groups = {};
};

// Writes RUN/evaluations/<name>, in place of an evaluation of that name, and returns its folder.
// The files are made in a temporary folder beside it and take their name at once, so that readers
// find an evaluation whole or not at all, also when the process is killed; the next writer removes
// what such a process left. Processes that write evaluations of one run take turns (a lock in
// RUN/evaluations). Sorts the columns. Error (kRun) when the folder or a file cannot be written;
// what was there stays.
std::filesystem::path write_evaluation(const std::filesystem::path& run_folder,
                                       const Evaluation& evaluation, Columns& columns);

// Removes finished evaluations of a run for whose name and evaluation.json `is_unwanted` is true;
// their folders. One whose evaluation.json cannot be read stays. Error (kRun) when one cannot be
// removed.
std::vector<std::filesystem::path> remove_evaluations(
    const std::filesystem::path& run_folder,
    const std::function<bool(const EvaluationName& name, const Json& info)>& is_unwanted);

}  // namespace mneme::scores
