// Sums over targets, and targets sorted into buckets: one type from the evaluator to the report.
//
// Words: the *place* of a target is that of the predicting token in its segment, from 0; its
// *distance* is the number of tokens of its document before it, at least 1 where it is known.
// Files and JSON keep the names that they have had from the beginning:
//
//   here                      in files
//   Sums::targets             "tokens" (results of an evaluation), "targets" (stored evaluations)
//   distance of a target      kDistanceKey of stored evaluations
//   Breakdown::place          kPlaceKey of result files
//   figures by bucket         section "position" of report.json
//   data::Source              kSourceNames
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "host/base/text.hpp"

namespace mneme::scores {

inline constexpr const char* kDistanceKey = "position";
inline constexpr const char* kPlaceKey = "position";
// Of the values of data::Source.
inline constexpr std::array kSourceNames = {"none", "inside", "outside"};

// The means are 0 when there is no target.
struct Sums {
  std::int64_t targets = 0;
  double nll = 0.0;          // nats
  std::int64_t correct = 0;  // targets that were the arg max; of questions: right answers
  // Of the task questions: how many of them the targets are the answers of; 0 = another task.
  std::int64_t questions = 0;

  void add(double target_nll, bool is_correct) {
    ++targets;
    nll += target_nll;
    correct += is_correct ? 1 : 0;
  }
  void add(const Sums& other) {
    targets += other.targets;
    nll += other.nll;
    correct += other.correct;
    questions += other.questions;
  }
  // What `correct` is a number of.
  [[nodiscard]] std::int64_t judged() const { return questions > 0 ? questions : targets; }
  [[nodiscard]] double loss() const;        // nats a target
  [[nodiscard]] double perplexity() const;  // exp(loss)
  [[nodiscard]] double accuracy() const;    // in 0 .. 1
  friend bool operator==(const Sums&, const Sums&) = default;
};

// Targets with something in common.
struct Bucket {
  std::string name = {};
  std::int64_t from = 0;  // the smallest value that falls into it
  Sums sums = {};
};

// The smallest and the largest value of a bucket.
using Range = std::pair<std::int64_t, std::int64_t>;
// "7", "4-7".
[[nodiscard]] std::string range_name(const Range& range);

// Buckets of 1, 2-3, 4-7, ...: that of a value of at least 1, and a bucket's range.
[[nodiscard]] std::size_t power_of_two_bucket(std::int64_t value);
[[nodiscard]] Range power_of_two_range(std::size_t bucket);
// Buckets of an id's occurrences in the training data: "unseen", which is 0 of them (never, or too
// rare to be counted), then 1-9, 10-99, ...
[[nodiscard]] std::size_t frequency_bucket(std::int64_t occurrences);

// Sums by bucket, which grow as targets come.
class BucketSums {
 public:
  void add(std::size_t bucket, double nll, bool is_correct) { at(bucket).add(nll, is_correct); }
  // The buckets that hold a target, by rising number; range(i) is that of bucket i.
  template <typename RangeOf>
  [[nodiscard]] std::vector<Bucket> list(RangeOf range) const {
    std::vector<Bucket> out;
    for (std::size_t i = 0; i < sums_.size(); ++i) {
      if (sums_[i].targets == 0) continue;
      const Range values = range(i);
      out.push_back({range_name(values), values.first, sums_[i]});
    }
    return out;
  }

  // The same of frequency_bucket.
  [[nodiscard]] std::vector<Bucket> list_frequencies() const;

 private:
  Sums& at(std::size_t bucket) {
    if (sums_.size() <= bucket) sums_.resize(bucket + 1);
    return sums_[bucket];
  }

  std::vector<Sums> sums_;
};

}  // namespace mneme::scores
