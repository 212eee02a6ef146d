// A generated task, the repeating motif: can a model copy what it saw before the segment?
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "host/config/experiment.hpp"
#include "host/data/stream/stream.hpp"

namespace mneme::data {

// Each lane reads episodes. An episode draws a period p and p symbols, uniformly, and repeats them;
// it lasts `episode_segments` segments and begins with a reset, so a motif must be copied from the
// context and cannot be memorised. Token j of an episode is motif[j mod p].
//
// The target of input j is token j + 1, whose nearest earlier copy is token j + 1 - p:
//   Source::kNone     j + 1 < p: there is none; the target is uniform given everything seen
//   Source::kInside   the copy is an input of this segment
//   Source::kOutside  the copy lies before this segment. The symbols inside are then independent of
//                     the target, so without a memory accuracy is 1 / alphabet exactly.
//
// Periods spread evenly over period_min .. period_max: lane b takes the place frac(b * golden ratio
// + a shift drawn for the episode) of the range, a low-discrepancy sequence, so that neighbouring
// lanes differ for any number of lanes. Episodes of lane b begin b segments (modulo an episode's
// length) early, so that the lanes' resets do not fall into one step. A lane depends on seeds,
// split and its own index only, never on the number of lanes.
class MotifStream : public CountedStream {
 public:
  // `split` ("train", "valid", "test") keeps the splits' motifs apart; data.seed and options.seed
  // key them. Error (kUsage) for alphabet < 2, period_min < 1, period_max < period_min, or bad
  // options; options.epochs is not used. `episode_segments` 0 = the fewest, at least 8, that hold
  // the longest motif four times.
  MotifStream(const config::MotifConfig& motif, std::uint64_t data_seed, std::string split,
              const StreamOptions& options, std::int64_t episode_segments = 0);

  bool next(TokenSegment& segment) override;
  [[nodiscard]] std::int64_t segments_per_epoch() const override { return 0; }
  [[nodiscard]] std::int64_t targets_per_epoch() const override { return 0; }
  // Of one lane; several are not reset at once.
  [[nodiscard]] std::int64_t tokens_between_resets() const override {
    return options_.lanes == 1 ? episode_segments_ * options_.segment : 0;
  }

  // Segments of an episode.
  [[nodiscard]] std::int64_t episode_segments() const { return episode_segments_; }
  // The motif of a lane's episode; its size is the period.
  [[nodiscard]] std::vector<std::int64_t> motif(std::int64_t lane, std::int64_t episode) const;

 private:
  struct Lane {
    std::int64_t episode = -1;  // of `motif`
    std::vector<std::int64_t> motif;
  };

  [[nodiscard]] std::int64_t period(std::int64_t lane, std::int64_t episode) const;
  void fill(std::int64_t index, TokenSegment& segment);
  [[nodiscard]] std::vector<PositionField> position_fields() const override;

  config::MotifConfig motif_;
  std::uint64_t data_seed_;
  std::string split_;
  StreamOptions options_;
  std::int64_t episode_segments_;
  std::vector<Lane> lanes_;  // a cache
};

}  // namespace mneme::data
