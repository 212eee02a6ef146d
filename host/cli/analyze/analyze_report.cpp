#include <algorithm>
#include <nlohmann/json.hpp>

#include "host/analyze/report/report.hpp"
#include "host/cli/analyze/analyze.hpp"
#include "host/cli/eval/eval_report.hpp"
#include "host/base/table.hpp"

namespace mneme::cli {
namespace {

constexpr std::size_t kShownWords = 8;

// A line a layer: what old and new rows keep.
std::string alpha_text(const std::vector<StudiedMemory>& studies, std::size_t width) {
  Table table({"memory", "tier", "layer", "rows", "mean alpha", "oldest", "newest"});
  bool has_any = false;
  for (const StudiedMemory& one : studies) {
    for (const auto& [place, layer] : one.study->alpha().layers()) {
      double sum = 0.0;
      for (const double alpha : layer.alpha) sum += alpha;
      table.add_row({one.memory.name, place.tier, str(place.layer), str(layer.alpha.size()),
                     format_number(sum / static_cast<double>(layer.alpha.size()), 4),
                     format_number(layer.alpha.front(), 4), format_number(layer.alpha.back(), 4)});
      has_any = true;
    }
  }
  return has_any ? table.text(width) : "";
}

// A line a layer: the shares of attention.
std::string regions_text(const std::vector<StudiedMemory>& studies, std::size_t width) {
  Table table({"memory", "tier", "layer", "compressed", "memory rows", "segment"});
  bool has_any = false;
  for (const StudiedMemory& one : studies) {
    for (const auto& [place, layer] : one.study->regions().layers()) {
      std::vector<std::string> row = {one.memory.name, place.tier, str(place.layer)};
      for (std::size_t r = 0; r < layer.places.size(); ++r) {
        row.push_back(format_number(layer.total(r), 4));
      }
      table.add_row(std::move(row));
      has_any = true;
    }
  }
  return has_any ? table.text(width) : "";
}

// Where each head looks, a line each.
std::string attention_text(const std::vector<StudiedMemory>& studies, std::size_t width) {
  const bool has_signal = std::ranges::any_of(
      studies, [](const StudiedMemory& one) { return one.study->has_signal(); });
  if (!has_signal) return "";
  Table table(
      {"memory", "tier", "layer", "head", "queries", "mean place", "deviation", "inside"});
  for (const StudiedMemory& one : studies) {
    for (const auto& [at, head] : one.study->attention().heads()) {
      double inside = 0.0;
      for (const double mass : head.mass) inside += mass;
      table.add_row({one.memory.name, at.place.tier, str(at.place.layer), str(at.head),
                     str(head.queries), format_number(head.mean_place, 3),
                     format_number(head.mean_deviation, 3), format_number(inside, 3)});
    }
  }
  return table.text(width);
}

std::string better_text(const StudiedMemory& first, const analyze::TokenText& text,
                        std::size_t width) {
  const auto& better = first.study->better();
  if (!better) return "";
  const analyze::BetterPredicted::Summary summary = better->summary();
  Table table({"target", "position", "gain", "looked at"});
  for (const analyze::BetterWord& word : better->words()) {
    std::vector<std::string> seen;
    for (const analyze::MemoryWord& one : word.looked_at) {
      seen.push_back(
          text.of(first.study->trace().history(word.lane).at(static_cast<std::size_t>(one.token))));
    }
    if (seen.size() > kShownWords) seen.resize(kShownWords);
    table.add_row({text.of(word.target), str(word.token + 1), format_number(word.gain(), 3),
                   join(seen, " ")});
  }
  return str("\npredicted better by ", first.memory.name, ": ", summary.better, " of ",
             summary.targets, " targets, mean gain ", format_number(summary.mean_gain, 4),
             " nats\n", table.text(width));
}

}  // namespace

Json analysis_json(const AnalyzeArguments& arguments, const OpenEvaluation& run,
                   const std::vector<StudiedMemory>& studies, const analyze::TokenText& text) {
  Json json = {{"format", "mneme-analyze"},
               {"run", arguments.open.run.string()},
               {"step", run.checkpoint.progress().step},
               {"split", arguments.open.split},
               {"lanes", arguments.lanes},
               {"segments", arguments.segments},
               {"data", run.options.dataset->describe()},
               {"differs_from_run", run::to_json(run.differences)},
               {"memories", Json::array()}};
  for (const StudiedMemory& one : studies) {
    Json memory = to_json(one.result);
    memory.erase("breakdown");
    memory.update(analyze::to_json(*one.study, text, static_cast<std::size_t>(arguments.top)));
    json["memories"].push_back(std::move(memory));
  }
  if (const auto& better = studies.front().study->better()) {
    json["better"] = analyze::to_json(*better, *studies.front().study, text);
    json["better"]["against"] =
        arguments.against.empty() ? studies.at(1).memory.name : arguments.against.string();
    json["better"]["threshold"] = arguments.threshold;
  }
  return json;
}

std::string analysis_text(const std::vector<StudiedMemory>& studies, const analyze::TokenText& text,
                          std::size_t width) {
  return attention_text(studies, width) + alpha_text(studies, width) +
         regions_text(studies, width) + better_text(studies.front(), text, width);
}

}  // namespace mneme::cli
