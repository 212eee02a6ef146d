#include "host/analyze/run_diagnostics.hpp"

#include <algorithm>
#include <limits>
#include <map>

#include "host/analyze/memory_analyses.hpp"
#include "host/backbone/attention/positions.hpp"
#include "host/eval/evaluator.hpp"

namespace mneme::analyze {
namespace {

constexpr std::int64_t kReach = 4;  // distances that are looked at, in segments
constexpr std::int64_t kIntervals = 32;
constexpr std::int64_t kStretches = 4;  // of a segment

// Mean over heads, which all read the same bins.
std::vector<scores::LayerValues> density_of(const AttentionHistogram& attention) {
  std::map<TierLayer, std::pair<std::vector<double>, double>> sums;
  for (const auto& [at, head] : attention.heads()) {
    auto& [sum, heads] = sums[at.where];
    sum.resize(head.mass.size(), 0.0);
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += head.mass[i];
    heads += 1.0;
  }
  std::vector<scores::LayerValues> out;
  for (auto& [where, one] : sums) {
    for (double& value : one.first) value /= one.second;
    out.push_back({.tier = where.tier, .layer = where.layer, .values = std::move(one.first)});
  }
  return out;
}

std::vector<scores::LayerValues> distance_of(const backbone::AttentionByDistance& distances) {
  std::vector<scores::LayerValues> out;
  for (const auto& [number, layer] : distances.layers()) {
    scores::LayerValues& one =
        out.emplace_back(scores::LayerValues{.layer = number, .values = layer.weight});
    for (std::size_t i = 0; i < one.values.size(); ++i) {
      if (layer.tokens[i] == 0) one.values[i] = std::numeric_limits<double>::quiet_NaN();
    }
  }
  return out;
}

void take_probes(const MemoryAnalysis& analysis, scores::Diagnostics& out) {
  out.density = density_of(analysis.attention);
  for (const auto& [where, shares] : analysis.share_by_age.shares()) {
    out.age.push_back({.tier = where.tier, .layer = where.layer, .values = shares.share});
  }
  for (const auto& [where, layer] : analysis.alpha.layers()) {
    out.alpha.push_back({.tier = where.tier, .layer = where.layer, .values = layer.alpha});
  }
  for (const auto& [where, layer] : analysis.regions.layers()) {
    out.regions.push_back({.tier = where.tier,
                           .layer = where.layer,
                           .shares = {layer.total(0), layer.total(1), layer.total(2)}});
  }
}

}  // namespace

scores::Diagnostics diagnose(run::Runtime& runtime, data::Split split,
                             const DiagnosticOptions& options) {
  const config::Experiment& experiment = runtime.experiment();
  const data::Dataset& dataset = *runtime.dataset();
  data::StreamOptions cut = run::evaluation_options(experiment, dataset);
  cut.lanes = 1;  // of several, which documents reset at different places, not all can be followed
  cut.max_segments =
      cut.max_segments == 0 ? options.segments : std::min(cut.max_segments, options.segments);
  scores::Diagnostics out;
  out.segments_wanted = options.segments;
  out.lanes = cut.lanes;
  out.distance_width = (kReach * cut.segment + kIntervals - 1) / kIntervals;
  out.stretch = std::max<std::int64_t>(1, cut.segment / kStretches);
  backbone::AttentionByDistance distances(
      {.width = out.distance_width, .intervals = kIntervals, .layers = {}});
  MemoryAnalysis analysis({.stretch = out.stretch});
  eval::Options evaluation;
  evaluation.lanes = cut.lanes;
  evaluation.corpus = dataset.corpus(split);
  evaluation.distances = &distances;
  evaluation.wanted_probes = MemoryAnalysis::wanted_probes();
  evaluation.on_probes = [&](const data::TokenSegment& segment, const std::vector<double>& nll,
                             const std::map<std::string, at::Tensor>& probes) {
    analysis.add(segment, nll, probes);
  };
  evaluation.on_progress = options.on_progress;
  const auto stream = dataset.make_stream(split, cut);
  out.segments =
      eval::evaluate_stream(runtime.model(), runtime.stack(), *stream, evaluation).segments;
  out.distance = distance_of(distances);
  take_probes(analysis, out);
  return out;
}

}  // namespace mneme::analyze
