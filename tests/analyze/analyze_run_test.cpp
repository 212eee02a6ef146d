// mneme analyze through the real binary, with a continuous memory.
#include <cmath>
#include <nlohmann/json.hpp>

#include "host/base/file/file.hpp"
#include "host/base/text.hpp"
#include "tests/cli/program.hpp"

namespace mneme::test {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

namespace fs = std::filesystem;

// Ten words a line, so that a document is many segments of 8.
std::string words(int lines) {
  std::string text;
  for (int line = 0; line < lines; ++line) {
    text +=
        "the cat sat on the mat and a dog barked " + std::string(line % 3 == 0 ? "twice" : "once");
    text += '\n';
  }
  return text;
}

class AnalyzeRun : public CliTest {
 protected:
  void SetUp() override {
    folder_.write("train.txt", words(40));
    folder_.write("valid.txt", words(20));
    linear_ = write("linear", memory("sticky = false"));
    sticky_ = write("sticky", memory("sticky = true"));
    none_ = write("none", "[memory]\n");
  }
  static std::string memory(const std::string& options) {
    return memory_with(
        "continuous_ltm", MNEME_PLUGIN_DIR,
        "basis = 16\nwidths = [0.05, 0.1]\ntau = 0.5\nsamples = 32\nridge = 0.1\n" + options);
  }
  std::string write(const std::string& name, const std::string& text) const {
    return folder_.write(name + ".toml", text).string();
  }
  // A run of six steps on the words.
  std::string train(const std::string& name, const std::string& memory) const {
    const std::string text = tiny_on(
        "task = \"text\"\ntrain = \"train.txt\"\nvalid = \"valid.txt\"\n"
        "vocabulary = \"word\"\nreset = \"never\"\n",
        memory);
    expect_done(
        run_mneme({"train", experiment(text), "--run", file(name), "--quiet", "--threads", "1"}));
    return file(name);
  }
  ProgramResult analyze(const std::string& run, const std::vector<std::string>& more) const {
    std::vector<std::string> arguments{"analyze", run,         "--out", file("out"),
                                       "--quiet", "--threads", "1"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_mneme(arguments);
  }
  std::string out(const std::string& name) const { return read_file(folder_ / "out" / name); }
  Json json() const { return Json::parse(read_file(folder_ / "analysis.json")); }
  ProgramResult regression(const std::vector<std::string>& more) const {
    std::vector<std::string> arguments{
        "analyze", "regression",          "--out",     file("out"), "--quiet",
        "--json",  file("analysis.json"), "--threads", "1"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_mneme(arguments);
  }

  std::string linear_, sticky_, none_;
};

double sum(const Json& numbers) {
  double total = 0.0;
  for (const Json& number : numbers) total += number.get<double>();
  return total;
}

TEST_F(AnalyzeRun, WritesEveryAnalysisOfTwoMemories) {
  const std::string run = train("run", read_file(linear_));
  const ProgramResult result =
      analyze(run, {"--memory", linear_, "--memory", sticky_, "--json", file("analysis.json"),
                    "--updates", "2", "--top", "5", "--stretch", "4", "--bins", "8"});
  expect_done(result);
  EXPECT_THAT(result.out, HasSubstr("mean place"));
  EXPECT_THAT(result.out, HasSubstr("predicted better by linear"));
  const Json all = json();
  EXPECT_EQ(all.at("format"), "mneme-analyze");
  for (const Json& name : all.at("files")) {
    EXPECT_TRUE(fs::exists(folder_ / "out" / name.get<std::string>())) << name;
  }
  EXPECT_EQ(all.at("files").size(), 13U);
  ASSERT_EQ(all.at("memories").size(), 2U);
  for (const Json& memory : all.at("memories")) {
    ASSERT_EQ(memory.at("attention").size(), 2U);  // heads of the only layer
    for (const Json& head : memory.at("attention")) {
      EXPECT_EQ(head.at("mass").size(), 8U);
      EXPECT_GT(sum(head.at("mass")), 0.0);
      EXPECT_LT(sum(head.at("mass")), 1.0);
      EXPECT_EQ(head.at("queries"), 239 - 8);  // the first segment finds nothing
    }
    EXPECT_NEAR(sum(memory.at("space").at("layers").at(0).at("share")), 1.0, 1e-12);
    EXPECT_EQ(memory.at("tokens").size(), 5U);
    const Json& updates = memory.at("updates").at(0);
    EXPECT_EQ(updates.at("share").at(0), 1.0);
    EXPECT_EQ(updates.at("words_left").at(0), 8);
  }
  // Even samples leave a segment tau of its space, but for the cells at the seams: the last sample
  // stands at .5, the first new row at .5625.
  const Json& linear = all.at("memories").at(0).at("updates").at(0).at("share");
  EXPECT_NEAR(linear.at(1).get<double>(), 0.5, 0.04);
  EXPECT_NEAR(linear.at(2).get<double>(), 0.25, 0.04);
  EXPECT_EQ(all.at("better").at("against"), "sticky");
  EXPECT_EQ(all.at("better").at("targets"), 239);
  EXPECT_THAT(out("words.csv"), HasSubstr(",the,"));
  EXPECT_THAT(out("attention.vl.json"), HasSubstr("\"layer 0, head 0\""));
  EXPECT_THAT(out("analysis.html"), StartsWith("<!DOCTYPE html>"));
}

TEST_F(AnalyzeRun, GoesOnWhenOneMemoryFails) {
  const std::string run = train("run", memory("sticky = false"));
  const std::string failing =
      write("failing", memory_with("hook_error", MNEME_BINARY_DIR "/tests/cli/flawed"));
  for (const std::vector<std::string>& memories :
       {std::vector<std::string>{linear_, failing},
        std::vector<std::string>{linear_, failing, sticky_}}) {
    std::vector<std::string> more{"--json", file("out.json"), "--set", "memory.carry=\"reset\""};
    for (const std::string& one : memories) more.insert(more.end(), {"--memory", one});
    const ProgramResult result = analyze(run, more);
    expect_refusal(result, 3, {"mneme: error: failing: ", "the ridge matrix has no inverse"});
    EXPECT_THAT(result.out, HasSubstr("linear"));
    const Json json = Json::parse(read_file(folder_ / "out.json"));
    EXPECT_EQ(json.at("memories").size(), memories.size() - 1);
    EXPECT_EQ(json.at("failed").at(0).at("name"), "failing");
    EXPECT_FALSE(json.contains("better"));  // there is no second memory to compare the first with
  }
  const ProgramResult distance =
      run_mneme({"analyze", "distance", run, "--out", file("distances"), "--memory", failing,
                 "--memory", none_, "--json", file("distances.json"), "--quiet"});
  expect_refusal(distance, 3, {"mneme: error: failing: ", "the ridge matrix has no inverse"});
  EXPECT_THAT(distance.out, HasSubstr("distance.csv"));
  const Json distances = Json::parse(read_file(folder_ / "distances.json"));
  EXPECT_EQ(distances.at("memories").size(), 1U);
  EXPECT_EQ(distances.at("failed").at(0).at("exit_code"), 3);
}

// The last memory's plugin, the second run's checkpoint: nothing is analysed before they are found.
TEST_F(AnalyzeRun, LooksAtEverythingBeforeTheFirstAnalysis) {
  const std::string run = train("run", memory("sticky = false"));
  const std::string absent = write("absent", memory_with("absent", MNEME_PLUGIN_DIR));
  expect_refusal(analyze(run, {"--memory", linear_, "--memory", absent}), 3,
                 {"absent: ", "not found", "nothing was evaluated"});
  for (const std::string analysis : {"distance", "probes"}) {
    const std::vector<std::string> begin = {"analyze", analysis, run};
    std::vector<std::string> missing = begin, other = begin;
    missing.insert(missing.end(), {"--out", file("more"), "--memory", linear_, "--memory", absent});
    const ProgramResult result = run_mneme(missing);
    expect_refusal(result, 3, {"absent: ", "not found"});
    EXPECT_THAT(result.err, testing::Not(HasSubstr("loss"))) << analysis;
    fs::create_directory(folder_ / ("empty-" + analysis));
    other.insert(other.end(), {file("empty-" + analysis), "--out", file("more")});
    expect_refusal(run_mneme(other), 2, {"this is no run of mneme"});
  }
  expect_refusal(analyze(run, {"--against", file("none-there")}), 2,
                 {"none-there", "no such folder"});
  EXPECT_FALSE(fs::exists(file("more")));
  EXPECT_FALSE(fs::exists(file("out")));
}

TEST_F(AnalyzeRun, ComparesWithAnotherRun) {
  const std::string run = train("run", read_file(linear_));
  const std::string other = train("other", read_file(none_));
  expect_done(analyze(run, {"--against", other, "--json", file("analysis.json"), "--top", "3",
                            "--threshold", "0", "--segments", "10"}));
  const Json better = json().at("better");
  EXPECT_EQ(better.at("against"), other);
  EXPECT_EQ(better.at("targets"), 80);
  EXPECT_THAT(out("better.csv"), StartsWith("lane,position,target,text_before,"));
  for (const Json& word : better.at("words")) {
    EXPECT_LT(word.at("nll").get<double>(), word.at("other_nll").get<double>());
    // Every layer and head has some mass everywhere, so that all words of the memory are named.
    EXPECT_EQ(word.at("looked_at").empty(), word.at("position").get<int>() <= 8);
  }
}

TEST_F(AnalyzeRun, RefusesWhatItCannotAnalyse) {
  const std::string run = train("run", read_file(linear_));
  expect_refusal(analyze(run, {"--memory", none_}), 2,
                 {"no memory published anything to analyse", "memory.density.mean"});
  expect_refusal(analyze(run, {"--against", run, "--memory", linear_, "--memory", sticky_}), 2,
                 {"--against compares with another run; leave several --memory out"});
  expect_refusal(analyze(run, {"--against", file("nowhere")}), 2, {"nowhere"});
  expect_refusal(analyze(run, {"--set", "eval.lanes=2"}), 2,
                 {"analyze --set eval.lanes: use --lanes"});
  expect_refusal(analyze(run, {"--set", "eval.steps=2"}), 2, {"--set eval.steps: use --segments"});
  expect_refusal(analyze(run, {"--set", "train.lr=2"}), 2, {"train.lr", "measured as it is"});
  expect_refusal(analyze(run, {"--bins", "0"}), 2, {"--bins"});
  expect_refusal(run_mneme({"analyze", run}), 2, {"--out is required"});
  expect_refusal(run_mneme({"analyze", "--out", file("out")}), 2, {"RUN is required"});
  folder_.write("file", "");
  expect_refusal(run_mneme({"analyze", run, "--out", file("file")}), 2,
                 {"--out " + file("file") + ": cannot be made", "got a file"});
}

// The expected values are for L = 512, widths .005 and .01, ridge .5, padding: .97 .93 for white
// noise and .72 .40 for AR(1), to two digits, with N = 32 and 64.
TEST_F(AnalyzeRun, RegressionErrorsAreThoseOfTheMechanism) {
  const std::string narrow =
      write("narrow", memory_with("continuous_ltm", MNEME_PLUGIN_DIR,
                                  "basis = 64\nwidths = [0.005, 0.01]\ntau = 0.5\nridge = 0.5\n"
                                  "gate = false"));
  const ProgramResult result =
      regression({"--memory", narrow, "--values", "32,64", "--updates", "1"});
  expect_done(result);
  EXPECT_THAT(result.out, HasSubstr("r, age 1"));
  const Json results = json().at("results");
  ASSERT_EQ(results.size(), 4U);
  const std::vector<double> expected = {0.97, 0.72, 0.93, 0.40};
  for (std::size_t i = 0; i < results.size(); ++i) {
    EXPECT_NEAR(results.at(i).at("error").get<double>(), expected[i], 0.02) << results.at(i);
    const Json& ages = results.at(i).at("ageing");
    ASSERT_EQ(ages.size(), 2U);
    EXPECT_EQ(ages.at(0).at("points"), 512);
    EXPECT_GT(ages.at(0).at("correlation"), ages.at(1).at("correlation"));
  }
  EXPECT_THAT(out("regression.csv"),
              StartsWith("memory,rows,source,basis,error\r\nnarrow,512,white,32,"));
  EXPECT_THAT(out("ageing.csv"), HasSubstr("narrow,512,ar1,64,1,"));
}

TEST_F(AnalyzeRun, RegressionOfARunsOwnRows) {
  const std::string run = train("run", read_file(linear_));
  const std::string open = write("open", memory("gate = false"));
  expect_done(regression(
      {"--memory", open, "--run", run, "--rows", "16", "--source", "white", "--updates", "2"}));
  const Json results = json().at("results");
  ASSERT_EQ(results.size(), 2U);
  EXPECT_EQ(results.at(1).at("source"), "hidden");
  EXPECT_GT(results.at(1).at("error"), 0.0);
  EXPECT_LT(results.at(1).at("error"), 1.0);
  expect_refusal(regression({"--memory", open, "--run", run, "--layer", "1"}), 2,
                 {"hidden rows", "the model has no such layer", "0 to 0", "got 1"});
  expect_refusal(regression({"--memory", open, "--run", run, "--rows", "300"}), 2,
                 {"the text is too short", "at least 2700 tokens", "got 239"});
}

TEST_F(AnalyzeRun, RegressionRefusesWhatItCannotMeasure) {
  expect_refusal(regression({}), 2, {"--memory is required"});
  expect_refusal(regression({"--memory", none_}), 2, {"one [[memory.tier]]", "got 0"});
  expect_refusal(regression({"--memory", linear_, "--option", "bases", "--values", "32"}), 2,
                 {"bases", "basis"});
  expect_refusal(regression({"--memory", linear_, "--values", "32,,"}), 2, {"--values 32,,"});
  expect_refusal(regression({"--memory", linear_, "--rows", "0"}), 2,
                 {"--rows: expected at least 1"});
  const std::string other =
      write("other", memory_with("test_infini", MNEME_BINARY_DIR "/tests/abi_plugins"));
  expect_refusal(regression({"--memory", other, "--rows", "4"}), 3,
                 {"the memory does not show what it stored", "memory.places"});
}

}  // namespace
}  // namespace mneme::test
