#include "host/data/corpus/lanes.hpp"

#include <algorithm>
#include <utility>

#include "host/base/error.hpp"

namespace mneme::data {
namespace {

constexpr std::int64_t kLanePosition = 1;  // LaneStream, first layout

}  // namespace

LaneStream::LaneStream(std::shared_ptr<const Corpus> corpus, config::Reset reset,
                       const StreamOptions& options)
    : corpus_(std::move(corpus)), reset_(reset), options_(options) {
  check_stream_options(options_);
  check_length();
  lane_tokens_ = corpus_->size() / options_.lanes;
  lanes_.resize(at(options_.lanes));
  count_epoch();
  begin_epoch(0);
}

void LaneStream::check_length() const {
  const std::int64_t lane_needs = options_.is_training ? options_.segment + 1 : 2;
  if (corpus_->size() / options_.lanes >= lane_needs) return;
  const std::string section(section_of(options_));
  const std::string keys = options_.is_training ? str("train.lanes (", options_.lanes,
                                                      ") or train.segment (", options_.segment, ")")
                                                : str("eval.lanes (", options_.lanes, ")");
  const std::string needs = str(options_.lanes, " lanes * ", lane_needs, " tokens");
  throw_usage({.where = corpus_->files.empty()
                            ? corpus_->key
                            : str(corpus_->key, ": ", corpus_->files.front().string()),
               .failed = "the text is too short",
               .expected = str("at least ", options_.lanes * lane_needs, " tokens (", needs, ")"),
               .got = str(corpus_->size()),
               .hint = str("lower ", keys, ", or give a longer text in ", corpus_->key)});
}

std::int64_t LaneStream::next_document(std::int64_t token) const {
  const auto& starts = corpus_->documents;
  const auto found = std::upper_bound(starts.begin(), starts.end(), token);
  return found == starts.end() ? corpus_->size() : *found;
}

std::int64_t LaneStream::longest_document() const {
  std::int64_t longest = 0;
  for (std::int64_t first = 0; first < corpus_->size(); first = next_document(first))
    longest = std::max(longest, next_document(first) - first);
  return longest;
}

std::int64_t LaneStream::tokens_between_resets() const {
  const std::int64_t lane = lane_tokens_ - 1;  // inputs
  const bool is_alone = options_.lanes == 1;
  switch (reset_) {
    case config::Reset::kDocument:
      // Lanes that end their segments early take more of them.
      return is_alone ? std::min(lane, longest_document() - 1)
                      : segments_per_epoch_ * options_.segment;
    case config::Reset::kSegment:  // a reset may be anywhere in a document
      return is_alone ? std::min(lane, longest_document() + options_.segment - 1) : lane;
    case config::Reset::kNever:
    case config::Reset::kMask:
      break;
  }
  return lane;
}

std::int64_t LaneStream::run_end(std::int64_t lane, std::int64_t token) const {
  if (reset_ != config::Reset::kDocument) return lane_end(lane);
  return std::min(next_document(token), lane_end(lane));
}

void LaneStream::settle(std::int64_t index, Lane& lane) const {
  while (lane.next < lane_end(index)) {
    const std::int64_t end = run_end(index, lane.next);
    if (lane.next + 1 < end) return;
    lane.next = end;
    lane.reset = true;
  }
}

std::int64_t LaneStream::valid_of(std::int64_t index) const {
  const Lane& lane = lanes_[at(index)];
  if (lane.next == lane_end(index)) return 0;
  return std::min(options_.segment, run_end(index, lane.next) - 1 - lane.next);
}

void LaneStream::begin_epoch(std::int64_t epoch) {
  epoch_ = epoch;
  for (std::int64_t b = 0; b < options_.lanes; ++b) {
    lanes_[at(b)] = {lane_begin(b), true};
    settle(b, lanes_[at(b)]);
  }
}

bool LaneStream::is_epoch_over() const {
  for (std::int64_t b = 0; b < options_.lanes; ++b) {
    if (lanes_[at(b)].next != lane_end(b)) return false;
  }
  return true;
}

void LaneStream::count_epoch() {
  for (std::int64_t b = 0; b < options_.lanes; ++b) {
    std::int64_t segments = 0;
    Lane lane{lane_begin(b), true};
    for (settle(b, lane); lane.next < lane_end(b); settle(b, lane)) {
      const std::int64_t targets = run_end(b, lane.next) - 1 - lane.next;
      segments += (targets + options_.segment - 1) / options_.segment;
      targets_per_epoch_ += targets;
      lane.next += targets;
    }
    segments_per_epoch_ = std::max(segments_per_epoch_, segments);
  }
  if (targets_per_epoch_ == 0) {
    throw_usage({.where = corpus_->key,
                 .failed = "the text has no target",
                 .expected = "a document with two tokens in one lane (data.reset = \"document\")",
                 .got = str(corpus_->documents.size(), " documents with ", corpus_->size(),
                            " tokens in all"),
                 .hint = "set data.reset = \"never\", or give longer documents"});
  }
}

bool LaneStream::next(TokenSegment& segment) {
  if (options_.max_segments != 0 && index_ >= options_.max_segments) return false;
  if (is_epoch_over()) {
    if (options_.epochs != 0 && epoch_ + 1 >= options_.epochs) return false;
    begin_epoch(epoch_ + 1);
  }
  std::int64_t length = 0;
  for (std::int64_t b = 0; b < options_.lanes; ++b) length = std::max(length, valid_of(b));
  segment.prepare(options_.lanes, length, false);
  if (reset_ == config::Reset::kMask) segment.documents.assign(segment.inputs.size(), -1);
  segment.epoch = epoch_;
  segment.index = index_;
  for (std::int64_t b = 0; b < options_.lanes; ++b) {
    const std::int64_t valid = valid_of(b);
    fill(b, valid, segment);
    advance(b, valid);
  }
  ++index_;
  return true;
}

void LaneStream::fill(std::int64_t index, std::int64_t valid, TokenSegment& segment) const {
  const Lane& lane = lanes_[at(index)];
  segment.valid[at(index)] = valid;
  segment.reset[at(index)] = lane.reset ? 1 : 0;
  if (valid == 0) return;
  const auto& starts = corpus_->documents;
  const auto after = std::upper_bound(starts.begin(), starts.end(), lane.next);
  segment.document[at(index)] = after - starts.begin() - 1;
  segment.offset[at(index)] = lane.next - *(after - 1);
  const auto cell = index * segment.length;
  corpus_->tokens.copy(lane.next, valid, segment.inputs.data() + cell);
  corpus_->tokens.copy(lane.next + 1, valid, segment.targets.data() + cell);
  if (segment.documents.empty()) return;
  std::int64_t document = segment.document[at(index)];
  for (std::int64_t t = 0; t < valid; ++t) {
    const auto next = static_cast<std::size_t>(document) + 1;
    if (next < starts.size() && starts[next] == lane.next + t) ++document;
    segment.documents[at(cell + t)] = document;
  }
}

void LaneStream::advance(std::int64_t index, std::int64_t valid) {
  Lane& lane = lanes_[at(index)];
  const std::int64_t read_to = lane.next + valid;
  lane.reset =
      reset_ == config::Reset::kSegment && valid > 0 && next_document(lane.next) <= read_to;
  lane.next = read_to;
  settle(index, lane);
}

std::vector<PositionField> LaneStream::position_fields() const {
  return {{"kind of stream", kLanePosition},
          {"lanes", options_.lanes},
          {"segment", options_.segment},
          {"tokens", corpus_->size()},
          {"documents", static_cast<std::int64_t>(corpus_->documents.size())},
          {"reset", static_cast<std::int64_t>(reset_)}};
}

std::vector<std::int64_t> LaneStream::position() const {
  std::vector<std::int64_t> position;
  for (const PositionField& field : position_fields()) position.push_back(field.ours);
  position.push_back(epoch_);
  position.push_back(index_);
  for (const Lane& lane : lanes_) {
    position.push_back(lane.next);
    position.push_back(lane.reset ? 1 : 0);
  }
  return position;
}

void LaneStream::seek(const std::vector<std::int64_t>& position) {
  const std::vector<PositionField> fields = position_fields();
  check_position(position, fields.size() + 2 + 2 * lanes_.size(), fields);
  const auto* rest = position.data() + fields.size();
  if (rest[0] < 0 || rest[1] < 0) {
    throw_run({.where = "data position",
               .failed = "a negative count of epochs or segments",
               .expected = "at least 0",
               .got = str(std::min(rest[0], rest[1])),
               .hint = "the checkpoint is damaged; take another one"});
  }
  std::vector<Lane> lanes;
  for (std::int64_t b = 0; b < options_.lanes; ++b) {
    const std::int64_t next = rest[2 + 2 * b];
    if (next < lane_begin(b) || next > lane_end(b)) {
      throw_run({.where = "data position",
                 .failed = str("lane ", b, " lies outside its text"),
                 .expected = str("a token from ", lane_begin(b), " to ", lane_end(b)),
                 .got = str(next),
                 .hint = "the checkpoint is damaged; take another one"});
    }
    lanes.push_back({next, rest[3 + 2 * b] != 0});
    settle(b, lanes.back());
  }
  epoch_ = rest[0];
  index_ = rest[1];
  lanes_ = std::move(lanes);
}

}  // namespace mneme::data
