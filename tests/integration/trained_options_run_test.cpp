// A trained memory and a value of a trained option that is not the run's, through the real binary.
#include <nlohmann/json.hpp>

#include "host/base/file/file.hpp"
#include "host/base/text.hpp"
#include "tests/cli/program.hpp"

namespace mneme::test {
namespace {

using ::testing::HasSubstr;

namespace fs = std::filesystem;

class TrainedOptionsRun : public CliTest {
 protected:
  static std::string fitted(const std::string& options) {
    return memory_with("test_fitted", MNEME_BINARY_DIR "/tests/abi_plugins", options);
  }
  // With another policy for what does not fit.
  static std::string with_reset(std::string memory) {
    return memory.insert(std::string("[memory]\n").size(), "carry = \"reset\"\n");
  }
  std::string write(const std::string& name, const std::string& text) const {
    return folder_.write(name + ".toml", text).string();
  }
  void train(const std::string& memory) const {
    expect_done(run_mneme(
        {"train", experiment(tiny(memory)), "--run", file("run"), "--quiet", "--threads", "1"}));
  }
  // Evaluates the run with a memory file.
  ProgramResult eval(const std::string& memory) const {
    return run_mneme({"eval", file("run"), "--memory", write("memory", memory), "--json",
                      file("eval.json"), "--quiet", "--threads", "1"});
  }
};

TEST_F(TrainedOptionsRun, AreHeldAgainstTheRun) {
  train(fitted("widths = [0.5, 2]"));  // tau = 0.5 is the default
  expect_done(eval(fitted("tau = 0.5\nwidths = [0.5, 2.0]\nscale = 2.0")));
  expect_refusal(eval(fitted("tau = 0.75")), 2,
                 {"run/checkpoints/step_00000006.safetensors: the memory was trained with other "
                  "options",
                  "tier 0.test.fitted: tau = 0.75, trained with 0.5\n",
                  "tier 0.test.fitted: widths = [0.5, 1.0], trained with [0.5, 2.0]\n",
                  "memory.carry = \"reset\""});
  const std::string other = fitted("tau = 0.75\nwidths = [0.5, 2]");
  const ProgramResult reset = eval(with_reset(other));
  expect_done(reset);
  const std::string warning =
      ": initial values for parameters that the run has not trained: memory.0.test.fitted.0.gain";
  EXPECT_THAT(reset.err, HasSubstr("memory" + warning)) << "with --quiet";
  const Json memory = Json::parse(read_file(folder_ / "eval.json")).at("memories").at(0);
  EXPECT_EQ(memory.at("untrained_parameters"), Json::array({"memory.0.test.fitted.0.gain"}));
  const ProgramResult text =
      run_mneme({"generate", file("run"), "--memory", file("memory.toml"), "--prompt-ids", "1",
                 "--tokens", "1", "--json", "-", "--quiet", "--threads", "1"});
  expect_done(text);
  EXPECT_THAT(text.err, HasSubstr("memory" + warning));
  EXPECT_EQ(Json::parse(text.out).at("untrained_parameters"), memory.at("untrained_parameters"));
}

TEST_F(TrainedOptionsRun, AreHeldAgainstTheFirstWeights) {
  train(fitted(""));
  const auto begin = [&](const std::string& memory, const std::string& folder) {
    return run_mneme({"train", experiment(tiny(memory)), "--init", file("run"), "--run",
                      file(folder), "--quiet", "--threads", "1"});
  };
  expect_refusal(
      begin(fitted("tau = 0.75"), "new"), 2,
      {"tier 0.test.fitted: tau = 0.75, trained with 0.5\n", "memory.carry = \"reset\""});
  EXPECT_FALSE(fs::exists(folder_ / "new"));
  const ProgramResult result = begin(with_reset(fitted("tau = 0.75")), "new");
  expect_done(result);
  EXPECT_THAT(result.err, HasSubstr("memory.0.test.fitted.0.gain"));
}

TEST_F(TrainedOptionsRun, AreHeldAgainstTheCheckpointWhenARunGoesOn) {
  train(fitted(""));
  std::string text = read_file(folder_ / "run/experiment.toml");
  const std::string plugin = "plugin = \"test_fitted\"\n";
  text.insert(text.find(plugin) + plugin.size(), "tau = 0.75\n");
  folder_.write("run/experiment.toml", text);
  expect_refusal(run_mneme({"train", "--resume", file("run"), "--quiet", "--threads", "1"}), 2,
                 {"step_00000006.safetensors", "tau = 0.75, trained with 0.5\n", "resume with"});
}

TEST_F(TrainedOptionsRun, AreDescribed) {
  const std::string plugin = MNEME_BINARY_DIR "/tests/abi_plugins/test_fitted.so";
  const ProgramResult text = run_mneme({"plugins", "describe", plugin});
  expect_done(text);
  EXPECT_THAT(text.out, HasSubstr("tau: a real number in [0, 1]; default 0.5; fixed once trained"));
  const ProgramResult json = run_mneme({"plugins", "describe", plugin, "--json", "-"});
  const Json options = Json::parse(json.out).at("options");
  EXPECT_EQ(options.at(0).at("trained"), true);
  EXPECT_EQ(options.at(3).at("trained"), false);
}

#ifdef MNEME_HAS_CONTINUOUS_LTM
// The continuous memory: basis, widths and tau give its parameters and coefficients their meaning.
TEST_F(TrainedOptionsRun, OfTheContinuousMemoryAreItsBasisWidthsAndTau) {
  const auto continuous = [](const std::string& options) {
    return memory_with("continuous_ltm", MNEME_PLUGIN_DIR, options);
  };
  train(continuous("basis = 8\ntau = 0.5"));
  expect_done(eval(continuous("basis = 8\ntau = 0.5\nwidths = [0.01, 0.05]\neval_sticky = true")));
  expect_refusal(eval(continuous("basis = 8")), 2, {"tau = 0.75, trained with 0.5\n"});
  expect_refusal(eval(continuous("basis = 16\ntau = 0.5\nwidths = [0.1]")), 2,
                 {"basis = 16, trained with 8\n", "widths = [0.1], trained with [0.01, 0.05]\n"});
  expect_done(eval(with_reset(continuous("basis = 16\ntau = 0.25"))));
}
#endif

}  // namespace
}  // namespace mneme::test
