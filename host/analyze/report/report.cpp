#include "host/analyze/report/report.hpp"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "host/base/file/file.hpp"
#include "host/base/text.hpp"
#include "host/figure/page.hpp"

namespace mneme::analyze {
namespace {

constexpr std::int64_t kTextBefore = 8;  // tokens

std::string layer_title(const TierLayer& where) { return str(where.tier, ", layer ", where.layer); }

figure::Colour colour_of_memories(const std::vector<Subject>& subjects) {
  figure::Colour colour{.field = "memory", .title = "memory"};
  for (const Subject& subject : subjects) colour.names.push_back(subject.name);
  return colour;
}

std::size_t columns_for(std::size_t panels) { return panels <= 2 ? panels : panels == 4 ? 2 : 3; }

}  // namespace

void FigureFiles::save(const std::string& name, const Csv& csv) {
  csv.save(folder_ / (name + ".csv"));
  names_.push_back(name + ".csv");
}

void FigureFiles::save(const Csv& csv, figure::Figure figure) {
  save(figure.key, csv);
  names_.push_back(figure::save(figure, folder_));
  figures_.push_back(std::move(figure));
}

void FigureFiles::save_page(const std::string& name, const std::string& title,
                            const std::vector<std::string>& lines) {
  write_file_atomic(folder_ / (name + ".html"), figure::figures_page(title, lines, figures_));
  names_.push_back(name + ".html");
}

AnalysisReport::AnalysisReport(std::filesystem::path folder, std::vector<Subject> subjects,
                               TokenText text)
    : files_(std::move(folder)), subjects_(std::move(subjects)), text_(text) {}

void AnalysisReport::write_page(const std::string& title, const std::vector<std::string>& lines) {
  files_.save_page("analysis", title, lines);
}

std::string AnalysisReport::token(const MemoryAnalysis& analysis, std::int64_t lane,
                                  std::int64_t position) const {
  return text_.of(analysis.trace.token(lane, position));
}

void AnalysisReport::write_attention() {
  Csv csv({"memory", "tier", "layer", "head", "from", "to", "mass"});
  figure::Chart chart{
      .x = {.field = "from", .title = "place in the memory, 0 = oldest, 1 = newest"},
      .y = figure::from_zero("mass", "share of attention"),
      .colour = colour_of_memories(subjects_),
      .tips = {{"memory", "memory"},
               {"panel", "head"},
               {"from", "from", ".3f"},
               {"to", "to", ".3f"},
               {"mass", "share of attention", ".4f"}}};
  std::map<TierHead, std::string> panels;
  std::set<std::string> tiers;
  for (const Subject& subject : subjects_) {
    for (const auto& [at, head] : subject.analysis->attention.heads()) tiers.insert(at.where.tier);
  }
  std::size_t heads = 1;
  for (const Subject& subject : subjects_) {
    for (const auto& [at, head] : subject.analysis->attention.heads()) {
      const std::string tier = tiers.size() > 1 ? at.where.tier + ", " : "";
      const std::string panel = str(tier, "layer ", at.where.layer, ", head ", at.head);
      panels.emplace(at, panel);
      heads = std::max(heads, static_cast<std::size_t>(at.head + 1));
      const std::vector<double> edges = even_edges(head.mass.size());
      for (std::size_t i = 0; i < head.mass.size(); ++i) {
        csv.add(subject.name, at.where.tier, at.where.layer, at.head, edges[i], edges[i + 1],
                head.mass[i]);
        chart.values.push_back({{"memory", subject.name},
                                {"panel", panel},
                                {"from", edges[i]},
                                {"to", edges[i + 1]},
                                {"mass", head.mass[i]}});
      }
    }
  }
  chart.panels = {.field = "panel", .columns = heads};
  for (const auto& [at, panel] : panels) chart.panels.names.push_back(panel);
  files_.save(
      csv,
      {.key = "attention",
       .title = "Attention over the memory",
       .caption = "How much of the queries' densities lies in each part of the memory: mean over "
                  "queries.",
       .spec = figure::bars(chart, "to")});
}

void AnalysisReport::write_space() {
  Csv csv({"memory", "tier", "layer", "age_from", "age_to", "share", "tokens_left"});
  figure::Chart chart{.x = {.field = "from", .title = "age, tokens absorbed since"},
                      .y = figure::from_zero("share", "share of the memory"),
                      .colour = colour_of_memories(subjects_),
                      .tips = {{"memory", "memory"},
                               {"from", "age from, tokens"},
                               {"to", "to"},
                               {"share", "share of the memory", ".4f"},
                               {"left", "tokens left", ".2f"}}};
  std::vector<std::string> panels;
  for (const Subject& subject : subjects_) {
    const ShareByAge& space = subject.analysis->share_by_age;
    for (const auto& [where, shares] : space.shares()) {
      const std::string panel = add_once(panels, layer_title(where));
      for (std::size_t s = 0; s < shares.share.size(); ++s) {
        const auto from = static_cast<std::int64_t>(s) * space.stretch();
        csv.add(subject.name, where.tier, where.layer, from, from + space.stretch() - 1,
                shares.share[s], shares.remaining[s]);
        chart.values.push_back({{"memory", subject.name},
                                {"panel", panel},
                                {"from", from},
                                {"to", from + space.stretch()},
                                {"share", shares.share[s]},
                                {"left", shares.remaining[s]}});
      }
    }
  }
  chart.panels = {.field = "panel", .names = panels, .columns = columns_for(panels.size())};
  files_.save(csv, {.key = "space",
                    .title = "Share of the memory by age",
                    .caption = str("How much of the memory belongs to stretches of ",
                                   subjects_.front().analysis->share_by_age.stretch(),
                                   " tokens of the past: mean over writes."),
                    .spec = figure::bars(chart, "to")});
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
  figure::Chart chart{
      .x = figure::from_zero("share", "share of all layers' and heads' attention"),
      .y = {.field = "name", .title = ""},
      .panels = {.field = "memory", .columns = 1},
      .tips = {{"name", "token (position)"}, {"lane", "lane"}, {"share", "share", ".5f"}}};
  for (const Subject& subject : subjects_) {
    const std::vector<AttendedToken> overall = subject.analysis->tokens.overall(count);
    add(subject, "all", "all", "all", overall);
    for (const auto& [at, tokens] : subject.analysis->tokens.by_head(count)) {
      add(subject, at.where.tier, str(at.where.layer), str(at.head), tokens);
    }
    for (const AttendedToken& one : overall) {
      chart.values.push_back(
          {{"memory", subject.name},
           {"name", str(token(*subject.analysis, one.lane, one.token), "  (", one.token, ')')},
           {"lane", one.lane},
           {"share", one.share}});
    }
    chart.panels.names.push_back(subject.name);
  }
  files_.save(csv, {.key = "tokens",
                    .title = "Past tokens that are attended most",
                    .caption = "The token's position in its lane, from 0, stands behind it.",
                    .spec = figure::ranking(chart, "name")});
}

void AnalysisReport::write_words() {
  Csv words({"memory", "tier", "layer", "updates", "position", "write", "token", "share"});
  Csv updates({"memory", "tier", "layer", "updates", "words_left", "share"});
  const figure::Axis share = figure::from_zero("share", "share of the memory");
  figure::Chart last{.x = {.field = "position", .title = "position in the lane, tokens"},
                     .y = share,
                     .colour = colour_of_memories(subjects_),
                     .tips = {{"memory", "memory"},
                              {"token", "token"},
                              {"position", "position"},
                              {"share", "share of the memory", ".4f"}}};
  figure::Chart whole{.x = {.field = "updates",
                            .title = "updates since the segment was absorbed",
                            .scale = figure::Axis::Scale::kFromZero,
                            .is_whole = true},
                      .y = share,
                      .colour = colour_of_memories(subjects_),
                      .tips = {{"memory", "memory"},
                               {"updates", "updates"},
                               {"left", "words left"},
                               {"share", "share of the memory", ".4f"}}};
  std::vector<std::string> panels;
  for (const Subject& subject : subjects_) {
    for (const auto& [where, followed] : subject.analysis->share_after_updates.followed()) {
      const std::string panel = add_once(panels, layer_title(where));
      for (std::size_t k = 0; k < followed.size(); ++k) {
        double sum = 0.0;
        std::int64_t left = 0;
        for (const ShareAfterUpdates::Word& word : followed[k]) {
          const std::string text = token(*subject.analysis, 0, word.token);
          words.add(subject.name, where.tier, where.layer, k, word.token, word.write, text,
                    word.share);
          if (k + 1 == followed.size()) {
            last.values.push_back({{"memory", subject.name},
                                   {"panel", panel},
                                   {"position", word.token},
                                   {"token", text},
                                   {"share", word.share}});
          }
          if (word.write != 0) continue;
          sum += word.share;
          left += word.share > 0.0 ? 1 : 0;
        }
        updates.add(subject.name, where.tier, where.layer, k, left, sum);
        whole.values.push_back({{"memory", subject.name},
                                {"panel", panel},
                                {"updates", k},
                                {"left", left},
                                {"share", sum}});
      }
    }
  }
  last.panels =
      whole.panels = {.field = "panel", .names = panels, .columns = columns_for(panels.size())};
  files_.save(
      words,
      {.key = "words",
       .title = "Space of each word after the last followed update",
       .caption = "How much of the memory belongs to each word of the followed segment and of "
                  "those before and behind it.",
       .spec = figure::lines(last)});
  files_.save(updates,
              {.key = "updates",
               .title = "Space of a segment as it grows old",
               .caption = "How much of the memory belongs to the followed segment as a whole.",
               .spec = figure::lines(whole)});
}

void AnalysisReport::write_better() {
  const MemoryAnalysis& analysis = *subjects_.front().analysis;
  if (!analysis.gains) return;
  Csv csv({"lane", "position", "target", "text_before", "nll", "other_nll", "gain", "tier", "layer",
           "word_position", "word", "mass"});
  figure::Chart chart{.x = figure::from_zero("gain", "gain, nats"),
                      .y = {.field = "name", .title = ""},
                      .tips = {{"before", "text before"},
                               {"target", "target"},
                               {"position", "position"},
                               {"nll", "loss, nats", ".4f"},
                               {"other", "loss of the other, nats", ".4f"},
                               {"gain", "gain, nats", ".4f"}}};
  for (const GainedTarget& word : analysis.gains->targets()) {
    const std::string target = text_.of(word.target);
    const std::int64_t first = std::max<std::int64_t>(0, word.token + 1 - kTextBefore);
    const std::string before = tokens_text(analysis, text_, word.lane, first, word.token + 1);
    const auto add = [&](const auto&... looked_at) {
      csv.add(word.lane, word.token + 1, target, before, word.nll, word.other_nll, word.gain(),
              looked_at...);
    };
    for (const MemoryWord& seen : word.looked_at) {
      add(seen.where.tier, seen.where.layer, seen.token, token(analysis, word.lane, seen.token),
          seen.mass);
    }
    if (word.looked_at.empty()) add("", "", "", "", "");
    const std::string previous = token(analysis, word.lane, word.token);
    chart.values.push_back({{"name", str(previous, " > ", target, "  (", word.token + 1, ')')},
                            {"before", before},
                            {"target", target},
                            {"position", word.token + 1},
                            {"nll", word.nll},
                            {"other", word.other_nll},
                            {"gain", word.gain()}});
  }
  files_.save(
      csv,
      {.key = "better",
       .title = "Words that " + subjects_.front().name + " predicts better",
       .caption = "The token before > the word that is predicted (its position). Gain: the other "
                  "memory's loss minus this one's.",
       .spec = figure::ranking(chart, "name")});
}

std::string tokens_text(const MemoryAnalysis& analysis, const TokenText& text, std::int64_t lane,
                        std::int64_t from, std::int64_t to) {
  std::vector<std::string> tokens;
  for (std::int64_t i = from; i < to; ++i) {
    tokens.push_back(text.of(analysis.trace.token(lane, i)));
  }
  return join(tokens, " ");
}

void AnalysisReport::write_utterances(std::size_t count) {
  Csv csv({"memory", "dialogue", "turn", "utterance", "rank", "from", "to", "mass", "share",
           "passage"});
  bool has_any = false;
  for (const Subject& subject : subjects_) {
    const MemoryAnalysis& analysis = *subject.analysis;
    if (!analysis.documents) continue;
    for (const Utterance& one : analysis.documents->utterances(count)) {
      const std::string utterance = tokens_text(analysis, text_, one.lane, one.begin, one.end);
      std::int64_t rank = 0;
      for (const Passage& passage : one.passages) {
        csv.add(subject.name, one.dialogue, one.turn, utterance, ++rank, passage.from, passage.to,
                passage.mass, passage.share,
                tokens_text(analysis, text_, one.lane, one.document + passage.from,
                            one.document + passage.to));
        has_any = true;
      }
    }
  }
  if (!has_any) return;
  files_.save("utterances", csv);
}

void AnalysisReport::write_alpha() {
  Csv csv({"memory", "tier", "layer", "place", "alpha", "segments"});
  figure::Chart chart{
      .x = {.field = "place", .title = "place in the memory, 0 = oldest row", .is_whole = true},
      .y = {.field = "alpha", .title = "alpha, mean over heads"},
      .colour = {.field = "layer", .title = "layer", .is_ordered = true},
      .tips = {
          {"panel", "memory"}, {"layer", "layer"}, {"place", "place"}, {"alpha", "alpha", ".4f"}}};
  std::vector<std::string> panels;
  std::set<std::int64_t> layers;
  for (const Subject& subject : subjects_) {
    for (const auto& [where, layer] : subject.analysis->alpha.layers()) {
      const std::string panel =
          add_once(panels, str(subject.name, ", ", where.tier, ", ", layer.segments, " segments"));
      layers.insert(where.layer);
      for (std::size_t m = 0; m < layer.alpha.size(); ++m) {
        csv.add(subject.name, where.tier, where.layer, m, layer.alpha[m], layer.segments);
        chart.values.push_back({{"panel", panel},
                                {"layer", str(where.layer)},
                                {"place", m},
                                {"alpha", layer.alpha[m]}});
      }
    }
  }
  if (panels.empty()) return;
  for (const std::int64_t layer : layers) chart.colour.names.push_back(str(layer));
  chart.panels = {
      .field = "panel", .names = panels, .columns = std::min<std::size_t>(2, panels.size())};
  files_.save(
      csv, {.key = "alpha",
            .title = "What memory rows keep of their context (alpha)",
            .caption = str(join(panels, "; "),
                           ": the weight that a row of the memory gives to its earlier context, "
                           "against 1 - alpha for the new tokens; mean over segments with a full "
                           "memory, lanes and heads."),
            .spec = figure::lines(chart)});
}

void AnalysisReport::write_regions() {
  Csv csv({"memory", "tier", "layer", "region", "place", "share", "segments"});
  figure::Chart chart{
      .x = {.field = "place", .title = "place, 0 = oldest", .is_whole = true},
      .y = figure::from_zero("share", "share of attention"),
      .colour = {.field = "region", .title = "rows"},
      .tips = {{"region", "rows"}, {"place", "place"}, {"share", "share of attention", ".5f"}}};
  std::vector<std::string> panels, regions;
  for (const Subject& subject : subjects_) {
    for (const auto& [where, layer] : subject.analysis->regions.layers()) {
      const std::string panel = add_once(
          panels, str(subjects_.size() > 1 ? subject.name + ", " : "", layer_title(where)));
      for (std::size_t r = 0; r < layer.places.size(); ++r) {
        const std::string region(MassByRegion::kRegions.at(r));
        const std::int64_t first = layer.first(r);
        for (std::int64_t i = first; i < first + layer.places.at(r); ++i) {
          const double share = layer.share[static_cast<std::size_t>(i)];
          csv.add(subject.name, where.tier, where.layer, region, i, share, layer.segments);
          chart.values.push_back({{"panel", panel},
                                  {"region", add_once(regions, region)},
                                  {"place", i},
                                  {"share", share}});
        }
      }
    }
  }
  if (panels.empty()) return;
  chart.colour.names = regions;
  chart.panels = {.field = "panel", .names = panels, .columns = columns_for(panels.size())};
  files_.save(
      csv, {.key = "regions",
            .title = "Attention by place: compressed memory, memory, segment",
            .caption = "Share of attention of each place: mean over segments with full memories, "
                       "lanes, heads and queries.",
            .spec = figure::lines(chart)});
}

const std::string& add_once(std::vector<std::string>& names, const std::string& name) {
  if (std::ranges::find(names, name) == names.end()) names.push_back(name);
  return name;
}

}  // namespace mneme::analyze
