#include "host/analyze/report/report.hpp"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "host/analyze/report/chart.hpp"
#include "host/base/text.hpp"

namespace mneme::analyze {
namespace {

constexpr std::int64_t kTextBefore = 8;  // tokens

std::string title_of(const std::vector<Subject>& subjects, const Subject& subject,
                     const TierLayer& where) {
  return str(subjects.size() > 1 ? subject.name + ", " : "", "layer ", where.layer);
}

// A panel for each tier and layer, with a line for each memory.
class PlacePanels {
 public:
  void add(const std::string& memory, const TierLayer& where, std::vector<SvgPoint> points) {
    panels_[where].series.push_back({.name = memory, .points = std::move(points)});
  }
  [[nodiscard]] std::vector<LinePanel> panels() const {
    std::vector<LinePanel> out;
    for (const auto& [where, panel] : panels_) {
      out.push_back({.title = str(where.tier, ", layer ", where.layer), .series = panel.series});
    }
    return out;
  }

 private:
  std::map<TierLayer, LinePanel> panels_;
};

}  // namespace

AnalysisReport::AnalysisReport(std::filesystem::path folder, std::vector<Subject> subjects,
                               TokenText text)
    : folder_(std::move(folder)), subjects_(std::move(subjects)), text_(text) {}

void AnalysisReport::save(const std::string& name, const Csv& csv, const Svg& svg) {
  csv.save(folder_ / (name + ".csv"));
  svg.save(folder_ / (name + ".svg"));
  files_.insert(files_.end(), {name + ".csv", name + ".svg"});
}

std::string AnalysisReport::token(const MemoryAnalysis& analysis, std::int64_t lane,
                                  std::int64_t position) const {
  return text_.of(analysis.trace().history(lane).at(static_cast<std::size_t>(position)));
}

void AnalysisReport::write_attention() {
  Csv csv({"memory", "tier", "layer", "head", "from", "to", "mass"});
  std::vector<BarPanel> panels;
  std::size_t columns = 1;
  for (const Subject& subject : subjects_) {
    for (const auto& [at, head] : subject.analysis->attention().heads()) {
      const std::vector<double> edges = even_edges(head.mass.size());
      for (std::size_t i = 0; i < head.mass.size(); ++i) {
        csv.add(subject.name, at.where.tier, at.where.layer, at.head, edges[i], edges[i + 1],
                head.mass[i]);
      }
      columns = std::max(columns, static_cast<std::size_t>(at.head + 1));
      panels.push_back({.title = str(title_of(subjects_, subject, at.where), ", head ", at.head),
                        .values = head.mass});
    }
  }
  save("attention", csv,
       bar_chart({.title = "Attention over the memory, old (0) to new (1)",
                  .x_label = "place in the memory",
                  .y_label = "mass of the densities, mean over queries"},
                 panels, columns));
}

void AnalysisReport::write_space() {
  Csv csv({"memory", "tier", "layer", "age_from", "age_to", "share", "tokens_left"});
  std::vector<BarPanel> panels;
  for (const Subject& subject : subjects_) {
    const ShareByAge& space = subject.analysis->space();
    for (const auto& [where, shares] : space.shares()) {
      for (std::size_t s = 0; s < shares.share.size(); ++s) {
        const auto from = static_cast<std::int64_t>(s) * space.stretch();
        csv.add(subject.name, where.tier, where.layer, from, from + space.stretch() - 1,
                shares.share[s], shares.remaining[s]);
      }
      const auto end =
          static_cast<double>(shares.share.size()) * static_cast<double>(space.stretch());
      panels.push_back({.title = title_of(subjects_, subject, where),
                        .values = shares.share,
                        .from = 0.0,
                        .to = end});
    }
  }
  save("space", csv,
       bar_chart({.title = "Share of the memory by age",
                  .x_label = "tokens absorbed since",
                  .y_label = "share of the memory, mean over writes"},
                 panels, 4));
}

void AnalysisReport::write_tokens(std::size_t count) {
  Csv csv(
      {"memory", "tier", "layer", "head", "rank", "lane", "position", "token", "mass", "share"});
  const auto add = [&](const Subject& subject, const std::string& tier, const std::string& layer,
                       const std::string& head, const std::vector<AttendedToken>& tokens) {
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      const AttendedToken& one = tokens[i];
      csv.add(subject.name, tier, layer, head, i + 1, one.lane, one.token,
              token(*subject.analysis, one.lane, one.token), one.mass, one.share);
    }
  };
  std::vector<std::pair<std::string, Svg>> figures;
  for (const Subject& subject : subjects_) {
    const std::vector<AttendedToken> overall = subject.analysis->tokens().overall(count);
    add(subject, "all", "all", "all", overall);
    for (const auto& [at, tokens] : subject.analysis->tokens().by_head(count)) {
      add(subject, at.where.tier, str(at.where.layer), str(at.head), tokens);
    }
    std::vector<NamedBar> bars;
    for (const AttendedToken& one : overall) {
      bars.push_back(
          {str(token(*subject.analysis, one.lane, one.token), "  (", one.token, ')'), one.share});
    }
    figures.emplace_back(
        subjects_.size() > 1 ? str("tokens_", subject.name, ".svg") : "tokens.svg",
        ranking_chart({.title = "Past tokens that are attended most: " + subject.name,
                       .x_label = "share of all layers' and heads' attention",
                       .y_label = ""},
                      bars));
  }
  csv.save(folder_ / "tokens.csv");
  files_.emplace_back("tokens.csv");
  for (const auto& [name, figure] : figures) {
    figure.save(folder_ / name);
    files_.push_back(name);
  }
}

