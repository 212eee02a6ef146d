// A corpus cut into lanes and segments.
#pragma once

#include <memory>
#include <vector>

#include "host/config/experiment.hpp"
#include "host/data/corpus/corpus.hpp"
#include "host/data/stream/stream.hpp"

namespace mneme::data {

// Cuts a corpus into B equal contiguous pieces [Transformer-XL, LMOrderedIterator]: lane b reads
// tokens [b*n, (b+1)*n), n = tokens / B, the remainder dropped; a position's target is the next
// token of its lane, so a lane has n - 1 targets. Segments have T tokens; an epoch's last one may
// be shorter. Every epoch begins with a reset of all lanes.
//
// reset = never:    nothing else is reset.
// reset = mask:     nothing else is reset, and segments say the document of each token.
// reset = segment:  a lane that passed the start of a document is reset at its next segment.
// reset = document: a lane ends its segment early at its document's last target, and its next
//   segment begins with the next document and a reset: each document gives the numbers of that
//   document alone, and no target lies in another document than its input. Documents of one token
//   are skipped. Lanes advance independently; a lane that has reached its end is padded until the
//   others have.
class LaneStream : public Stream {
 public:
  // Error (kUsage) for bad options and a text too short for them: training needs lanes * (segment +
  // 1) tokens, evaluation 2 a lane; or with reset = document no document of two tokens.
  LaneStream(std::shared_ptr<const Corpus> corpus, config::Reset reset,
             const StreamOptions& options);

  bool next(TokenSegment& segment) override;
  [[nodiscard]] std::vector<std::int64_t> position() const override;
  void seek(const std::vector<std::int64_t>& position) override;
  [[nodiscard]] std::int64_t segments_per_epoch() const override { return segments_per_epoch_; }
  [[nodiscard]] std::int64_t targets_per_epoch() const override { return targets_per_epoch_; }
  // Of several lanes those of an epoch.
  [[nodiscard]] std::int64_t tokens_between_resets() const override;

 private:
  struct Lane {
    std::int64_t next = 0;  // the next input; the lane's end when it has no target left
    bool reset = true;      // before the next segment
  };

  [[nodiscard]] std::int64_t lane_begin(std::int64_t lane) const { return lane * lane_tokens_; }
  [[nodiscard]] std::int64_t lane_end(std::int64_t lane) const { return (lane + 1) * lane_tokens_; }
  // The first token after `token` that begins a document, or the corpus's size.
  [[nodiscard]] std::int64_t next_document(std::int64_t token) const;
  [[nodiscard]] std::int64_t longest_document() const;
  // One past the last token that targets of an input at `token` may reach.
  [[nodiscard]] std::int64_t run_end(std::int64_t lane, std::int64_t token) const;
  // Moves past places that have no target.
  void settle(std::int64_t index, Lane& lane) const;
  [[nodiscard]] std::int64_t valid_of(std::int64_t index) const;
  void fill(std::int64_t index, std::int64_t valid, TokenSegment& segment) const;
  void advance(std::int64_t index, std::int64_t valid);
  void begin_epoch(std::int64_t epoch);
  [[nodiscard]] bool is_epoch_over() const;
  void check_length() const;
  void count_epoch();
  [[nodiscard]] std::vector<PositionField> position_fields() const;

  std::shared_ptr<const Corpus> corpus_;
  config::Reset reset_;
  StreamOptions options_;
  std::int64_t lane_tokens_ = 0;  // n
  std::int64_t segments_per_epoch_ = 0;
  std::int64_t targets_per_epoch_ = 0;
  std::int64_t epoch_ = 0;
  std::int64_t index_ = 0;
  std::vector<Lane> lanes_;
};

}  // namespace mneme::data
