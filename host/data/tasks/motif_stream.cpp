#include "host/data/tasks/motif_stream.hpp"

#include <algorithm>
#include <string_view>
#include <utility>

#include "host/base/error.hpp"
#include "host/base/random.hpp"

namespace mneme::data {
namespace {

constexpr std::int64_t kMotifPosition = 2;                  // MotifStream, first layout
constexpr std::uint64_t kGoldenRatio = 0x9E3779B97F4A7C15;  // 2^64 / golden ratio
constexpr std::int64_t kMinEpisodeSegments = 8;
constexpr std::int64_t kMinRepeats = 4;
constexpr std::int64_t kMaxSymbols = 1 << 24;  // of an alphabet or a motif

std::uint64_t key(std::int64_t number) { return static_cast<std::uint64_t>(number); }

// floor(fraction / 2^64 * range) for range below 2^32, in integers, so equal on every machine.
std::int64_t scale(std::uint64_t fraction, std::int64_t range) {
  return static_cast<std::int64_t>(((fraction >> 32) * static_cast<std::uint64_t>(range)) >> 32);
}

void check_motif(const config::MotifConfig& motif) {
  const auto require = [](std::string_view name, std::int64_t value, std::int64_t least) {
    if (value >= least && value <= kMaxSymbols) return;
    throw_usage({.where = str("data.", name),
                 .failed = "no motif can be drawn",
                 .expected = str(least, " to ", kMaxSymbols),
                 .got = str(value)});
  };
  require("alphabet", motif.alphabet, 2);
  require("period_min", motif.period_min, 1);
  require("period_max", motif.period_max, motif.period_min);
}

std::int64_t automatic_episode(const config::MotifConfig& motif, std::int64_t segment) {
  const std::int64_t tokens = kMinRepeats * motif.period_max;
  return std::max(kMinEpisodeSegments, (tokens + segment - 1) / segment);
}

}  // namespace

MotifStream::MotifStream(const config::MotifConfig& motif, std::uint64_t data_seed,
                         std::string split, const StreamOptions& options,
                         std::int64_t episode_segments)
    : motif_(motif),
      data_seed_(data_seed),
      split_(std::move(split)),
      options_(options),
      episode_segments_(episode_segments) {
  check_stream_options(options_);
  check_motif(motif_);
  if (episode_segments_ == 0) episode_segments_ = automatic_episode(motif_, options_.segment);
  if (episode_segments_ < 1) {
    throw_usage({.where = "episode_segments",
                 .failed = "no episode can be made",
                 .expected = "at least 1, or 0 for the default",
                 .got = str(episode_segments_)});
  }
  lanes_.resize(at(options_.lanes));
}

std::int64_t MotifStream::period(std::int64_t lane, std::int64_t episode) const {
  Random shift(data_seed_, {"motif.period", split_, options_.seed, key(episode)});
  const std::uint64_t place = key(lane) * kGoldenRatio + shift.next64();
  return motif_.period_min + scale(place, motif_.period_max - motif_.period_min + 1);
}

std::vector<std::int64_t> MotifStream::motif(std::int64_t lane, std::int64_t episode) const {
  Random random(data_seed_, {"motif.symbols", split_, options_.seed, key(lane), key(episode)});
  std::vector<std::int64_t> symbols(at(period(lane, episode)));
  for (std::int64_t& symbol : symbols) symbol = random.between(0, motif_.alphabet - 1);
  return symbols;
}

bool MotifStream::next(TokenSegment& segment) {
  if (options_.max_segments != 0 && index_ >= options_.max_segments) return false;
  segment.prepare(options_.lanes, options_.segment, true);
  segment.epoch = 0;
  segment.index = index_;
  for (std::int64_t b = 0; b < options_.lanes; ++b) fill(b, segment);
  ++index_;
  return true;
}

void MotifStream::fill(std::int64_t index, TokenSegment& segment) {
  const std::int64_t phase = index % episode_segments_;
  const std::int64_t episode = (index_ + phase) / episode_segments_;
  // The first episode begins at the stream's beginning, so it is shorter by the phase.
  const std::int64_t segments_before =
      (index_ + phase) % episode_segments_ - (episode == 0 ? phase : 0);
  Lane& lane = lanes_[at(index)];
  if (lane.episode != episode) lane = {episode, motif(index, episode)};

  segment.valid[at(index)] = segment.length;
  segment.reset[at(index)] = segments_before == 0 ? 1 : 0;
  segment.document[at(index)] = episode;
  const auto period = static_cast<std::int64_t>(lane.motif.size());
  const std::int64_t begin = segments_before * segment.length;
  segment.offset[at(index)] = begin;
  for (std::int64_t t = 0; t < segment.length; ++t) {
    const std::size_t cell = at(index * segment.length + t);
    const std::int64_t copy = begin + t + 1 - period;
    segment.inputs[cell] = lane.motif[at((begin + t) % period)];
    segment.targets[cell] = lane.motif[at((begin + t + 1) % period)];
    const Source source = copy < 0       ? Source::kNone
                          : copy < begin ? Source::kOutside
                                         : Source::kInside;
    segment.source[cell] = static_cast<std::uint8_t>(source);
  }
}

std::vector<PositionField> MotifStream::position_fields() const {
  return {{"kind of stream", kMotifPosition},
          {"lanes", options_.lanes},
          {"segment", options_.segment},
          {"segments of an episode", episode_segments_},
          {"alphabet", motif_.alphabet},
          {"period_min", motif_.period_min},
          {"period_max", motif_.period_max},
          {"data.seed", static_cast<std::int64_t>(data_seed_)},
          {"seed", static_cast<std::int64_t>(options_.seed)}};
}

}  // namespace mneme::data
