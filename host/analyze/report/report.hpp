// The analyses as files: a CSV each, a Vega-Lite specification of its numbers beside it, and one
// page with all figures.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "host/analyze/memory_analyses.hpp"
#include "host/base/file/csv.hpp"
#include "host/base/text.hpp"
#include "host/figure/charts.hpp"
#include "host/figure/figure.hpp"

namespace mneme::analyze {

// The files of figures in a folder that exists. Errors: Error (kRun) when one cannot be written.
class FigureFiles {
 public:
  explicit FigureFiles(std::filesystem::path folder) : folder_(std::move(folder)) {}

  void save(const std::string& name, const Csv& csv);
  // Its specification and numbers: <key>.vl.json, <key>.csv.
  void save(const Csv& csv, figure::Figure figure);
  // `<name>.html`: the figures saved so far under a title and lines of text.
  void save_page(const std::string& name, const std::string& title,
                 const std::vector<std::string>& lines = {});

  // Names in the folder, in the order in which they were written.
  [[nodiscard]] const std::vector<std::string>& names() const { return names_; }

 private:
  std::filesystem::path folder_;
  std::vector<std::string> names_;
  std::vector<figure::Figure> figures_;
};

// An analysed memory with its name in reports.
struct Subject {
  std::string name;
  const MemoryAnalysis* analysis;
};

// Writes FigureFiles. Every CSV has a column `memory`; places of tokens ("position") count from 0 at
// the lane's beginning.
class AnalysisReport {
 public:
  AnalysisReport(std::filesystem::path folder, std::vector<Subject> subjects, TokenText text);

  // attention.csv, .vl.json: memory, tier, layer, head, from, to, mass.
  void write_attention();
  // space.csv, .vl.json: memory, tier, layer, age_from, age_to, share, tokens_left.
  void write_space();
  // tokens.csv: memory, tier, layer, head ("all": over everything), rank, lane, position, token,
  // mass, share; the `count` first of each. tokens.vl.json: over everything, a panel a memory.
  void write_tokens(std::size_t count);
  // words.csv, .vl.json: memory, tier, layer, updates, position, write, token, share; the figure is
  // of the last update. updates.csv, .vl.json: memory, tier, layer, updates, words_left, share of
  // the followed segment as a whole.
  void write_words();
  // better.csv, .vl.json, when the first memory was compared: lane, position, target, text_before,
  // nll, other_nll, gain, tier, layer, word_position, word, mass; a line for each memory word.
  void write_better();

  // utterances.csv, when dialogues were followed: memory, dialogue, turn, utterance, rank, from, to
  // (tokens of the document), mass, share, passage; the `count` first passages of each utterance.
  void write_utterances(std::size_t count);

  // alpha.csv, .vl.json, when a memory published it: memory, tier, layer, place, alpha, segments; a
  // curve a layer.
  void write_alpha();
  // regions.csv, .vl.json, when a memory published them: memory, tier, layer, region, place, share,
  // segments.
  void write_regions();

  // analysis.html: the figures written so far under a title and lines of text.
  void write_page(const std::string& title, const std::vector<std::string>& lines);

  // Names in the folder, in the order in which they were written.
  [[nodiscard]] const std::vector<std::string>& files() const { return files_.names(); }

 private:
  [[nodiscard]] std::string token(const MemoryAnalysis& analysis, std::int64_t lane,
                                  std::int64_t position) const;

  FigureFiles files_;
  std::vector<Subject> subjects_;
  TokenText text_;
};

// Tokens [from, to) of a lane, separated by blanks.
[[nodiscard]] std::string tokens_text(const MemoryAnalysis& analysis, const TokenText& text,
                                      std::int64_t lane, std::int64_t from, std::int64_t to);

// Adds a name that is not among them yet: names in the order of their first appearance. Returns it.
const std::string& add_once(std::vector<std::string>& names, const std::string& name);

// The same numbers of one memory: attention, space, tokens (over everything) and updates; and those
// of its comparison.
[[nodiscard]] Json to_json(const MemoryAnalysis& analysis, const TokenText& text,
                           std::size_t count);
[[nodiscard]] Json to_json(const PredictionGains& better, const MemoryAnalysis& analysis,
                           const TokenText& text);

}  // namespace mneme::analyze
