// mneme compare --capacity through the program.
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

}  // namespace
}  // namespace mneme::test
