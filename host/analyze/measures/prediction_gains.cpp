#include "host/analyze/measures/prediction_gains.hpp"

#include <algorithm>

#include "host/analyze/measures/attention.hpp"
#include "host/base/error.hpp"

namespace mneme::analyze {

void TargetLosses::add(const data::TokenSegment& segment, const std::vector<double>& nll) {
  lanes.resize(static_cast<std::size_t>(segment.lanes));
  for (std::size_t b = 0; b < lanes.size(); ++b) {
    for (std::int64_t t = 0; t < segment.valid[b]; ++t) {
      const auto i = b * static_cast<std::size_t>(segment.length) + static_cast<std::size_t>(t);
      lanes[b].push_back({segment.inputs[i], segment.targets[i], nll[i]});
    }
  }
}

void PredictionGains::begin(const data::TokenSegment& segment, const std::vector<double>& nll) {
  const auto lanes = static_cast<std::size_t>(segment.lanes);
  seen_.resize(lanes);
  if (other_.lanes.size() != lanes) {
    throw_usage("comparison of two evaluations: expected equally many lanes, got ", lanes, " and ",
                other_.lanes.size());
  }
  segment_from_ = seen_;
  for (std::size_t b = 0; b < lanes; ++b) {
    const std::vector<TargetLosses::Target>& others = other_.lanes[b];
    for (std::int64_t t = 0; t < segment.valid[b]; ++t) {
      const auto i = b * static_cast<std::size_t>(segment.length) + static_cast<std::size_t>(t);
      const std::int64_t token = seen_[b]++;
      if (token >= static_cast<std::int64_t>(others.size())) continue;
      const TargetLosses::Target& other = others[static_cast<std::size_t>(token)];
      if (other.input != segment.inputs[i]) {
        throw_usage({.where = str("lane ", b, ", token ", token),
                     .failed = "the two evaluations read different texts",
                     .expected = str("id ", segment.inputs[i]),
                     .got = str("id ", other.input),
                     .hint = "compare runs with the same data and vocabulary"});
      }
      if (segment.targets[i] == data::kNoTarget || other.target != segment.targets[i]) continue;
      insert({.lane = static_cast<std::int64_t>(b),
              .token = token,
              .target = segment.targets[i],
              .nll = nll[i],
              .other_nll = other.nll,
              .looked_at = {}});
    }
  }
  segment_to_ = seen_;
}

void PredictionGains::insert(const GainedTarget& word) {
  ++targets_;
  gain_ += word.gain();
  if (word.gain() <= 0.0) return;
  ++better_;
  const auto place =
      std::ranges::upper_bound(words_, word.gain(), std::ranges::greater{}, &GainedTarget::gain);
  words_.insert(place, word);
  if (words_.size() > count_) words_.pop_back();
}

void PredictionGains::add(const LaneView& view) {
  if (view.space.is_empty() || view.heads.empty()) return;
  const auto lane = static_cast<std::size_t>(view.lane);
  for (GainedTarget& word : words_) {
    if (word.lane != view.lane || word.token < segment_from_.at(lane) ||
        word.token >= segment_to_.at(lane)) {
      continue;
    }
    const auto query = static_cast<std::size_t>(word.token - view.first_query);
    std::vector<Density> densities;
    for (const auto& head : view.heads) densities.push_back(head.at(query));
    std::vector<MemoryWord> looked_at;
    for (const auto& [token, mass] : token_masses(densities, view.space)) {
      const double mean = mass / static_cast<double>(densities.size());
      if (mean > threshold_) looked_at.push_back({view.where, token, mean});
    }
    std::ranges::stable_sort(looked_at, std::ranges::greater{}, &MemoryWord::mass);
    word.looked_at.insert(word.looked_at.end(), looked_at.begin(), looked_at.end());
  }
}

PredictionGains::Summary PredictionGains::summary() const {
  return {.targets = targets_,
          .better = better_,
          .mean_gain = targets_ > 0 ? gain_ / static_cast<double>(targets_) : 0.0};
}

}  // namespace mneme::analyze
