// A report of a comparison: verdict, tables, figures, and the files that hold them.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "host/base/text.hpp"
#include "host/figure/page.hpp"
#include "host/figure/pictures.hpp"
#include "host/report/comparison/comparison.hpp"
#include "host/report/differences/differences.hpp"
#include "host/report/differences/statement.hpp"
#include "host/report/figures/figure.hpp"
#include "host/report/tables/tables.hpp"

namespace mneme::report {

struct Report {
  Comparison comparison;
  std::vector<Difference> differences = {};
  std::vector<Difference> pairs = {};  // of all arms; empty: not asked for
  double margin = 0.0;                 // of losses, nats a target; 0: none
  std::vector<Statement> verdict = {};
  std::vector<Sheet> sheets = {};
  std::vector<Figure> figures = {};

  // What the text tables say, with the verdict first, in lines of at most `width` columns (0 =
  // any).
  [[nodiscard]] std::string text(std::size_t width = 0) const;
  // The same tables in Markdown, and the samples side by side.
  [[nodiscard]] std::string markdown() const;
  // Tables for a paper and its appendix: latex/paper.hpp.
  [[nodiscard]] std::string latex() const;
  // Everything but figures and curves, for programs: format "mneme-report", version 1.
  [[nodiscard]] Json json() const;
  // Writes into a folder, which is made: index.html, report.json, report.txt, report.md, report.tex
  // and its parts table.tex and appendix.tex, a CSV file of each table, and
  // figures/<figure>.vl.json; index.html last. Files of an earlier report there, which its
  // report.json names, are replaced, and removed where this report has none of the name. Equal
  // reports write equal bytes. Returns the page's path. Error (kRun) naming the file that cannot be
  // written.
  [[nodiscard]] std::filesystem::path write(const std::filesystem::path& folder) const;
  // The specifications of the figures that write() writes into the folder.
  [[nodiscard]] std::vector<std::filesystem::path> figure_files(
      const std::filesystem::path& folder) const;
};

// Computes everything; with `has_pairs` every arm is compared with every other, too, and with a
// `margin` above 0 losses are held against it. Deterministic: equal comparisons give equal reports.
[[nodiscard]] Report make_report(Comparison comparison, bool has_pairs = false,
                                 double margin = 0.0);

// The verdict's sentences one after the other, summaries among them.
[[nodiscard]] std::vector<std::string> sentences_of(const std::vector<Statement>& verdict);

// The report as one HTML page that needs no other file and no network. `vega`: the script that
// draws the figures, by default that of the program. Without one, as in programs that were built
// without Vega-Lite, the page has the tables, and says how to get the figures.
[[nodiscard]] std::string page(const Report& report, std::string_view vega = figure::vega_bundle());

using figure::draw_pictures;
using figure::Drawer;
using figure::find_drawer;
using figure::has_vega;
using figure::json_text;
using figure::kWithoutVega;  // what to do without it
using figure::picture_formats;

}  // namespace mneme::report
