// Files that earlier versions of the program wrote: a run with its checkpoint and stored
// evaluation, a saved conversation, a comparison. earlier_versions/<commit> holds them; the
// expected numbers are those that the program of that commit printed for the same commands.
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "host/base/file/file.hpp"
#include "tests/cli/program.hpp"

namespace mneme::test {
namespace {

namespace fs = std::filesystem;

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class EarlierVersions : public CliTest {
 protected:
  void SetUp() override {
    fs::copy(fs::path(MNEME_SOURCE_DIR) / "tests/cli/earlier_versions/bb98df80", folder_.path(),
             fs::copy_options::recursive);
  }
  // The built program, which finds its own plugins.
  static std::string run(std::vector<std::string> arguments) {
    const ProgramResult result = run_mneme(arguments, {.is_new_program = true});
    expect_done(result);
    return result.out;
  }
  static std::vector<int> generated_ids(const Json& json) {
    return json.at("samples").at(0).at("ids").get<std::vector<int>>();
  }
};

TEST_F(EarlierVersions, ARunIsListedEvaluatedAndStored) {
  const std::string text = run({"inspect", file("run")});
  EXPECT_THAT(text, HasSubstr("checkpoint    step 6: 96 tokens"));
  EXPECT_THAT(text, HasSubstr("evaluation    valid-step00000006-0f514354: loss 2.0690"));
  const Json memory =
      Json::parse(run({"eval", file("run"), "--json", "-", "--quiet"})).at("memories").at(0);
  EXPECT_EQ(memory.at("result").at("tokens"), 128);
  EXPECT_NEAR(memory.at("result").at("nll").get<double>(), 264.82633554935455, 1e-3);
}

TEST_F(EarlierVersions, ATrainingGoesOnFromTheCheckpoint) {
  run({"train", "--resume", file("run"), "--steps", "9", "--allow-changed-plugin", "--quiet"});
  Json last;
  std::istringstream lines(read_file(folder_ / "run/metrics.jsonl"));
  for (std::string line; std::getline(lines, line);) {
    const Json json = Json::parse(line);
    if (json.at("kind") == "eval") last = json;
  }
  EXPECT_EQ(last.at("step"), 9);
  EXPECT_NEAR(last.at("result").at("nll").get<double>(), 264.7206414937973, 1e-3);
}

TEST_F(EarlierVersions, AConversationGoesOn) {
  const Json json = Json::parse(
      run({"generate", file("run"), "--state", file("conversation.safetensors"), "--prompt-ids",
           "2,3", "--greedy", "--tokens", "3", "--json", "-", "--quiet"}));
  EXPECT_THAT(generated_ids(json), ElementsAre(3, 3, 3));
}

TEST_F(EarlierVersions, AComparisonIsReported) {
  const Json json = Json::parse(run({"report", file("comparison"), "--json", "-", "--quiet"}));
  EXPECT_EQ(json.at("arms").size(), 2u);
  const Json& difference = json.at("differences").at(0);
  EXPECT_EQ(difference.at("arm"), "ltm");
  EXPECT_DOUBLE_EQ(difference.at("difference").get<double>(), -3.8277357816696167e-07);
  EXPECT_DOUBLE_EQ(difference.at("low").get<double>(), -1.30920334594805e-05);
  EXPECT_DOUBLE_EQ(difference.at("high").get<double>(), 1.2326486303146576e-05);
}

}  // namespace
}  // namespace mneme::test
