// Figures and tables of stored diagnostics.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "host/base/file/file.hpp"
#include "host/report/comparison/load.hpp"
#include "host/report/report.hpp"
#include "tests/report/report_folders.hpp"

namespace mneme::report {
namespace {

namespace fs = std::filesystem;
using test::Fixture;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

class DiagnosticFigures : public test::ReportFolders {
 protected:
  DiagnosticFigures() : ReportFolders({.seeds = {1, 2}, .documents = 6, .targets = 32}) {}
  static std::vector<Json> values_of(const Figure& figure, const char* key,
                                     const std::string& name) {
    std::vector<Json> out;
    for (const Json& value : figure.spec.at("data").at("values")) {
      if (value.at(key) == Json(name)) out.push_back(value);
    }
    return out;
  }
};

TEST_F(DiagnosticFigures, ShowMeansOverLayersAndSeeds) {
  const Report report = of(small_);
  const Figure* const distance = figure_of(report, "attention-distance-valid");
  ASSERT_NE(distance, nullptr);
  EXPECT_EQ(distance->section, "diagnostics");
  EXPECT_THAT(distance->caption, HasSubstr("the first 60 segments of 4 lanes of valid"));
  // Places that nothing saw are left out.
  EXPECT_THAT(values_of(*distance, "arm", "none"), SizeIs(8));
  const std::vector<Json> cache = values_of(*distance, "arm", "xl_cache");
  ASSERT_THAT(cache, SizeIs(32));
  EXPECT_EQ(cache[1].at("x"), 3.5);  // of the distances 3 and 4
  EXPECT_NEAR(cache[1].at("mean").get<double>(), 0.015 + 0.25, 1e-12);
  EXPECT_NEAR(cache[1].at("low").get<double>(), 0.01 + 0.25, 1e-12);
  EXPECT_NEAR(cache[1].at("high").get<double>(), 0.02 + 0.25, 1e-12);
  const Figure* const density = figure_of(report, "memory-density-valid");
  ASSERT_NE(density, nullptr);
  EXPECT_EQ(values_of(*density, "arm", "xl_cache").at(0).at("x"), 0.125);
  EXPECT_TRUE(values_of(*density, "arm", "none").empty());
  EXPECT_NE(figure_of(report, "memory-age-valid"), nullptr);
  EXPECT_NE(figure_of(report, "memory-alpha-valid"), nullptr);
  const Figure* const regions = figure_of(report, "attention-regions-valid");
  ASSERT_NE(regions, nullptr);
  const std::vector<Json> bar = values_of(*regions, "arm", "xl_cache");
  ASSERT_THAT(bar, SizeIs(3));
  EXPECT_EQ(bar[1].at("region"), "memory");
  EXPECT_NEAR(bar[1].at("share").get<double>(), 0.485, 1e-12);
}

TEST_F(DiagnosticFigures, HaveTheirNumbersInATable) {
  const Report report = of(small_);
  const auto sheet = std::ranges::find(report.sheets, "diagnostics", &Sheet::key);
  ASSERT_NE(sheet, report.sheets.end());
  // Of a run of 2 layers: 32 distances; with a memory also 4 bins, 3 ages, 2 rows, 3 regions.
  EXPECT_THAT(sheet->rows, SizeIs(2 * 2 * (32 + 2 * (32 + 4 + 3 + 2 + 3))));
  EXPECT_TRUE(sheet->is_for_programs);
  EXPECT_EQ(sheet->rows[1][6].value, 3);  // the first distance of the second interval
}

TEST_F(DiagnosticFigures, AreLeftOutWhereNothingIsStored) {
  small_.has_samples = false;
  const Report report = of(small_);
  EXPECT_EQ(figure_of(report, "attention-distance-valid"), nullptr);
  EXPECT_EQ(std::ranges::count(report.sheets, "diagnostics", &Sheet::key), 0);
}

TEST_F(DiagnosticFigures, OfADamagedFileAreLeftOutAndNamed) {
  test::write_comparison(folder("runs"), small_);
  write_file_atomic(folder("runs") / "none-seed1/diagnostics/valid-step00002000-0123abcd.json",
                    "[");
  const Comparison comparison = load({folder("runs")});
  EXPECT_THAT(comparison.notes,
              ElementsAre(AllOf(HasSubstr("none-seed1: diagnostics were left out: "),
                                HasSubstr("the stored diagnostics are damaged"))));
}

}  // namespace
}  // namespace mneme::report
