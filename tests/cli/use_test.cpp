#include <filesystem>
#include <nlohmann/json.hpp>
#include <vector>

#include "host/base/file/file.hpp"
#include "host/base/json.hpp"
#include "tests/cli/program.hpp"

namespace mneme::test {
namespace {

using ::testing::HasSubstr;

class Use : public CliTest {};

TEST_F(Use, RefusesNoCommand) {
  expect_refusal(run_mneme({}), 2, {"subcommand", "see mneme --help"});
}

TEST_F(Use, SuggestsTheNearestCommand) {
  expect_refusal(run_mneme({"trian", "x.toml"}), 2,
                 {"unknown argument \"trian\" (did you mean \"train\"?)"});
}

TEST_F(Use, SuggestsTheNearestOption) {
  expect_refusal(run_mneme({"train", "x.toml", "--memori", "m.toml"}), 2,
                 {"error: train: unknown argument \"--memori\"", "(did you mean \"--memory\"?)"});
}

TEST_F(Use, RefusesAMissingArgument) {
  expect_refusal(run_mneme({"eval"}), 2, {"RUN", "see mneme eval --help"});
  expect_refusal(run_mneme({"compare"}), 2, {"EXP", "see mneme compare --help"});
  expect_refusal(run_mneme({"train"}), 2, {"EXP"});
}

TEST_F(Use, RefusesAnUnknownDevice) {
  expect_refusal(run_mneme({"train", "x.toml", "--device", "tpu"}), 2, {"--device", "tpu", "cuda"});
}

TEST_F(Use, RefusesAnUnknownSplit) {
  expect_refusal(run_mneme({"eval", "run", "--split", "train"}), 2, {"--split", "valid", "test"});
}

TEST_F(Use, RefusesANegativeThreadCount) {
  expect_refusal(run_mneme({"train", "x.toml", "--threads", "-3"}), 2, {"--threads"});
}

TEST_F(Use, RefusesASetThatIsNoPair) {
  expect_refusal(run_mneme({"train", experiment(tiny()), "--set", "train.lr"}), 2,
                 {"--set", "train.lr"});
}

TEST_F(Use, RefusesAnExperimentThatIsMissing) {
  const ProgramResult result = run_mneme({"train", file("absent.toml")});
  EXPECT_EQ(result.signal, 0);
  EXPECT_TRUE(result.exit_code == 1 || result.exit_code == 2) << result.exit_code;
  EXPECT_THAT(result.err, HasSubstr("absent.toml"));
}

// Whether a result is short or fills the buffer: nobody may believe it written.
TEST_F(Use, FailsWhenResultsCannotBeWritten) {
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"--version"}, {"abi", "ops"}, {"abi", "ops", "--json", "-"}}) {
    const ProgramOptions full = {.out = folder_.write("out", ""), .file_size = 1};
    expect_refusal(run_mneme(command, full), 1,
                   {"standard output: results were lost", "where there is room"});
  }
  // What the program's end alone writes has a reason.
  const ProgramOptions full = {.out = folder_.write("out", ""), .file_size = 1};
  expect_refusal(run_mneme({"abi", "--help"}, full), 1, {"results were lost: File too large"});
}

TEST_F(Use, RefusesResumeTogetherWithAnExperiment) {
  expect_refusal(run_mneme({"train", experiment(tiny()), "--resume", file("run")}), 2,
                 {"--resume", "experiment"});
}

TEST_F(Use, RefusesTokensWithoutDump) {
  expect_refusal(run_mneme({"eval", file("run"), "--tokens", file("x.safetensors")}), 2,
                 {"--tokens", "--dump"});
}

TEST_F(Use, RefusesAJsonFileInAFolderThatIsMissing) {
  expect_refusal(run_mneme({"train", experiment(tiny()), "--json", file("absent/x.json")}), 2,
                 {"--json", "absent"});
}

TEST_F(Use, CompareNeedsAMemory) {
  expect_refusal(run_mneme({"compare", experiment(tiny())}), 2, {"--memory"});
}

TEST_F(Use, RefusesADeviceThatIsNotThere) {
  const ProgramOptions hidden{.environment = {"CUDA_VISIBLE_DEVICES="}};  // on any machine
  expect_refusal(
      run_mneme({"train", experiment(tiny()), "--run", file("run"), "--device", "cuda"}, hidden), 4,
      {"cuda"});
}

TEST_F(Use, EvalTakesOnlyTheModelsSwitches) {
  expect_done(run_mneme({"train", experiment(tiny()), "--run", file("run"), "--quiet"}));
  expect_done(run_mneme({"eval", file("run"), "--set", "model.clamp_distance=2", "--quiet"}));
  expect_refusal(run_mneme({"eval", file("run"), "--set", "model.layers=2"}), 2,
                 {"eval --set model.layers", "model.same_length or model.clamp_distance"});
}

TEST(AbiOps, PrintsEverySchema) {
  const ProgramResult text = run_mneme({"abi", "ops"});
  expect_done(text);
  EXPECT_THAT(text.out, HasSubstr("matmul/1"));
  const ProgramResult json = run_mneme({"abi", "ops", "--json"});
  expect_done(json);
  const auto ops = Json::parse(json.out);
  ASSERT_TRUE(ops.is_array());
  for (const auto& op : ops) EXPECT_THAT(text.out, HasSubstr(op.at("name").get<std::string>()));
}

TEST(AbiOps, WritesJsonToAFile) {
  const TemporaryFolder folder;
  const auto path = folder / "ops.json";
  expect_done(run_mneme({"abi", "ops", "--json", path.string()}));
  EXPECT_GT(Json::parse(read_file(path)).size(), 10U);
}

}  // namespace
}  // namespace mneme::test
