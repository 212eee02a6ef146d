// The report of a suite: its table, what its tasks say together, and its files.
#pragma once

#include <cstddef>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "host/base/text.hpp"
#include "host/figure/figure.hpp"
#include "host/report/sheet/sheet.hpp"
#include "host/report/suite/suite.hpp"
#include "host/report/tables/tables.hpp"

namespace mneme::report {

struct SuiteReport {
  // suite_sheet; below it, of a list of experiments, the tables of aggregate_suite. A note of the
  // first says why there are none.
  std::vector<Sheet> sheets = {};
  std::vector<figure::Figure> figures = {};  // of suite_figures, or of aggregate_suite

  // All tables in one text; `width` as write_sheet's.
  [[nodiscard]] std::string text(Format format, std::size_t width = 0) const;
  // The first table, with the others under "aggregates" and "profiles".
  [[nodiscard]] Json json() const;
  // Writes suite.txt, suite.md, suite.tex, suite-table.json and a CSV file of each table into the
  // folder, which is made; with figures also figures/<key>.vl.json and the page suite.html. Files
  // of aggregates that an earlier report wrote there are removed where this one has none. Error
  // (kRun) naming what cannot be written.
  void write(const std::filesystem::path& folder) const;
  // The specifications of the figures that write() writes.
  [[nodiscard]] std::vector<std::filesystem::path> figure_files(
      const std::filesystem::path& folder) const;
};

[[nodiscard]] SuiteReport suite_report(const std::filesystem::path& folder,
                                       const SuiteRecord& record);

}  // namespace mneme::report
