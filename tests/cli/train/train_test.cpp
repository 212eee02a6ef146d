// mneme train: dry runs, groups of parameters, too little memory, memory that is reused, signals
// while evaluating.
#include <signal.h>
#include <sys/resource.h>

#include <nlohmann/json.hpp>

#include "host/base/file/file.hpp"
#include "host/base/text.hpp"
#include "tests/base/sanitized.hpp"
#include "tests/cli/program.hpp"

namespace mneme::test {
namespace {

namespace fs = std::filesystem;

using ::testing::HasSubstr;
using ::testing::Not;

class Train : public CliTest {};

TEST_F(Train, DryRunSaysWhatWouldHappenAndWritesNothing) {
  const std::string path = experiment(tiny());
  const ProgramOptions here{.folder = folder_.path()};
  const ProgramResult result = run_mneme({"train", path, "--dry-run"}, here);
  expect_done(result);
  EXPECT_THAT(result.out, HasSubstr("backbone: "));
  EXPECT_THAT(result.out, HasSubstr("memory: 0 parameters"));
  EXPECT_THAT(result.out, HasSubstr("device memory: about "));
  EXPECT_THAT(result.out, HasSubstr("schedule: cosine, 6 steps of 32 tokens; no warm-up"));
  EXPECT_THAT(result.out, HasSubstr("data: motif, vocabulary of 8"));
  EXPECT_FALSE(fs::exists(folder_ / "runs"));
}

TEST_F(Train, DryRunSaysWhatMuonUpdates) {
  const std::string path = experiment(tiny());
  const ProgramResult result =
      run_mneme({"train", path, "--dry-run", "--set", "train.optimizer=muon"});
  expect_done(result);
  EXPECT_THAT(result.out, HasSubstr("optimiser: muon\n  updated by adamw"));
  EXPECT_THAT(result.out, HasSubstr("\n  updated by muon"));
  EXPECT_THAT(result.out, HasSubstr("two for each parameter, one for"));
  const std::string all =
      experiment(tiny() + "\n[[train.group]]\nparameters = [\"model.*\"]\noptimizer = \"muon\"\n");
  expect_refusal(run_mneme({"train", all, "--dry-run", "--set", "train.optimizer=muon"}), 2,
                 {"train.group 1: optimizer: Muon cannot update model.", "got shape ["});
}

TEST_F(Train, DryRunSaysWhatWindowsHide) {
  const std::string path = experiment(tiny());
  const auto plan = [&](const std::string& windows) {
    const ProgramResult result = run_mneme({"train", path, "--dry-run", "--set", "model.layers=2",
                                            "--set", "model.window=" + windows});
    expect_done(result);
    return result.out;
  };
  EXPECT_THAT(plan("[3, 0]"),
              HasSubstr(str("windows:\n  none", std::string(30, ' '), "1 layer\n  3 tokens",
                            std::string(26, ' '), "1 layer\n")));
  EXPECT_THAT(plan("0"), Not(HasSubstr("windows")));
}

// A plan for another machine: the host's free memory would say nothing about it.
TEST_F(Train, DryRunSaysThatTheDeviceIsNotHere) {
  const ProgramResult result =
      run_mneme({"train", experiment(tiny()), "--dry-run", "--device", "cuda:99"});
  expect_done(result);
  EXPECT_THAT(result.out, HasSubstr("device: cuda:99 is not here, a training on it is refused:"));
  EXPECT_THAT(result.out, Not(HasSubstr("free here")));
}

TEST_F(Train, DryRunGivesJson) {
  const ProgramResult result = run_mneme({"train", experiment(tiny()), "--dry-run", "--json", "-"});
  expect_done(result);
  const Json json = Json::parse(result.out);
  EXPECT_EQ(json.at("format"), "mneme-dry-run");
  EXPECT_EQ(json.at("steps"), 6);
  EXPECT_GT(json.at("memory_estimate").at("bytes"), 0);
  EXPECT_EQ(json.at("parameters").at(0).at("name"), "model.embedding.0.weight");
}

TEST_F(Train, DryRunRefusesWhatItWouldNotWrite) {
  expect_refusal(run_mneme({"train", experiment(tiny()), "--dry-run", "--run", file("run")}), 2,
                 {"train --dry-run", "--run"});
  expect_refusal(run_mneme({"train", "--resume", file("run"), "--dry-run"}), 2,
                 {"train --dry-run", "--resume"});
}

TEST_F(Train, DryRunNeedsTheVocabulary) {
  std::string text = tiny();
  text.replace(text.find("task = \"motif\""), text.find("[train]") - text.find("task = \"motif\""),
               "task = \"tokens\"\ntrain = \"absent.safetensors\"\n");
  expect_refusal(run_mneme({"train", experiment(text), "--dry-run"}), 2,
                 {"data.train", "absent.safetensors is not there", "data.vocabulary_size"});
  const ProgramResult known =
      run_mneme({"train", experiment(text), "--dry-run", "--set", "data.vocabulary_size=1000"});
  expect_done(known);
  EXPECT_THAT(known.out, HasSubstr("vocabulary of 1000 (from data.vocabulary_size)"));
}

TEST_F(Train, RefusesAGroupThatNamesNoParameter) {
  const std::string text =
      tiny() + "\n[[train.group]]\nparameters = [\"model.layers.0.ff.in.weihgt\"]\nlr = 1e-3\n";
  expect_refusal(run_mneme({"train", experiment(text), "--run", file("run")}), 2,
                 {"train.group 1", "names no parameter", "model.layers.0.ff.in.weight"});
  EXPECT_FALSE(fs::exists(folder_ / "run"));
}

#if defined(MNEME_HAS_CONTINUOUS_LTM) && defined(MNEME_HAS_XL_CACHE)
TEST_F(Train, MasksDocumentsUnlessTheMemoryMixesThem) {
  std::string text;
  for (int i = 0; i < 400; ++i) text += str("line ", i, '\n');
  folder_.write("text.txt", text);
  const auto masked = [&](const std::string& plugin, const std::string& options,
                          bool is_plan = false) {
    const std::string path = experiment(
        tiny_on("task = \"text\"\ntrain = \"text.txt\"\ndocuments = \"line\"\nreset = \"mask\"\n",
                memory_with(plugin, MNEME_PLUGIN_DIR, options)));
    if (is_plan) return run_mneme({"train", path, "--dry-run"});
    return run_mneme({"train", path, "--run", file("run"), "--quiet"});
  };
  expect_refusal(masked("continuous_ltm", "basis = 8\n", true), 2, {"tier 0"});
  expect_refusal(masked("continuous_ltm", "basis = 8\n"), 2,
                 {"tier 0", "continuous_ltm", "tokens may not see other documents",
                  "its results are made of rows of all documents", "data.reset = \"document\""});
  EXPECT_FALSE(fs::exists(folder_ / "run"));
  expect_done(masked("xl_cache", "rows = 8\n"));

  // One document from an empty memory is another matter.
  std::string memory = memory_with("continuous_ltm", MNEME_PLUGIN_DIR, "basis = 8\n");
  memory.insert(memory.find("[memory]\n") + 9, "carry = \"reset\"\n");
  folder_.write("signal.toml", memory);
  const auto with_signal = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), {"--memory", file("signal.toml")});
    return run_mneme(arguments);
  };
  const std::vector<std::string> certify{"certify",  file("run"), "--text", file("text.txt"),
                                         "--tokens", "40",        "--json", "-"};
  expect_done(with_signal({"generate", file("run"), "--prompt", "line", "--tokens", "20"}));
  expect_refusal(with_signal(certify), 2, {"tokens may not see other documents"});
  std::vector<std::string> alone = certify;
  alone.insert(alone.end(), {"--set", "data.reset=document"});
  const ProgramResult certified = with_signal(alone);
  expect_done(certified);
  const Json certificate = Json::parse(certified.out);
  for (const Json& line : certificate.at("lines")) {
    if (line.at("name") == "generation") {
      EXPECT_EQ(line.at("result"), "holds");
    }
  }
}
#endif

