#include <filesystem>

#include "host/base/file.hpp"
#include "host/base/json.hpp"
#include "tests/cli/program.hpp"

namespace mneme::test {
namespace {

using ::testing::HasSubstr;

class InspectRun : public CliTest {
 protected:
  void SetUp() override {
    expect_done(run_mneme({"train", experiment(tiny()), "--run", file("run"), "--set",
                           "train.eval_every=3", "--set", "train.save_every=2", "--quiet"}));
  }
  ProgramResult inspect(std::vector<std::string> more = {}) const {
    more.insert(more.begin(), {"inspect", file("run")});
    return run_mneme(more);
  }
  Json json() const {
    const ProgramResult result = inspect({"--json", "-"});
    expect_done(result);
    return Json::parse(result.out);
  }
};

TEST_F(InspectRun, TellsSettingsProgressCheckpointsAndMetrics) {
  const ProgramResult text = inspect();
  expect_done(text);
  for (const std::string& part :
       {"run           " + file("run") + "\n", std::string("LibTorch 2."),
        std::string("model         xl, 1 layers of width 16, 2 heads x 8"),
        std::string("segment 8, 4 lanes, 6 steps, adam"), std::string("task motif, 8 ids"),
        std::string("step 6: 192 tokens"), std::string("  training    step 6: loss "),
        std::string("  valid       step 6: loss ")}) {
    EXPECT_THAT(text.out, HasSubstr(part));
  }
}

TEST_F(InspectRun, WritesThemAsJson) {
  const Json run = json();
  EXPECT_EQ(run.at("format"), "mneme-inspect-run");
  EXPECT_EQ(run.at("checkpoints").back().at("step"), 6);
  EXPECT_TRUE(run.at("checkpoints").back().at("whole_run").get<bool>());
  EXPECT_EQ(run.at("metrics").at("last_step").at("step"), 6);
  EXPECT_EQ(run.at("metrics").at("last_eval").at("valid").at("step"), 6);
  EXPECT_EQ(run.at("metrics").at("damaged_lines"), 0);
  EXPECT_EQ(run.at("info").at("format"), "mneme.run");
  int best = 0;
  for (const Json& checkpoint : run.at("checkpoints")) best += checkpoint.at("best").get<bool>();
  EXPECT_EQ(best, 1);
}

TEST_F(InspectRun, ReportsDamageAndGoesOn) {
  const std::string newest = json().at("checkpoints").back().at("file");
  std::string bytes = read_file(newest);
  bytes.resize(bytes.size() / 2);
  write_file_atomic(newest, bytes);
  write_file_atomic(folder_ / "run/metrics.jsonl",
                    read_file(folder_ / "run/metrics.jsonl") + "{\"kind\": \"st");
  const ProgramResult text = inspect();
  expect_done(text);
  EXPECT_THAT(text.out, HasSubstr("step 6: cannot be read: "));
  EXPECT_THAT(text.out, HasSubstr(", 1 damaged\n"));
  EXPECT_EQ(json().at("metrics").at("damaged_lines"), 1);
}

TEST_F(InspectRun, SaysWhatACheckpointIs) {
  const std::string newest = json().at("checkpoints").back().at("file");
  EXPECT_THAT(run_mneme({"inspect", newest}).out,
              HasSubstr("checkpoint of mneme: step 6, 192 tokens, precision f32\n"));
}

TEST_F(InspectRun, RefusesAFolderThatHoldsNoRun) {
  std::filesystem::create_directory(folder_ / "empty");
  expect_refusal(run_mneme({"inspect", file("empty")}), 2, {"this is no run of mneme"});
  write_file_atomic(folder_ / "run/run.json", "{");
  expect_refusal(inspect(), 2, {"run.json", "the run's folder was damaged"});
}

}  // namespace
}  // namespace mneme::test
