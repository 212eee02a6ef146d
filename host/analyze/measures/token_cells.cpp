#include "host/analyze/measures/token_cells.hpp"

#include <algorithm>

#include "host/base/error.hpp"

namespace mneme::analyze {
namespace {

void check_place(double place, const char* what) {
  if (place >= 0.0 && place <= 1.0) return;
  throw_run({.where = str("the memory's ", what),
             .failed = "a place is outside of the memory",
             .expected = "numbers in [0, 1]",
             .got = format_number(place, 6)});
}

}  // namespace

void TokenCells::clear() {
  edges_.clear();
  tokens_.clear();
}

void TokenCells::begin(std::span<const double> places, std::int64_t first_token) {
  std::vector<Point> points;
  for (const double place : places) {
    check_place(place, "places");
    points.push_back({place, first_token++});
  }
  assign(std::move(points));
}

void TokenCells::update(std::span<const double> samples, std::span<const double> places,
                        std::int64_t first_token) {
  if (places.size() < samples.size()) {
    throw_run({.where = "the memory's places",
               .failed = "there are fewer than samples of the old memory",
               .expected = str("at least ", samples.size()),
               .got = str(places.size())});
  }
  if (is_empty() && !samples.empty()) {
    throw_run("the memory's samples: an empty memory was sampled ", samples.size(), " times");
  }
  std::vector<Point> points;
  for (std::size_t i = 0; i < places.size(); ++i) {
    check_place(places[i], "places");
    if (i < samples.size()) check_place(samples[i], "samples");
    points.push_back({places[i], i < samples.size() ? token_at(samples[i]) : first_token++});
  }
  assign(std::move(points));
}

void TokenCells::assign(std::vector<Point> points) {
  std::ranges::stable_sort(points, {}, &Point::place);
  clear();
  if (points.empty()) return;
  edges_.push_back(0.0);
  for (std::size_t i = 0; i < points.size(); ++i) {
    tokens_.push_back(points[i].token);
    edges_.push_back(i + 1 < points.size() ? 0.5 * (points[i].place + points[i + 1].place) : 1.0);
  }
}

std::int64_t TokenCells::token_at(double place) const {
  const auto after = std::ranges::upper_bound(edges_, place);
  const auto cell = std::clamp<std::ptrdiff_t>(after - edges_.begin() - 1, 0,
                                               static_cast<std::ptrdiff_t>(tokens_.size()) - 1);
  return tokens_.at(static_cast<std::size_t>(cell));
}

std::map<std::int64_t, double> TokenCells::shares() const {
  std::map<std::int64_t, double> shares;
  for (std::size_t i = 0; i < tokens_.size(); ++i) shares[tokens_[i]] += edges_[i + 1] - edges_[i];
  return shares;
}

std::vector<double> even_samples(std::int64_t count) {
  std::vector<double> samples;
  for (std::int64_t m = 1; m <= count; ++m) {
    samples.push_back(static_cast<double>(m) / static_cast<double>(count));
  }
  return samples;
}

ShareByAge::ShareByAge(std::int64_t stretch) : stretch_(stretch) {
  if (stretch < 1) throw_usage("space by age: stretch: expected at least 1 token, got ", stretch);
}

void ShareByAge::add(const LayerView& view) {
  if (view.new_tokens == 0) return;
  Shares& sums = sums_[view.place];
  ++sums.writes;
  for (const auto& [token, share] : view.space.shares()) {
    const auto s = static_cast<std::size_t>((view.end_token - 1 - token) / stretch_);
    if (s >= sums.share.size()) {
      sums.share.resize(s + 1);
      sums.remaining.resize(s + 1);
    }
    sums.share[s] += share;
    sums.remaining[s] += 1.0;
  }
}

std::map<Place, ShareByAge::Shares> ShareByAge::shares() const {
  std::map<Place, Shares> means = sums_;
  for (auto& [place, shares] : means) {
    for (double& share : shares.share) share /= static_cast<double>(shares.writes);
    for (double& count : shares.remaining) count /= static_cast<double>(shares.writes);
  }
  return means;
}

ShareAfterUpdates::ShareAfterUpdates(std::int64_t first, std::int64_t updates)
    : first_(first), updates_(updates) {
  if (first < 0) throw_usage("space after updates: first write: expected at least 0, got ", first);
  if (updates < 0) throw_usage("space after updates: updates: expected at least 0, got ", updates);
}

void ShareAfterUpdates::add(const LayerView& view) {
  if (view.lane != 0 || view.new_tokens == 0) return;
  Track& track = tracks_[view.place];
  if (is_done(track)) return;
  if (view.is_first_write) {  // the memory was emptied, with the followed words
    track.starts.clear();
    track.followed.reset();
    track.words.clear();
  }
  track.starts.push_back(view.end_token - view.new_tokens);
  if (!track.followed && track.writes >= first_) {
    track.followed = track.starts.size() - 1;
  }
  track.end = view.end_token;
  ++track.writes;
  if (track.followed) track.words.push_back(choices_of(track, view.space));
}

std::vector<ShareAfterUpdates::Word> ShareAfterUpdates::choices_of(const Track& track,
                                                                   const TokenCells& space) {
  std::map<std::int64_t, double> shares = space.shares();
  for (std::int64_t token = track.starts.front(); token < track.end; ++token) {
    shares.try_emplace(token, 0.0);
  }
  std::vector<Word> words;
  for (const auto& [token, share] : shares) {
    const auto write = std::ranges::upper_bound(track.starts, token) - track.starts.begin() - 1;
    words.push_back({.token = token,
                     .write = write - static_cast<std::int64_t>(*track.followed),
                     .share = share});
  }
  return words;
}

std::map<Place, ShareAfterUpdates::Followed> ShareAfterUpdates::followed() const {
  std::map<Place, Followed> out;
  for (const auto& [place, track] : tracks_) {
    if (is_done(track)) out[place] = track.words;
  }
  return out;
}

}  // namespace mneme::analyze
