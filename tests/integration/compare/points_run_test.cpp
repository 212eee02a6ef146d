// mneme compare --capacity and --scale through the program.
#include "tests/integration/compare/compare_fixture.hpp"

namespace mneme::test {
namespace {

using ::testing::HasSubstr;

class CapacityRun : public CompareRun {
 protected:
  ProgramResult capacity(const std::string& points, const std::vector<std::string>& more = {}) {
    std::vector<std::string> all{"compare",    experiment(tiny()),
                                 "--memory",   cache_,
                                 "--memory",   large_,
                                 "--capacity", points,
                                 "--run",      file("c"),
                                 "--threads",  "1"};
    all.insert(all.end(), more.begin(), more.end());
    return run_mneme(all);
  }

  std::string large_ =
      folder_.write("large.toml", memory_with("xl_cache", MNEME_PLUGIN_DIR, "rows = 100")).string();
};

TEST_F(CapacityRun, TrainsEveryMemoryAtEveryPoint) {
  const ProgramResult result =
      capacity("1,2", {"--json", file("table.json"), "--samples", "0", "--diagnostics", "0"});
  expect_done(result);
  EXPECT_THAT(result.err, HasSubstr("task 2 of 2: state-2x"));
  for (const char* const text : {"state a lane", "cache memory.tier.0.rows=32",
                                 "large: memory.tier.0.rows=16 (", "One seed: no intervals"})
    EXPECT_THAT(result.out, HasSubstr(text));
  const Json table = Json::parse(read_file(folder_ / "table.json"));
  ASSERT_EQ(table.at("rows").size(), 2U);
  // Memories of one kind and one size from one seed are one training, twice.
  for (const Json& row : table.at("rows")) EXPECT_EQ(row.at(1), row.at(2));
  EXPECT_EQ(table.at("rows").at(1).at(1).at("setting"), "memory.tier.0.rows=32");
  // What evaluations count is what the point asks for.
  const Json comparison = Json::parse(read_file(folder_ / "c/state-2x/report/report.json"));
  for (const Json& sheet : comparison.at("tables")) {
    for (const Json& row : sheet.at("rows")) {
      if (row.at(0) != "state bytes a lane") continue;
      EXPECT_EQ(row.at(1), table.at("rows").at(1).at(1).at("bytes"));
    }
  }
  EXPECT_TRUE(fs::exists(file("c/figures/capacity.vl.json")));
  EXPECT_TRUE(fs::exists(file("c/suite.html")));

  // The same command finds everything done; so does the report.
  const ProgramResult again =
      capacity("1,2", {"--json", file("again.json"), "--samples", "0", "--diagnostics", "0"});
  expect_done(again);
  EXPECT_EQ(read_file(folder_ / "table.json"), read_file(folder_ / "again.json"));
  expect_done(run_mneme({"report", file("c"), "--json", file("report.json")}));
  EXPECT_EQ(read_file(folder_ / "table.json"), read_file(folder_ / "report.json"));
  expect_refusal(run_mneme({"report", file("c"), "--pairs"}), 2, {"compares no arms"});
}

TEST_F(CapacityRun, RefusesPointsBeforeItTrains) {
  expect_refusal(capacity("1,1"), 2, {"--capacity: points do not rise"});
  expect_refusal(run_mneme({"compare", experiment(tiny()), "--memory", none_, "--capacity", "1,2",
                            "--run", file("c")}),
                 2, {"none: --capacity finds no size"});
  // 2 rows and 3 are the sizes next to 2.4.
  const std::string small =
      folder_.write("small.toml", memory_with("xl_cache", MNEME_PLUGIN_DIR, "rows = 2")).string();
  expect_refusal(run_mneme({"compare", experiment(tiny()), "--memory", small, "--capacity", "1,1.2",
                            "--run", file("c")}),
                 2,
                 {"memories reach the bytes of 1 of the points: expected 2 points or more",
                  "left out, no memory reaches it"});
  EXPECT_FALSE(fs::exists(file("c")));
}

TEST_F(CompareRun, TrainsALadderOfSizes) {
  const auto scale = [&](const std::string& sizes, const std::string& json) {
    return compare(
        {"--scale", sizes, "--samples", "0", "--diagnostics", "0", "--json", file(json), "--quiet"},
        "s");
  };
  expect_refusal(scale("1,1.1,8", "no.json"), 2, {"--scale: the sizes 1 and 1.1 have one shape"});
  expect_refusal(scale("1,8", "no.json"), 2, {"2 points are given: expected 3 or more"});
  EXPECT_FALSE(fs::exists(file("s")));

  const ProgramResult result = scale("1,4,8", "table.json");
  expect_done(result);
  for (const char* const text :
       {"Loss by size of the model and memory", "8x: 2 layers of width 32, 48 steps",
        "none: loss over operations has exponent", "the slope of logarithms at 3"})
    EXPECT_THAT(result.out, HasSubstr(text));
  const Json table = Json::parse(read_file(folder_ / "table.json"));
  ASSERT_EQ(table.at("rows").size(), 3U);
  const auto operations = [&](int row) {
    return table.at("rows").at(row).at(1).at("operations").get<double>();
  };
  // Eight times the parameters of the layers and the tokens; the output layer grows by two alone.
  EXPECT_GT(operations(2) / operations(0), 16.0);
  EXPECT_LT(operations(2) / operations(0), 64.0);
  EXPECT_TRUE(fs::exists(file("s/figures/scale-operations.vl.json")));
  expect_done(run_mneme({"report", file("s"), "--json", file("again.json")}));
  EXPECT_EQ(read_file(folder_ / "table.json"), read_file(folder_ / "again.json"));
}

}  // namespace
}  // namespace mneme::test
