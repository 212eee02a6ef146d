#include <filesystem>
#include <nlohmann/json.hpp>
#include <vector>

#include "host/base/file/file.hpp"
#include "host/base/text.hpp"
#include "tests/base/wordings.hpp"
#include "tests/cli/program.hpp"

namespace mneme::test {
namespace {

using ::testing::HasSubstr;

class Use : public CliTest {};

TEST_F(Use, RefusesWhatItDoesNotUnderstand) {
  experiment(tiny());
  expect_refusals(
      2, "", read_wording_file("tests/cli/messages/use/refuses_what_it_does_not_understand.txt"));
}

// An empty text is what a shell makes of a variable that is not set: it must not count as an option
// that is absent.
TEST_F(Use, RefusesEmptyPaths) {
  experiment(tiny());
  expect_refusals(2, "", read_wording_file("tests/cli/messages/use/refuses_empty_paths.txt"));
}

TEST_F(Use, RefusesAnExperimentThatIsMissing) {
  const ProgramResult result = run_mneme({"train", file("absent.toml")});
  EXPECT_EQ(result.signal, 0);
  EXPECT_TRUE(result.exit_code == 1 || result.exit_code == 2) << result.exit_code;
  EXPECT_THAT(result.err, HasSubstr("absent.toml"));
}

// Whether a result is short or fills the buffer, a failed write is reported.
TEST_F(Use, FailsWhenResultsCannotBeWritten) {
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"--version"}, {"abi", "ops"}, {"abi", "ops", "--json", "-"}}) {
    const ProgramOptions full = {.out = folder_.write("out", ""), .file_size = 1};
    expect_refusal(run_mneme(command, full), 1,
                   {"standard output: results were lost", "a disk with free space"});
  }
  // What the program's end alone writes has a reason.
  const ProgramOptions full = {.out = folder_.write("out", ""), .file_size = 1};
  expect_refusal(run_mneme({"abi", "--help"}, full), 1, {"results were lost: File too large"});
}

TEST_F(Use, RefusesADeviceThatIsNotThere) {
  const ProgramOptions hidden{.environment = {"CUDA_VISIBLE_DEVICES="}};  // on any machine
  expect_refusal(
      run_mneme({"train", experiment(tiny()), "--run", file("run"), "--device", "cuda"}, hidden), 4,
      {"cuda"});
}

TEST_F(Use, RefusesAKernelOfAttentionThatTheDeviceLacks) {
  for (const char* kernel : {"fused", "flash", "efficient"}) {
    expect_refusal(run_mneme({"train", experiment(tiny()), "--run", file("run"), "--set",
                              str("model.attention_kernel=", kernel)}),
                   2, {"model.attention_kernel", "it computes on CUDA alone", "\"auto\""});
    EXPECT_FALSE(std::filesystem::exists(file("run")));
  }
}

TEST_F(Use, EvalTakesOnlyTheModelsSwitches) {
  expect_done(run_mneme({"train", experiment(tiny()), "--run", file("run"), "--quiet"}));
  expect_done(run_mneme({"eval", file("run"), "--set", "model.clamp_distance=2", "--set",
                         "model.attention_kernel=operations", "--set",
                         "model.row_kernels=operations", "--quiet"}));
  expect_refusal(run_mneme({"eval", file("run"), "--set", "model.layers=2"}), 2,
                 {"eval --set model.layers",
                  "model.clamp_distance, model.attention_kernel or model.row_kernels"});
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