void AnalysisReport::write_words() {
  Csv words({"memory", "tier", "layer", "updates", "position", "write", "token", "share"});
  Csv updates({"memory", "tier", "layer", "updates", "words_left", "share"});
  PlacePanels last, whole;
  for (const Subject& subject : subjects_) {
    for (const auto& [where, followed] : subject.analysis->words().followed()) {
      std::vector<SvgPoint> by_update, by_word;
      for (std::size_t k = 0; k < followed.size(); ++k) {
        double share = 0.0;
        std::int64_t left = 0;
        by_word.clear();
        for (const ShareAfterUpdates::Word& word : followed[k]) {
          words.add(subject.name, where.tier, where.layer, k, word.token, word.write,
                    token(*subject.analysis, 0, word.token), word.share);
          by_word.push_back({static_cast<double>(word.token), word.share});
          if (word.write != 0) continue;
          share += word.share;
          left += word.share > 0.0 ? 1 : 0;
        }
        updates.add(subject.name, where.tier, where.layer, k, left, share);
        by_update.push_back({static_cast<double>(k), share});
      }
      last.add(subject.name, where, std::move(by_word));
      whole.add(subject.name, where, std::move(by_update));
    }
  }
  save("words", words,
       line_chart({.title = "Space of each word after the last followed update",
                   .x_label = "position in the lane, tokens",
                   .y_label = "share of the memory"},
                  last.panels(), 2));
  save("updates", updates,
       line_chart({.title = "Space of a segment as it grows old",
                   .x_label = "updates since it was absorbed",
                   .y_label = "share of the memory"},
                  whole.panels(), 2));
}

std::string AnalysisReport::text_before(const MemoryAnalysis& analysis,
                                        const GainedTarget& word) const {
  std::vector<std::string> parts;
  for (std::int64_t i = std::max<std::int64_t>(0, word.token + 1 - kTextBefore); i <= word.token;
       ++i) {
    parts.push_back(token(analysis, word.lane, i));
  }
  return join(parts, " ");
}

void AnalysisReport::write_better() {
  const MemoryAnalysis& analysis = *subjects_.front().analysis;
  if (!analysis.better()) return;
  Csv csv({"lane", "position", "target", "text_before", "nll", "other_nll", "gain", "tier", "layer",
           "word_position", "word", "mass"});
  std::vector<NamedBar> bars;
  for (const GainedTarget& word : analysis.better()->words()) {
    const std::string target = text_.of(word.target);
    const std::string before = text_before(analysis, word);
    const auto add = [&](const auto&... looked_at) {
      csv.add(word.lane, word.token + 1, target, before, word.nll, word.other_nll, word.gain(),
              looked_at...);
    };
    for (const MemoryWord& seen : word.looked_at) {
      add(seen.where.tier, seen.where.layer, seen.token, token(analysis, word.lane, seen.token),
          seen.mass);
    }
    if (word.looked_at.empty()) add("", "", "", "", "");
    bars.push_back({str(before, " > ", target), word.gain()});
  }
  save("better", csv,
       ranking_chart({.title = "Words that " + subjects_.front().name + " predicts better",
                      .x_label = "gain in nats",
                      .y_label = ""},
                     bars));
}

void AnalysisReport::write_alpha() {
  Csv csv({"memory", "tier", "layer", "place", "alpha", "segments"});
  std::map<std::pair<std::string, std::string>, LinePanel> panels;  // by memory and tier
  for (const Subject& subject : subjects_) {
    for (const auto& [where, layer] : subject.analysis->alpha().layers()) {
      LinePanel& panel = panels[{subject.name, where.tier}];
      panel.title = str(subject.name, ", ", where.tier, ", ", layer.segments, " segments");
      Series curve{.name = str("layer ", where.layer), .points = {}};
      for (std::size_t m = 0; m < layer.alpha.size(); ++m) {
        csv.add(subject.name, where.tier, where.layer, m, layer.alpha[m], layer.segments);
        curve.points.push_back({static_cast<double>(m), layer.alpha[m]});
      }
      panel.series.push_back(std::move(curve));
    }
  }
  if (panels.empty()) return;
  std::vector<LinePanel> drawn;
  for (auto& [key, panel] : panels) drawn.push_back(std::move(panel));
  save("alpha", csv,
       line_chart({.title = "What memory rows keep of their context (alpha), mean over heads",
                   .x_label = "place in the memory, 0 = oldest",
                   .y_label = "alpha"},
                  drawn, 2));
}

