// The look-ahead memory through the real binary: what a user sees.
#include "tests/cli/program.hpp"

namespace mneme::test {
namespace {

class LaMemoProgram : public CliTest {
 protected:
  static std::string tiers(const std::string& options) {
    return memory_with("lamemo", MNEME_PLUGIN_DIR, options);
  }
  ProgramResult train(const std::string& memory, const std::string& position,
                      const std::string& folder = "run") const {
    return run_mneme({"train", experiment(tiny(memory)), "--run", file(folder), "--set",
                      "model.position=" + position, "--threads", "1"});
  }
  ProgramResult eval(const std::string& memory) const {
    return run_mneme({"eval", file("run"), "--memory",
                      folder_.write("memory.toml", memory).string(), "--threads", "1"});
  }
};

TEST_F(LaMemoProgram, RefusesABackboneWithoutDisentangledPositionsBeforeARunBegins) {
  expect_refusal(
      train(tiers("rows = 6"), "relative"), 3,
      {"experiment.toml:", "org.mneme.lamemo", "the backbone has model.position = \"relative\"",
       "set [model] position = \"disentangled\""});
  expect_refusal(train(tiers("rows = 6\nsigned_ablation = true"), "disentangled"), 3,
                 {"the backbone has model.position = \"disentangled\"",
                  "set [model] position = \"relative\""});
  expect_refusal(train(tiers("rows = 0"), "disentangled"), 2,
                 {"experiment.toml:", "memory.tier.0.rows", "got 0"});
  expect_refusal(
      train(tiers("rows = 6\n[[memory.tier]]\nplugin = \"lamemo\"\nrows = 6"), "disentangled"), 2,
      {"experiment.toml:", "two tiers put riders into the layer stack"});
  EXPECT_FALSE(std::filesystem::exists(folder_ / "run"));
}

TEST_F(LaMemoProgram, EvaluatesWithAnotherNumberOfRowsAndNoOtherMechanism) {
  expect_done(train(tiers("rows = 6"), "disentangled"));
  expect_done(eval(tiers("rows = 2\nwindow = \"official\"\nepsilon = 1e-6")));
  expect_done(eval(tiers("rows = 40")));
  expect_refusal(eval(tiers("rows = 6\ninterpolation = false")), 2,
                 {"tier 0.org.mneme.lamemo: interpolation = false, trained with true"});
  expect_refusal(eval(tiers("rows = 6\nlookahead = false")), 2,
                 {"lookahead = false, trained with true"});
}

TEST_F(LaMemoProgram, TrainsTheAblations) {
  expect_done(train(tiers("rows = 6\nsigned_ablation = true"), "relative", "signed"));
  expect_done(train(tiers("rows = 6\nlookahead = false"), "disentangled", "cache"));
  expect_done(train(tiers("rows = 6\ninterpolation = false"), "disentangled", "forgetful"));
}

}  // namespace
}  // namespace mneme::test
