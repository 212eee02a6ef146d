#include "host/analyze/measures/cell_share.hpp"

#include <algorithm>

#include "host/base/error.hpp"

namespace mneme::analyze {

ShareByAge::ShareByAge(std::int64_t stretch) : stretch_(stretch) {
  if (stretch < 1) throw_usage("space by age: stretch: expected at least 1 token, got ", stretch);
}

void ShareByAge::add(const LaneView& view) {
  if (view.new_tokens == 0) return;
  Shares& sums = sums_[view.where];
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

std::map<TierLayer, ShareByAge::Shares> ShareByAge::shares() const {
  std::map<TierLayer, Shares> means = sums_;
  for (auto& [where, shares] : means) {
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

void ShareAfterUpdates::add(const LaneView& view) {
  if (view.lane != 0 || view.new_tokens == 0) return;
  Track& track = tracks_[view.where];
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
  if (track.followed) track.words.push_back(words_of(track, view.space));
}

std::vector<ShareAfterUpdates::Word> ShareAfterUpdates::words_of(const Track& track,
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

std::map<TierLayer, ShareAfterUpdates::Followed> ShareAfterUpdates::followed() const {
  std::map<TierLayer, Followed> out;
  for (const auto& [where, track] : tracks_) {
    if (is_done(track)) out[where] = track.words;
  }
  return out;
}

}  // namespace mneme::analyze