void AnalysisReport::write_regions() {
  Csv csv({"memory", "tier", "layer", "region", "place", "share", "segments"});
  std::vector<LinePanel> panels;
  for (const Subject& subject : subjects_) {
    for (const auto& [where, layer] : subject.analysis->regions().layers()) {
      LinePanel panel{.title = str(subjects_.size() > 1 ? subject.name + ", " : "", where.tier,
                                   ", layer ", where.layer),
                      .series = {}};
      for (std::size_t r = 0; r < layer.places.size(); ++r) {
        Series curve{.name = MassByRegion::kRegions.at(r), .points = {}};
        const std::int64_t first = layer.first(r);
        for (std::int64_t i = first; i < first + layer.places.at(r); ++i) {
          const double share = layer.share[static_cast<std::size_t>(i)];
          csv.add(subject.name, where.tier, where.layer, curve.name, i, share, layer.segments);
          curve.points.push_back({static_cast<double>(i), share});
        }
        panel.series.push_back(std::move(curve));
      }
      panels.push_back(std::move(panel));
    }
  }
  if (panels.empty()) return;
  save("regions", csv,
       line_chart({.title = "Attention by place: compressed memory, memory, segment",
                   .x_label = "place, 0 = oldest",
                   .y_label = "share of attention, mean over heads and queries"},
                  panels, 2));
}

namespace {

Json json_of(const TierLayer& where) { return {{"tier", where.tier}, {"layer", where.layer}}; }

Json attention_json(const AttentionHistogram& attention) {
  Json out = Json::array();
  for (const auto& [at, head] : attention.heads()) {
    Json one = json_of(at.where);
    one["head"] = at.head;
    one["queries"] = head.queries;
    one["mean_place"] = head.mean_place;
    one["mean_deviation"] = head.mean_deviation;
    one["mass"] = head.mass;
    out.push_back(std::move(one));
  }
  return out;
}

Json space_json(const ShareByAge& space) {
  Json layers = Json::array();
  for (const auto& [where, shares] : space.shares()) {
    Json one = json_of(where);
    one["writes"] = shares.writes;
    one["share"] = shares.share;
    one["tokens_left"] = shares.remaining;
    layers.push_back(std::move(one));
  }
  return {{"stretch", space.stretch()}, {"layers", std::move(layers)}};
}

// The share of the memory of the followed segment, after each update.
Json updates_json(const ShareAfterUpdates& words) {
  Json out = Json::array();
  for (const auto& [where, followed] : words.followed()) {
    Json one = json_of(where);
    one["share"] = Json::array();
    one["words_left"] = Json::array();
    for (const auto& update : followed) {
      double share = 0.0;
      std::int64_t left = 0;
      for (const ShareAfterUpdates::Word& word : update) {
        if (word.write != 0 || word.share == 0.0) continue;
        share += word.share;
        ++left;
      }
      one["share"].push_back(share);
      one["words_left"].push_back(left);
    }
    out.push_back(std::move(one));
  }
  return out;
}

Json alpha_json(const AlphaByPlace& alpha) {
  Json out = Json::array();
  for (const auto& [where, layer] : alpha.layers()) {
    Json one = json_of(where);
    one["segments"] = layer.segments;
    one["alpha"] = layer.alpha;
    out.push_back(std::move(one));
  }
  return out;
}

Json regions_json(const MassByRegion& regions) {
  Json out = Json::array();
  for (const auto& [where, layer] : regions.layers()) {
    Json one = json_of(where);
    one["segments"] = layer.segments;
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
  for (const AttendedToken& one : analysis.tokens().overall(count)) {
    const std::int64_t id =
        analysis.trace().history(one.lane).at(static_cast<std::size_t>(one.token));
    tokens.push_back({{"lane", one.lane},
                      {"position", one.token},
                      {"token", text.of(id)},
                      {"mass", one.mass},
                      {"share", one.share}});
  }
  return {{"attention", attention_json(analysis.attention())},
          {"space", space_json(analysis.space())},
          {"tokens", std::move(tokens)},
          {"updates", updates_json(analysis.words())},
          {"alpha", alpha_json(analysis.alpha())},
          {"regions", regions_json(analysis.regions())}};
}

Json to_json(const PredictionGains& better, const MemoryAnalysis& analysis, const TokenText& text) {
  const PredictionGains::Summary summary = better.summary();
  Json words = Json::array();
  for (const GainedTarget& word : better.words()) {
    const std::vector<std::int64_t>& history = analysis.trace().history(word.lane);
    Json looked_at = Json::array();
    for (const MemoryWord& seen : word.looked_at) {
      Json one = json_of(seen.where);
      one["position"] = seen.token;
      one["word"] = text.of(history.at(static_cast<std::size_t>(seen.token)));
      one["mass"] = seen.mass;
      looked_at.push_back(std::move(one));
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
