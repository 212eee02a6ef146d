// The numbers of an analysis for programs.
#include <nlohmann/json.hpp>
#include <utility>

#include "host/analyze/report/report.hpp"

namespace mneme::analyze {
namespace {

// The place, followed by what was measured there.
Json json_at(const TierLayer& where, const Json& measured) {
  Json out = {{"tier", where.tier}, {"layer", where.layer}};
  out.update(measured);
  return out;
}

Json attention_json(const AttentionHistogram& attention) {
  Json out = Json::array();
  for (const auto& [at, head] : attention.heads()) {
    out.push_back(json_at(at.where, {{"head", at.head},
                                     {"queries", head.queries},
                                     {"mean_place", head.mean_place},
                                     {"mean_deviation", head.mean_deviation},
                                     {"mass", head.mass}}));
  }
  return out;
}

Json space_json(const ShareByAge& space) {
  Json layers = Json::array();
  for (const auto& [where, shares] : space.shares()) {
    layers.push_back(json_at(
        where,
        {{"writes", shares.writes}, {"share", shares.share}, {"tokens_left", shares.remaining}}));
  }
  return {{"stretch", space.stretch()}, {"layers", std::move(layers)}};
}

// The share of the memory of the followed segment, after each update.
Json updates_json(const ShareAfterUpdates& words) {
  Json out = Json::array();
  for (const auto& [where, followed] : words.followed()) {
    Json shares = Json::array(), words_left = Json::array();
    for (const auto& update : followed) {
      double share = 0.0;
      std::int64_t left = 0;
      for (const ShareAfterUpdates::Word& word : update) {
        if (word.write != 0 || word.share == 0.0) continue;
        share += word.share;
        ++left;
      }
      shares.push_back(share);
      words_left.push_back(left);
    }
    out.push_back(
        json_at(where, {{"share", std::move(shares)}, {"words_left", std::move(words_left)}}));
  }
  return out;
}

Json alpha_json(const AlphaByPlace& alpha) {
  Json out = Json::array();
  for (const auto& [where, layer] : alpha.layers()) {
    out.push_back(json_at(where, {{"segments", layer.segments}, {"alpha", layer.alpha}}));
  }
  return out;
}

Json regions_json(const MassByRegion& regions) {
  Json out = Json::array();
  for (const auto& [where, layer] : regions.layers()) {
    Json one = json_at(where, {{"segments", layer.segments}});
    for (std::size_t r = 0; r < layer.places.size(); ++r) {
      one[MassByRegion::kRegions.at(r)] = {{"places", layer.places.at(r)},
                                           {"share", layer.total(r)}};
    }
    one["share"] = layer.share;
    out.push_back(std::move(one));
  }
  return out;
}

}  // namespace

Json to_json(const MemoryAnalysis& analysis, const TokenText& text, std::size_t count) {
  Json tokens = Json::array();
  for (const AttendedToken& one : analysis.tokens.overall(count)) {
    tokens.push_back({{"lane", one.lane},
                      {"position", one.token},
                      {"token", text.of(analysis.trace.token(one.lane, one.token))},
                      {"mass", one.mass},
                      {"share", one.share}});
  }
  return {{"attention", attention_json(analysis.attention)},
          {"space", space_json(analysis.share_by_age)},
          {"tokens", std::move(tokens)},
          {"updates", updates_json(analysis.share_after_updates)},
          {"alpha", alpha_json(analysis.alpha)},
          {"regions", regions_json(analysis.regions)}};
}

Json to_json(const PredictionGains& better, const MemoryAnalysis& analysis, const TokenText& text) {
  const PredictionGains::Summary summary = better.summary();
  Json words = Json::array();
  for (const GainedTarget& word : better.targets()) {
    Json looked_at = Json::array();
    for (const MemoryWord& seen : word.looked_at) {
      looked_at.push_back(
          json_at(seen.where, {{"position", seen.token},
                               {"word", text.of(analysis.trace.token(word.lane, seen.token))},
                               {"mass", seen.mass}}));
    }
    words.push_back({{"lane", word.lane},
                     {"position", word.token + 1},
                     {"target", text.of(word.target)},
                     {"nll", word.nll},
                     {"other_nll", word.other_nll},
                     {"looked_at", std::move(looked_at)}});
  }
  return {{"targets", summary.targets},
          {"better", summary.better},
          {"mean_gain", summary.mean_gain},
          {"words", std::move(words)}};
}

}  // namespace mneme::analyze
