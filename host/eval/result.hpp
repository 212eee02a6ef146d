// What an evaluation measured.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "host/base/json.hpp"
#include "host/eval/breakdown.hpp"
#include "host/eval/protocol.hpp"

namespace mneme::eval {

// An evaluation of one stream from an empty memory.
struct Result {
  Protocol protocol;
  Score total;
  // Of them, the targets that are <eos> at a line's end and those that are <unk>; absent when the
  // vocabulary has none.
  std::optional<Score> end_of_line;
  std::optional<Score> unknown;
  Breakdown breakdown;
  // By data::Source: kNone, kInside, kOutside; absent when the task knows no sources.
  std::optional<std::array<Score, 3>> by_source;
  std::map<std::string, double> metrics;  // "<tier>.<name>": mean over segments by target count
  std::map<std::string, double> losses;   // auxiliary losses likewise, before their weight
  std::int64_t segments = 0;
  std::int64_t lanes = 0;
  double seconds = 0.0;                      // of the whole pass, the device's work included
  std::int64_t state_bytes = 0;              // slots, queues and waiting rows: the largest seen
  std::int64_t final_state_bytes = 0;        // after the last segment
  std::int64_t cached_projection_bytes = 0;  // kept keys and values: the largest seen

  [[nodiscard]] double loss() const { return total.loss(); }
  [[nodiscard]] double perplexity() const { return total.perplexity(); }
  [[nodiscard]] double accuracy() const { return total.accuracy(); }
  // The loss for another unit: loss() times the split's tokens for one unit [Protocol]. Per word as
  // a perplexity, per byte and per character also in bits; absent when the split's words, bytes or
  // characters are not known.
  [[nodiscard]] std::optional<double> perplexity_per_word() const;
  [[nodiscard]] std::optional<double> perplexity_per_byte() const;
  [[nodiscard]] std::optional<double> bits_per_byte() const;
  [[nodiscard]] std::optional<double> bits_per_character() const;
  [[nodiscard]] double tokens_per_second() const;  // targets; 0 when no time was measured
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
