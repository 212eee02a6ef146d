// What an evaluation measured.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "host/base/json.hpp"

namespace mneme::eval {

// Sums over target tokens. The means are 0 when there is no token.
struct Score {
  std::int64_t tokens = 0;   // targets
  double nll = 0.0;          // sum, nats
  std::int64_t correct = 0;  // targets that were the arg max

  [[nodiscard]] double loss() const;        // nats per target
  [[nodiscard]] double perplexity() const;  // exp(loss)
  [[nodiscard]] double accuracy() const;    // in 0 .. 1
  void add(const Score& other);
};

// An evaluation of one stream from an empty memory.
struct Result {
  Score total;
  // By data::Source: kNone, kInside, kOutside; absent when the task knows no sources.
  std::optional<std::array<Score, 3>> by_source;
  std::optional<double> bits_per_character;  // when the text's characters are known
  std::map<std::string, double> metrics;     // "<tier>.<name>": mean over segments by target count
  std::map<std::string, double> losses;      // auxiliary losses likewise, before their weight
  std::int64_t segments = 0;
  std::int64_t lanes = 0;
  double seconds = 0.0;                      // of the whole pass, the device's work included
  std::int64_t state_bytes = 0;              // slots, queues and waiting rows: the largest seen
  std::int64_t final_state_bytes = 0;        // after the last segment
  std::int64_t cached_projection_bytes = 0;  // kept keys and values: the largest seen

  [[nodiscard]] double loss() const { return total.loss(); }
  [[nodiscard]] double perplexity() const { return total.perplexity(); }
  [[nodiscard]] double accuracy() const { return total.accuracy(); }
  [[nodiscard]] double tokens_per_second() const;  // targets; 0 when no time was measured
  // Accuracy on targets whose source lies before the segment; absent when unknown or when there is
  // no such target.
  [[nodiscard]] std::optional<double> outside_accuracy() const;
};

// Every number of a result under its name; numbers that are not finite become null.
[[nodiscard]] Json to_json(const Result& result);
[[nodiscard]] Json to_json(const Score& score);

}  // namespace mneme::eval
