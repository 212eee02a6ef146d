// Files of the analyses of rows: alpha, regions, attention by distance, extrapolation.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "host/analyze/report/report.hpp"
#include "host/analyze/report/run_reports.hpp"
#include "host/base/file/file.hpp"
#include "host/tensor/torch.hpp"
#include "tests/base/temporary_folder.hpp"

namespace mneme::analyze {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

data::TokenSegment segment() {
  data::TokenSegment one;
  one.prepare(1, 2, false);
  one.inputs = {1, 2};
  one.targets = {2, 3};
  one.valid = {2};
  one.reset = {0};
  return one;
}

class RowsReport : public ::testing::Test {
 protected:
  std::string read(const std::string& name) const { return read_file(folder_ / name); }
  Json spec_of(const std::string& name) const { return Json::parse(read(name + ".vl.json")); }
  test::TemporaryFolder folder_;
};

TEST_F(RowsReport, Alpha) {
  MemoryAnalysis analysis({.bins = 2, .stretch = 2, .first_write = 0, .updates = 1});
  analysis.add(segment(), {1.0, 1.0},
               {{"0.a.3.memory.alpha", torch::tensor({0.25, 0.75}, at::kDouble).view({1, 2, 1})}});
  EXPECT_TRUE(analysis.has_found());
  EXPECT_FALSE(analysis.has_signal);
  AnalysisReport report(folder_.path(), {{"one", &analysis}}, TokenText(nullptr));
  report.write_alpha();
  report.write_regions();
  EXPECT_THAT(report.files(), ElementsAre("alpha.csv", "alpha.vl.json"));
  EXPECT_EQ(read("alpha.csv"),
            "memory,tier,layer,place,alpha,segments\r\n"
            "one,0.a,3,0,0.25,1\r\n"
            "one,0.a,3,1,0.75,1\r\n");
  const Json spec = spec_of("alpha");
  EXPECT_EQ(
      spec.at("data").at("values").at(1),
      Json({{"panel", "one, 0.a, 1 segments"}, {"layer", "3"}, {"place", 1}, {"alpha", 0.75}}));
  EXPECT_EQ(spec.at("layer").at(0).at("encoding").at("color").at("scale").at("domain"),
            Json::array({"3"}));
  const Json json = to_json(analysis, TokenText(nullptr), 3);
  EXPECT_EQ(json.at("alpha").at(0).at("alpha").dump(), "[0.25,0.75]");
}

TEST_F(RowsReport, Regions) {
  MemoryAnalysis analysis({.bins = 2, .stretch = 2, .first_write = 0, .updates = 1});
  analysis.add(segment(), {1.0, 1.0},
               {{"0.a.3.memory.mass", torch::tensor({{0.5, 0.125, 0.375}}, at::kDouble)},
                {"0.a.3.memory.regions", torch::tensor({{1, 0, 2}})}});
  AnalysisReport report(folder_.path(), {{"one", &analysis}}, TokenText(nullptr));
  report.write_alpha();
  report.write_regions();
  EXPECT_THAT(report.files(), ElementsAre("regions.csv", "regions.vl.json"));
  EXPECT_EQ(read("regions.csv"),
            "memory,tier,layer,region,place,share,segments\r\n"
            "one,0.a,3,compressed,0,0.5,1\r\n"
            "one,0.a,3,segment,1,0.125,1\r\n"
            "one,0.a,3,segment,2,0.375,1\r\n");
  EXPECT_EQ(
      spec_of("regions").at("layer").at(0).at("encoding").at("color").at("scale").at("domain"),
      Json({"compressed", "segment"}));
  const Json json = to_json(analysis, TokenText(nullptr), 3).at("regions").at(0);
  EXPECT_EQ(json.at("segment").at("share"), 0.5);
  EXPECT_EQ(json.at("memory").at("places"), 0);
}

TEST_F(RowsReport, NothingIsWrittenOfMemoriesThatShowNothing) {
  MemoryAnalysis analysis({.bins = 2, .stretch = 2, .first_write = 0, .updates = 1});
  analysis.add(segment(), {1.0, 1.0}, {});
  EXPECT_FALSE(analysis.has_found());
  AnalysisReport report(folder_.path(), {{"one", &analysis}}, TokenText(nullptr));
  report.write_alpha();
  report.write_regions();
  EXPECT_THAT(report.files(), IsEmpty());
}

TEST_F(RowsReport, AttentionByDistance) {
  const std::vector<DistanceResult> subjects = {
      {.name = "a", .layers = {{2, {.weight = {0.5, 0.0}, .tokens = {8, 0}}}}},
      {.name = "b", .layers = {{2, {.weight = {0.25, 0.0625}, .tokens = {8, 4}}}}}};
  EXPECT_THAT(write_distances(folder_.path(), subjects, {.width = 5, .intervals = 2}),
              ElementsAre("distance.csv", "distance.vl.json", "distance.html"));
  EXPECT_EQ(read("distance.csv"),
            "memory,layer,from,to,weight,tokens\r\n"
            "a,2,1,5,0.5,8\r\n"
            "b,2,1,5,0.25,8\r\n"
            "b,2,6,10,0.0625,4\r\n");
  const Json spec = spec_of("distance");
  EXPECT_EQ(spec.at("title"), "How far attention reaches: layer 2");
  EXPECT_EQ(spec.at("data").at("values").at(2).at("distance"), 8.0);
  EXPECT_EQ(spec.at("layer").at(0).at("encoding").at("y").at("scale").at("type"), "log");
  EXPECT_EQ(to_json(subjects[1]).at("layers").at(0).at("tokens").dump(), "[8,4]");
}

TEST_F(RowsReport, Extrapolation) {
  const auto result = [](std::int64_t rows, double nll) {
    eval::Result one;
    one.protocol.segment = 4;
    one.protocol.context_rows = rows;
    one.total.targets = 2;
    one.total.nll = nll;
    return one;
  };
  EXPECT_THAT(write_extrapolation(folder_.path(), {{"none", 0, result(0, 4.0)},
                                                   {"cache", 1, result(4, 2.0)},
                                                   {"cache", 2, result(8, 0.0)}}),
              ElementsAre("extrapolation.csv", "extrapolation.vl.json", "extrapolation.html"));
  EXPECT_THAT(read("extrapolation.csv"),
              HasSubstr("memory,multiple,segment,context_rows,tokens,loss,perplexity\r\n"
                        "none,0,4,0,2,2.0,7.38"));
  EXPECT_THAT(read("extrapolation.csv"), HasSubstr("\ncache,2,4,8,2,0.0,1.0\r\n"));
  const Json spec = spec_of("extrapolation");
  EXPECT_EQ(spec.at("layer").at(0).at("encoding").at("color").at("scale").at("domain"),
            Json({"none", "cache"}));
  EXPECT_EQ(spec.at("data").at("values").at(2).at("perplexity"), 1.0);
}

// Every field that an encoding or a tooltip names is one of every point.
void expect_fields(const Json& spec) {
  std::vector<std::string> fields;
  for (const Json& layer : spec.at("layer")) {
    for (const auto& [channel, value] : layer.at("encoding").items()) {
      for (const Json& one : value.is_array() ? value : Json::array({value})) {
        if (one.contains("field")) fields.push_back(one.at("field").get<std::string>());
      }
    }
  }
  EXPECT_GT(fields.size(), 4u);
  for (const Json& point : spec.at("data").at("values")) {
    for (const std::string& field : fields) EXPECT_TRUE(point.contains(field)) << field;
  }
}

RegressionResult fit_of(double error, std::vector<ReadBack> ageing = {}) {
  RegressionResult result;
  result.fit_error = error;
  result.ageing = std::move(ageing);
  return result;
}

TEST_F(RowsReport, RegressionOverNumbers) {
  const std::vector<MeasuredRegression> measured = {
      {.memory = "m", .rows = 8, .source = "white", .value = "64", .result = fit_of(0.5)},
      {.memory = "m",
       .rows = 8,
       .source = "white",
       .value = "128",
       .result = fit_of(0.25, {{.age = 1, .points = 4, .correlation = -0.5, .error = 1.5}})}};
  EXPECT_THAT(write_regression(folder_.path(), "basis", measured),
              ElementsAre("regression.csv", "regression.vl.json", "ageing.csv", "ageing.vl.json",
                          "regression.html"));
  const Json fits = spec_of("regression");
  EXPECT_EQ(fits.at("data").at("values").at(1).at("value"), 128.0);
  EXPECT_EQ(fits.at("layer").at(0).at("encoding").at("x").at("title"), "basis");
  // A correlation below 0 is shown as it is.
  const Json ages = spec_of("ageing");
  EXPECT_EQ(ages.at("data").at("values").at(0).at("correlation"), -0.5);
  // A line a value, and one chart where there is one panel.
  for (const Json& spec : {fits, ages}) expect_fields(spec);
  EXPECT_EQ(ages.at("layer").at(0).at("encoding").at("color").at("field"), "value");
  EXPECT_FALSE(ages.contains("facet"));
}

TEST_F(RowsReport, RegressionOverWords) {
  const std::vector<MeasuredRegression> measured = {
      {.memory = "m", .rows = 8, .source = "white", .value = "true", .result = fit_of(0.5)},
      {.memory = "m", .rows = 8, .source = "white", .value = "false", .result = fit_of(0.25)}};
  EXPECT_THAT(write_regression(folder_.path(), "sticky", measured),
              ElementsAre("regression.csv", "regression.vl.json", "regression.html"));
  const Json x = spec_of("regression").at("layer").at(0).at("encoding").at("x");
  EXPECT_EQ(x.at("type"), "ordinal");
  EXPECT_EQ(x.at("sort"), Json({"true", "false"}));
}

}  // namespace
}  // namespace mneme::analyze
