#include "host/data/tasks/sequence_tasks.hpp"

#include <algorithm>
#include <numeric>
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

std::vector<std::int64_t> MotifStream::position() const {
  return counted_position(position_fields(), index_);
}

void MotifStream::seek(const std::vector<std::int64_t>& position) {
  index_ = count_in(position, position_fields());
}

namespace {

constexpr std::int64_t kHeaviest = 9;

// Symbols with integer weights, drawn by their running sums.
class Weights {
 public:
  Weights(Random& random, std::int64_t alphabet) : ends_(static_cast<std::size_t>(alphabet)) {
    for (std::int64_t& end : ends_) end = random.between(1, kHeaviest);
    std::partial_sum(ends_.begin(), ends_.end(), ends_.begin());
  }
  std::int64_t draw(Random& random) const {
    const auto place =
        static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(ends_.back())));
    return std::upper_bound(ends_.begin(), ends_.end(), place) - ends_.begin();
  }

 private:
  std::vector<std::int64_t> ends_;
};

}  // namespace

std::vector<std::int64_t> SortingTask::sequence(std::string_view split, std::int64_t index) const {
  const std::int64_t length = settings().length;
  Random random(seed(), {"sorting", split, static_cast<std::uint64_t>(index)});
  const Weights first(random, settings().alphabet);
  const Weights last(random, settings().alphabet);
  std::vector<std::int64_t> ids;
  ids.reserve(static_cast<std::size_t>(prompt_length() + answer_length()));
  for (std::int64_t j = 0; j < length; ++j) {
    // A symbol of the mixture: the last distribution's with probability j / length.
    const bool is_last =
        static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(length))) < j;
    ids.push_back((is_last ? last : first).draw(random));
  }
  const std::vector<std::int64_t> answer = symbols_by_frequency(ids, settings().alphabet);
  ids.push_back(separator());
  ids.insert(ids.end(), answer.begin(), answer.end());
  return ids;
}

std::vector<std::int64_t> symbols_by_frequency(std::span<const std::int64_t> tokens,
                                               std::int64_t alphabet) {
  std::vector<std::int64_t> counts(static_cast<std::size_t>(alphabet), 0);
  std::vector<std::int64_t> order;  // by first appearance, then the absent ones
  for (const std::int64_t token : tokens) {
    if (counts[static_cast<std::size_t>(token)]++ == 0) order.push_back(token);
  }
  for (std::int64_t symbol = 0; symbol < alphabet; ++symbol) {
    if (counts[static_cast<std::size_t>(symbol)] == 0) order.push_back(symbol);
  }
  const auto is_more_frequent = [&](std::int64_t a, std::int64_t b) {
    return counts[static_cast<std::size_t>(a)] > counts[static_cast<std::size_t>(b)];
  };
  std::stable_sort(order.begin(), order.end(), is_more_frequent);
  return order;
}

std::vector<std::int64_t> DigitSortingTask::sequence(std::string_view split,
                                                     std::int64_t index) const {
  Random random(seed(), {"digit_sorting", split, static_cast<std::uint64_t>(index)});
  std::vector<std::int64_t> ids(static_cast<std::size_t>(settings().length));
  for (std::int64_t& id : ids) id = random.between(0, settings().alphabet - 1);
  std::vector<std::int64_t> answer = ids;
  std::sort(answer.begin(), answer.end());
  ids.insert(ids.end(), answer.begin(), answer.end());
  return ids;
}

}  // namespace mneme::data