// Tensors of one step leave their memory to the next one: no page is mapped and cleared twice.
TEST_F(Train, StepsReuseTheirMemory) {
  if (is_address_sanitized()) GTEST_SKIP() << "the sanitizer's allocator keeps freed memory back";
  constexpr std::int64_t kFewSteps = 5, kMoreSteps = 20;
  const auto faults_of = [&](std::int64_t steps) {
    rusage before = {}, after = {};
    getrusage(RUSAGE_CHILDREN, &before);
    expect_done(run_mneme({"train", experiment(tiny()), "--run", file(str("run", steps)), "--quiet",
                           "--set", "data.alphabet=5000", "--set", "train.segment=16", "--set",
                           "train.lanes=128", "--set", str("train.steps=", steps)}));
    getrusage(RUSAGE_CHILDREN, &after);
    return after.ru_minflt - before.ru_minflt;
  };
  // 16 tokens x 128 lanes x 5,000 logits in f32, which the system gets in pages of 4 KiB.
  constexpr std::int64_t kPagesOfLogits = 16 * 128 * 5000 * 4 / 4096;
  // A block may find its place later than in the first steps; mapped anew, the logits and their
  // gradient alone would take twice as many pages a step.
  EXPECT_LT(faults_of(kMoreSteps) - faults_of(kFewSteps),
            (kMoreSteps - kFewSteps) * kPagesOfLogits / 2);
}

