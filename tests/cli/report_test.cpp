// mneme report: what is printed and written, and its refusals.
#include <nlohmann/json.hpp>

#include "host/base/file/checksum.hpp"
#include "host/base/file/file.hpp"
#include "host/base/text.hpp"
#include "tests/cli/program.hpp"
#include "tests/report/fixture.hpp"

namespace mneme::test {
namespace {

using ::testing::HasSubstr;

namespace fs = std::filesystem;

class ReportCommand : public CliTest {
 protected:
  // A comparison of three arms and two seeds.
  std::string comparison() const {
    report::test::write_comparison(file("runs"), {.seeds = {1, 2}, .documents = 6, .targets = 32});
    return file("runs");
  }
};

TEST_F(ReportCommand, PrintsTablesAndWritesThePageBesideTheComparison) {
  const std::string runs = comparison();
  const ProgramResult result =
      run_mneme({"report", runs, "--json", file("report.json")}, {.environment = {"COLUMNS=80"}});
  expect_done(result);
  EXPECT_THAT(result.out, HasSubstr("On valid by loss, of 2 arms against none: "));
  EXPECT_THAT(result.out, HasSubstr("\nDifferences to none\n"));
  for (std::size_t begin = 0; begin < result.out.size();) {
    const std::size_t end = result.out.find('\n', begin);
    EXPECT_LE(end - begin, 80u);
    begin = end + 1;
  }
  EXPECT_THAT(result.err, HasSubstr(runs + "/report/index.html; open it in a browser"));
  EXPECT_THAT(read_file(fs::path(runs) / "report" / "index.html"),
              HasSubstr("Differences to none"));
  const Json json = Json::parse(read_file(file("report.json")));
  EXPECT_EQ(json["format"], "mneme-report");
  EXPECT_EQ(json, Json::parse(read_file(fs::path(runs) / "report" / "report.json")));
}

TEST_F(ReportCommand, RefusesWhatASuiteHasNot) {
  folder_.write("suite/suite.json", Json({{"format", "mneme-suite"},
                                          {"version", 1},
                                          {"command", "mneme compare --suite s.toml"},
                                          {"file", "s.toml"},
                                          {"tasks", Json::array()}})
                                        .dump());
  expect_refusal(run_mneme({"report", file("suite"), "--pairs"}), 2,
                 {"the table of a suite compares no arms: expected no --baseline"});
  expect_refusal(run_mneme({"report", file("suite"), "--figures", "svg"}), 2,
                 {"expected no --figures beside",
                  "which has none: a suite has figures where it has two tasks with an accuracy and "
                  "two seeds, or where its tasks are points of --capacity"});
}

TEST_F(ReportCommand, PrintsEachFormat) {
  const std::string runs = comparison();
  const auto printed = [&](const std::string& format) {
    const ProgramResult result =
        run_mneme({"report", runs, "--format", format, "--out", file("out"), "--quiet"});
    expect_done(result);
    EXPECT_EQ(result.err, "");
    return result.out;
  };
  EXPECT_THAT(printed("csv"), HasSubstr("split,measure,arm,seed,value\r\nvalid,loss,none,1,"));
  EXPECT_THAT(printed("markdown"), HasSubstr("### Differences to none\n"));
  EXPECT_THAT(printed("latex"), HasSubstr("\\begin{tabular}"));
  EXPECT_EQ(Json::parse(printed("json"))["seeds"], Json({1, 2}));
  EXPECT_TRUE(fs::exists(file("out/index.html")));
  EXPECT_FALSE(fs::exists(runs + "/report"));
}

TEST_F(ReportCommand, JsonOnStandardOutputStandsAlone) {
  const ProgramResult result =
      run_mneme({"report", comparison(), "--json", "-", "--out", file("out")});
  expect_done(result);
  EXPECT_EQ(Json::parse(result.out)["version"], 1);
}

// The reader ends before the first line.
TEST_F(ReportCommand, AReaderThatEndsEarlyCostsNoFile) {
  const std::string runs = comparison();
  run_shell(str(MNEME_PROGRAM, " report ", runs, " --json ", file("all.json"), " | true"));
  EXPECT_TRUE(fs::exists(runs + "/report/index.html"));
  EXPECT_TRUE(fs::exists(file("all.json")));
  run_shell(str(MNEME_PROGRAM, " compare ", runs, "/none-seed1 ", runs, "/xl_cache-seed1 --json ",
                file("compared.json"), " | true"));
  EXPECT_TRUE(fs::exists(file("compared.json")));
}

TEST_F(ReportCommand, ComparesSamplesOfTheHarness) {
  const auto write = [&](const std::string& folder, int score) {
    fs::create_directories(file(folder));
    write_file_atomic(file(folder + "/samples_task_2026-01-02T00-00-00.000001.jsonl"),
                      str(R"({"doc_id": 0, "filter": "none", "doc_hash": "", "prompt_hash": "", )",
                          R"("target_hash": "", "metrics": ["acc"], "acc": )", score, "}\n"));
  };
  write("cache", 0);
  write("sinks", 1);
  const ProgramResult result =
      run_mneme({"report", "--pairs", file("cache"), file("sinks"), "--json", file("pairs.json")});
  expect_done(result);
  EXPECT_THAT(result.out, HasSubstr("Samples of sinks against cache"));
  const Json json = Json::parse(read_file(file("pairs.json")));
  EXPECT_EQ(json["format"], "mneme-pairs");
  EXPECT_EQ(json["pairs"][0]["difference"], 1.0);
  expect_refusal(run_mneme({"report", "--pairs", file("cache"), file("sinks"), "--margin", "0.1"}),
                 2, {"samples of lm-evaluation-harness give one table", "--margin"});
  expect_refusal(run_mneme({"report", file("cache"), file("sinks")}), 2,
                 {"samples of lm-evaluation-harness are compared by two"});
  expect_refusal(
      run_mneme({"report", "--pairs", file("cache"), file("sinks"), "--out", file("out")}), 2,
      {"samples of lm-evaluation-harness give one table"});
  expect_refusal(run_mneme({"report", comparison(), "--metric", "acc"}), 2,
                 {"--metric is of samples of lm-evaluation-harness"});
}

TEST_F(ReportCommand, ComparesWithAnotherArmAndAllPairs) {
  const std::string runs = comparison();
  const ProgramResult result =
      run_mneme({"report", runs, "--baseline", "xl_cache", "--pairs", "--quiet"});
  expect_done(result);
  EXPECT_THAT(result.out, HasSubstr("\nDifferences to xl_cache\n"));
  EXPECT_THAT(result.out, HasSubstr("\nDifferences of all pairs\n"));
  EXPECT_TRUE(fs::exists(runs + "/report/pairs.csv"));
  expect_refusal(run_mneme({"report", runs, "--baseline", "nobody"}), 2,
                 {"--baseline", "\"compressive\"", "got \"nobody\""});
  // Before anything is trained.
  const std::string none = folder_.write("none.toml", "[memory]\n").string();
  expect_refusal(run_mneme({"compare", experiment(tiny()), "--memory", none, "--baseline", "nobody",
                            "--run", file("compared")}),
                 2, {"--baseline", "\"none\"", "got \"nobody\""});
  EXPECT_FALSE(fs::exists(file("compared")));
}

TEST_F(ReportCommand, HoldsLossesAgainstAMargin) {
  const std::string runs = comparison();
  const ProgramResult result = run_mneme({"report", runs, "--margin", "0.5", "--quiet"});
  expect_done(result);
  EXPECT_THAT(result.out, HasSubstr("\nLosses against the margin\n"));
  EXPECT_THAT(result.out, HasSubstr("not worse by more than 0.5"));
  EXPECT_TRUE(fs::exists(runs + "/report/margin.csv"));
  const ProgramResult compared =
      run_mneme({"compare", runs + "/none-seed1", runs + "/xl_cache-seed1", "--margin", "0.5"});
  expect_done(compared);
  EXPECT_THAT(compared.out, HasSubstr("Losses against the margin"));
  // A report without it has no such table any more.
  expect_done(run_mneme({"report", runs, "--quiet"}));
  EXPECT_FALSE(fs::exists(runs + "/report/margin.csv"));
}

TEST_F(ReportCommand, DrawsPicturesWhereAProgramForThemIsInstalled) {
  const std::string runs = comparison();
  fs::create_directories(file("bin"));
  const std::string program =
      folder_.write("bin/vl-convert", "#!/bin/sh\n[ $1 = --version ] || echo drawn > \"$5\"\n");
  fs::permissions(program, fs::perms::owner_all);
  const std::string path = "PATH=" + file("bin");
  expect_done(run_mneme({"report", runs, "--figures", "pdf", "--quiet"}, {.environment = {path}}));
  const std::string picture = runs + "/report/figures/training-loss.pdf";
  EXPECT_TRUE(fs::exists(picture));
  // It shows the numbers of that report.
  expect_done(run_mneme({"report", runs, "--quiet"}));
  EXPECT_FALSE(fs::exists(picture));
  fs::remove(program);
  expect_refusal(run_mneme({"report", runs, "--figures", "svg"}, {.environment = {path}}), 2,
                 {"--figures", "python3 -m pip install vl-convert-python"});
}

TEST_F(ReportCommand, WritesABundleThatVerifies) {
  const std::string runs = comparison();
  const std::string bundle = file("a.tar");
  const ProgramResult made =
      run_mneme({"report", runs, "--bundle", bundle, "--baseline", "xl_cache"});
  expect_done(made);
  EXPECT_THAT(made.err,
              HasSubstr(str("the bundle is ", bundle, ", ", human_bytes(fs::file_size(bundle)),
                            ", sha256 ", sha256_file(bundle), '\n')));
  const ProgramResult good = run_mneme({"verify", bundle, "--json", file("verified.json")});
  expect_done(good);
  EXPECT_THAT(good.out, HasSubstr("\nVerified: everything else agrees.\n"));
  EXPECT_EQ(Json::parse(read_file(file("verified.json")))["verified"], true);
  std::string bytes;
  {
    const MappedFile map(bundle);
    bytes.assign(reinterpret_cast<const char*>(map.bytes().data()), map.bytes().size());
  }
  const std::size_t digit = bytes.find("\"nll\": ", bytes.find("evaluation.json")) + 7;
  bytes[digit] = bytes[digit] == '9' ? '8' : '9';
  write_file_atomic(bundle, bytes);
  const ProgramResult changed = run_mneme({"verify", bundle});
  EXPECT_EQ(changed.exit_code, 1);
  EXPECT_THAT(changed.out, HasSubstr("NOT verified, "));
  write_file_atomic(bundle, bytes.substr(0, 5000));
  expect_refusal(run_mneme({"verify", bundle}), 2, {bundle + ": byte ", "is cut"});
  expect_refusal(run_mneme({"verify", file("nowhere")}), 2, {file("nowhere")});
  expect_refusal(run_mneme({"report", runs, "--bundle", file("")}), 2, {"--bundle"});
}

TEST_F(ReportCommand, PlansFromAPilot) {
  const std::string runs = comparison();
  const ProgramResult result =
      run_mneme({"plan", runs, "--difference", "0.05", "--json", file("plan.json")});
  expect_done(result);
  EXPECT_THAT(result.out, HasSubstr("Pilot: 2 seeds, "));
  EXPECT_THAT(result.out, HasSubstr("Noise floor: two trainings of one arm"));
  EXPECT_THAT(result.out, HasSubstr("Seeds that a difference of 0.05 needs"));
  const Json json = Json::parse(read_file(file("plan.json")));
  EXPECT_EQ(json["format"], "mneme-plan");
  EXPECT_EQ(json["arms"].size(), 2u);
  EXPECT_FALSE(fs::exists(runs + "/report"));
  expect_done(run_mneme({"plan", runs, "--json", "-"}));
  expect_refusal(run_mneme({"plan", runs + "/none-seed1", runs + "/xl_cache-seed1"}), 2,
                 {"xl_cache", "expected two seeds or more, got one"});
  expect_refusal(run_mneme({"plan"}), 2, {"PATH"});
  expect_refusal(run_mneme({"plan", file("nowhere")}), 2, {file("nowhere")});
  expect_refusal(run_mneme({"plan", runs, "--split", "test"}), 2, {"--split", "\"valid\""});
  expect_refusal(run_mneme({"plan", runs, "--difference", "0"}), 2,
                 {"--difference: expected a number above 0, got 0"});
  expect_refusal(run_mneme({"plan", runs, "--diference", "1"}), 2,
                 {"did you mean \"--difference\"?"});
}

TEST_F(ReportCommand, RefusesWhatItCannotCompare) {
  const std::string runs = comparison();
  expect_refusal(run_mneme({"report"}), 2, {"DIR is required"});
  expect_refusal(run_mneme({"report", file("nowhere")}), 2, {"there is no run", file("nowhere")});
  expect_refusal(run_mneme({"report", runs, "--format", "html"}), 2, {"--format", "html"});
  fs::create_directories(file("broken"));
  folder_.write("broken/comparison.json", "{");
  expect_refusal(run_mneme({"report", file("broken")}), 2, {"comparison.json", "is damaged"});
  folder_.write("blocked", "a file");
  expect_refusal(run_mneme({"report", runs, "--out", file("blocked")}), 2,
                 {"--out " + file("blocked") + ": cannot be made", "got a file"});
}

}  // namespace
}  // namespace mneme::test
