#include "host/report/suite/suite_report.hpp"

#include <algorithm>
#include <iterator>
#include <system_error>
#include <utility>

#include "host/base/error.hpp"
#include "host/base/file/file.hpp"
#include "host/figure/page.hpp"
#include "host/figure/pictures.hpp"

namespace mneme::report {
namespace {

namespace fs = std::filesystem;

// What an earlier report of more seeds or fewer tasks may have left: best effort.
void remove_aggregates(const fs::path& folder) {
  std::error_code ignored;
  for (const std::string key : {kAggregatesKey, kProfilesKey})
    fs::remove(folder / (key + ".csv"), ignored);
  std::vector<std::string> endings = figure::picture_formats();
  endings.emplace_back("vl.json");
  for (const std::string& ending : endings)
    fs::remove(folder / "figures" / str(kProfilesKey, '.', ending), ignored);
  fs::remove(folder / "suite.html", ignored);
}

}  // namespace

SuiteReport suite_report(const fs::path& folder, const SuiteRecord& record) {
  SuiteScores scores;
  SuiteReport out;
  out.sheets.push_back(suite_sheet(folder, record, scores));
  out.figures = suite_figures(record, out.sheets.front());
  if (record.kind != SuiteKind::kSuite) return out;
  SuiteAggregates over_tasks = aggregate_suite(scores);
  if (!over_tasks.why_none.empty()) out.sheets.front().notes.push_back(over_tasks.why_none);
  std::ranges::move(over_tasks.sheets, std::back_inserter(out.sheets));
  std::ranges::move(over_tasks.figures, std::back_inserter(out.figures));
  return out;
}

std::string SuiteReport::text(Format format, std::size_t width) const {
  if (format == Format::kJson) return figure::json_text(json(), 2) + '\n';
  return write_sheets(sheets, format, width);
}

Json SuiteReport::json() const {
  Json out = to_json(sheets.front());
  for (const Sheet& sheet : sheets) {
    if (sheet.key == kAggregatesKey) out["aggregates"] = to_json(sheet);
    if (sheet.key == kProfilesKey) out["profiles"] = to_json(sheet);
  }
  return out;
}

void SuiteReport::write(const fs::path& folder) const {
  std::error_code code;
  fs::create_directories(figures.empty() ? folder : folder / "figures", code);
  if (code) fail_file(folder, "make the folder", code.value());
  if (figures.empty()) remove_aggregates(folder);
  for (const auto& [format, name] :
       {std::pair(Format::kText, "suite.txt"), std::pair(Format::kMarkdown, "suite.md"),
        std::pair(Format::kLatex, "suite.tex"), std::pair(Format::kJson, "suite-table.json")}) {
    write_file_atomic(folder / name, text(format));
  }
  for (const Sheet& sheet : sheets)
    write_file_atomic(folder / (sheet.key + ".csv"), write_sheet(sheet, Format::kCsv));
  for (const figure::Figure& one : figures) figure::save(one, folder / "figures");
  if (figures.empty()) return;
  std::vector<std::string> lines;
  for (const Sheet& sheet : sheets)
    lines.insert(lines.end(), sheet.notes.begin(), sheet.notes.end());
  write_file_atomic(folder / "suite.html",
                    figure::figures_page(sheets.front().title, lines, figures));
}

std::vector<fs::path> SuiteReport::figure_files(const fs::path& folder) const {
  std::vector<fs::path> out;
  for (const figure::Figure& one : figures)
    out.push_back(folder / "figures" / (one.key + ".vl.json"));
  return out;
}

}  // namespace mneme::report