TEST_F(Train, NamesTheConsumersWhenMemoryRunsOut) {
  if (is_address_sanitized()) {
    GTEST_SKIP() << "the sanitizer needs the address space for itself";
  }
  ProgramOptions small;
  small.address_space = std::int64_t{6} << 30;
  // 2^9 x 2^9 attention scores of 2 heads and 2^12 lanes take 8 GiB; dropout keeps them.
  const ProgramResult result = run_mneme(
      {"train", experiment(tiny()), "--run", file("run"), "--quiet", "--set", "train.segment=512",
       "--set", "train.lanes=4096", "--set", "model.attention_dropout=0.1", "--force"},
      small);
  expect_refusal(result, 1,
                 {"step 1: out of memory", "activations of the layers: about ",
                  "lower train.lanes, train.segment"});
}

TEST_F(Train, StopsWithinASegmentWhileItEvaluates) {
  std::string text = tiny();
  text.replace(text.find("log_every"), 0, "eval_every = 1\n");
  text.replace(text.rfind("steps = 4"), 9, "steps = 100000000");  // hours
  const std::string path = experiment(text);
  const ProgramResult stopped = run_mneme({"train", path, "--run", file("run")},
                                          {.signal = SIGTERM, .signal_after = "train 1/6"});
  EXPECT_EQ(stopped.signal, 0);
  EXPECT_EQ(stopped.exit_code, 128 + SIGTERM) << stopped.err;
  EXPECT_THAT(stopped.err, HasSubstr("stopped by SIGTERM after step 1 of 6"));
  EXPECT_THAT(stopped.err, HasSubstr("saved; continue with mneme train --resume"));
  EXPECT_THAT(read_file(folder_ / "run/metrics.jsonl"), Not(HasSubstr("\"eval\"")));
}

TEST_F(Train, SaysThatItStoppedEarly) {
  std::string text = tiny();
  text.replace(text.find("lr = 3e-3"), 9, "lr = 1e-300\neval_every = 1\nearly_stop = 2");
  const ProgramResult result =
      run_mneme({"train", experiment(text), "--run", file("run"), "--quiet"});
  expect_done(result);
  EXPECT_THAT(result.out, HasSubstr("stopped early: 2 evaluations without a lower valid loss; the "
                                    "best one was at step 1"));
  EXPECT_THAT(result.out, HasSubstr("trained 3 steps"));
}

}  // namespace
}  // namespace mneme::test
