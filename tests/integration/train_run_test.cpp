#include <csignal>
#include <nlohmann/json.hpp>
#include <sstream>

#include "host/base/file/file.hpp"
#include "host/base/text.hpp"
#include "tests/cli/program.hpp"
#include "tests/run/run_compare.hpp"

namespace mneme::test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

namespace fs = std::filesystem;

class TrainRun : public CliTest {
 protected:
  // xl_cache where it was built, else no memory.
  std::string memory() const {
    const fs::path plugin = fs::path(MNEME_PLUGIN_DIR) / "xl_cache.so";
    return fs::exists(plugin) ? memory_with("xl_cache", MNEME_PLUGIN_DIR, "rows = 16")
                              : "[memory]\n";
  }
  Json eval_json(const std::string& run, const std::vector<std::string>& more = {}) const {
    std::vector<std::string> arguments{"eval", file(run), "--json", file("eval.json"), "--quiet"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    expect_done(run_mneme(arguments));
    return Json::parse(read_file(folder_ / "eval.json"));
  }
  // The loss of a run's evaluation, bit for bit as printed.
  Json nll(const std::string& run) const {
    return eval_json(run).at("memories").at(0).at("result").at("loss");
  }
};

TEST_F(TrainRun, PrintsPlainLinesInAPipe) {
  const ProgramResult result = run_mneme(
      {"train", experiment(tiny(memory())), "--run", file("run")}, {.environment = {"NO_COLOR=1"}});
  expect_done(result);
  EXPECT_THAT(result.err, HasSubstr("train 6/6"));
  EXPECT_THAT(result.err, HasSubstr("tokens/s"));
  EXPECT_THAT(result.err, HasSubstr("step 6, valid: loss "));
  for (const std::string& text : {result.out, result.err}) {
    EXPECT_THAT(text, Not(HasSubstr("\r")));
    EXPECT_THAT(text, Not(HasSubstr("\x1b")));
  }
  EXPECT_THAT(result.out, HasSubstr("trained 6 steps"));
  for (const char* const name : {"experiment.toml", "run.json", "metrics.jsonl",
                                 "checkpoints/step_00000006.safetensors", "tensorboard"}) {
    EXPECT_TRUE(fs::exists(folder_ / "run" / name)) << name;
  }
}

TEST_F(TrainRun, QuietPrintsNoProgress) {
  const ProgramResult result =
      run_mneme({"train", experiment(tiny(memory())), "--run", file("run"), "--quiet"});
  expect_done(result);
  EXPECT_EQ(result.err, "");
}

TEST_F(TrainRun, JsonGoesToStdout) {
  const ProgramResult result = run_mneme(
      {"train", experiment(tiny(memory())), "--run", file("run"), "--quiet", "--json", "-"});
  expect_done(result);
  const auto json = Json::parse(result.out);
  EXPECT_EQ(json.at("steps"), 6);
  EXPECT_EQ(json.at("interrupted"), false);
  EXPECT_EQ(json.at("evaluations").size(), 1U);
}

TEST_F(TrainRun, EvaluatesWhatItTrained) {
  expect_done(run_mneme({"train", experiment(tiny(memory())), "--run", file("run"), "--quiet",
                         "--json", file("train.json")}));
  const auto train = Json::parse(read_file(folder_ / "train.json"));
  const auto json = eval_json("run");
  const auto& result = json.at("memories").at(0).at("result");
  EXPECT_EQ(result.at("loss"), train.at("evaluations").at(0).at("result").at("loss"));
  const ProgramResult text = run_mneme({"eval", file("run"), "--quiet"});
  expect_done(text);
  EXPECT_THAT(text.out, HasSubstr("as trained"));
}

TEST_F(TrainRun, EvaluatesWithOtherMemories) {
  expect_done(run_mneme({"train", experiment(tiny(memory())), "--run", file("run"), "--quiet"}));
  const auto none = folder_.write("none.toml", "[memory]\n").string();
  const auto own = folder_.write("own.toml", memory()).string();
  const auto json = eval_json("run", {"--memory", none, "--memory", own});
  ASSERT_EQ(json.at("memories").size(), 2U);
  EXPECT_EQ(json.at("memories").at(0).at("name"), "none");
  EXPECT_EQ(json.at("memories").at(0).at("result").at("state_bytes"), 0);
  EXPECT_EQ(json.at("memories").at(1).at("result").at("loss"), nll("run"));
  const Json& speed = json.at("memories").at(1).at("speed");
  EXPECT_EQ(speed.at("tokens_per_second"),
            json.at("memories").at(1).at("result").at("tokens_per_second"));
  EXPECT_GT(speed.at("mfu").get<double>(), 0.0);
}

TEST_F(TrainRun, SetChangesTheEvaluation) {
  expect_done(run_mneme({"train", experiment(tiny(memory())), "--run", file("run"), "--quiet"}));
  const auto json = eval_json("run", {"--set", "eval.steps=2"});
  EXPECT_EQ(json.at("memories").at(0).at("result").at("segments"), 2);
}

TEST_F(TrainRun, StopsAtASignalAndContinuesBitForBit) {
  std::string text = tiny(memory());
  text.replace(text.find("steps = 6"), 9, "steps = 120");
  const std::string path = experiment(text);
  expect_done(run_mneme({"train", path, "--run", file("whole"), "--quiet"}));

  for (const auto& [signal, name] :
       {std::pair{SIGINT, "SIGINT"}, std::pair{SIGTERM, "SIGTERM"}, std::pair{SIGHUP, "SIGHUP"}}) {
    SCOPED_TRACE(name);
    // Twice at once, as a launcher does that signals the process and its group.
    const ProgramResult stopped =
        run_mneme({"train", path, "--run", file(name)},
                  {.signal = signal, .signal_after = "train 1/120", .second_signal = signal});
    EXPECT_EQ(stopped.signal, 0);
    EXPECT_EQ(stopped.exit_code, 128 + signal) << stopped.err;
    EXPECT_THAT(stopped.err, HasSubstr(str("stopped by ", name, " after step ")));
    EXPECT_THAT(stopped.err, HasSubstr("mneme train --resume " + file(name)));
    expect_done(run_mneme({"train", "--resume", file(name), "--quiet"}));
    EXPECT_EQ(nll(name), nll("whole"));
    expect_same_runs(folder_ / "whole", folder_ / name);
  }
}

TEST_F(TrainRun, EvaluatesTheCheckpointThatIsNamed) {
  expect_done(run_mneme({"train", experiment(tiny(memory())), "--run", file("run"), "--quiet",
                         "--set", "train.save_every=2", "--set", "train.eval_every=2"}));
  const auto lines = timeless_metrics(folder_ / "run");
  const auto loss_at = [&](int step) {
    for (const Json& line : lines) {
      if (line.at("kind") == "eval" && line.at("step") == step) return line.at("result").at("loss");
    }
    return Json();
  };
  const auto loss_of = [&](const std::string& which) {
    return eval_json("run", {"--checkpoint", which}).at("memories").at(0).at("result").at("loss");
  };
  EXPECT_EQ(loss_of("4"), loss_at(4));
  EXPECT_EQ(loss_of("last"), loss_at(6));
  Json best = loss_at(2);
  for (const int step : {4, 6}) best = std::min(best, loss_at(step));
  EXPECT_EQ(loss_of("best"), best);
  expect_refusal(run_mneme({"eval", file("run"), "--checkpoint", "5"}), 2,
                 {"the run has no checkpoint 5", "4, 6"});
}

TEST_F(TrainRun, ChoosesAFreeRunFolder) {
  const std::string path = experiment(tiny());
  const ProgramOptions here{.folder = folder_.path()};
  expect_done(run_mneme({"train", path, "--quiet"}, here));
  expect_done(run_mneme({"train", path, "--quiet"}, here));
  EXPECT_TRUE(fs::exists(folder_ / "runs/experiment/checkpoints/step_00000006.safetensors"));
  EXPECT_TRUE(fs::exists(folder_ / "runs/experiment-2/checkpoints/step_00000006.safetensors"));
}

}  // namespace
}  // namespace mneme::test
