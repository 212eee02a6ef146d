// mneme plugins describe NAME --in EXP: what a tier declares and logs in an experiment.
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "host/base/file/file.hpp"
#include "host/base/text.hpp"
#include "tests/cli/program.hpp"

namespace mneme::test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

namespace fs = std::filesystem;

// Two sizes of a continuous memory: with 64 samples an update shrinks what is stored, with 32 it
// grows. Segments of 24 rows, width 16, 2 heads of 8, 4 lanes.
const std::string kContinuous = "basis = 64\ntau = 0.75\nridge = 1.0\nwidths = [0.01, 0.05]\n";

int count_of(const std::string& text, const std::string& part) {
  int count = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

class DescribeTier : public CliTest {
 protected:
  // Wide enough that no line is broken.
  void SetUp() override { ::setenv("COLUMNS", "1000", 1); }
  void TearDown() override { ::unsetenv("COLUMNS"); }
  // Segments of 24 in training, of `eval_segment` in evaluation.
  std::string with(const std::string& memory, int eval_segment = 24) const {
    std::string text = tiny(memory, "segment = " + std::to_string(eval_segment) + "\n");
    text.replace(text.find("layers = 1"), 10, "layers = 2");
    text.replace(text.find("segment = 8"), 11, "segment = 24");
    return experiment(text);
  }
  std::string continuous(const std::string& options, int eval_segment = 24) const {
    return with(memory_with("continuous_ltm", MNEME_PLUGIN_DIR, kContinuous + options),
                eval_segment);
  }
  static ProgramResult describe(const std::string& name, const std::string& path,
                                const std::vector<std::string>& more = {}) {
    std::vector<std::string> arguments{"plugins", "describe", name, "--in", path};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_mneme(arguments);
  }
};

TEST_F(DescribeTier, SaysHowTheUpdateOfAContinuousMemoryGrows) {
  const ProgramResult result = describe("continuous_ltm", continuous("samples = 32\n"));
  expect_done(result);
  EXPECT_EQ(result.err, "") << "what the plugin says is part of the description";
  EXPECT_THAT(result.out, HasSubstr("hooks: absorb, read\noptions (keys of [[memory.tier]]):\n"));
  EXPECT_THAT(result.out, HasSubstr("\ntier 0.org.mneme.continuous_ltm ("));
  EXPECT_THAT(result.out, HasSubstr("experiment.toml:4:1), layers [0, 1]\n"));
  EXPECT_THAT(result.out, HasSubstr("        key_weight [16, 16] a layer: 512\n"));
  EXPECT_THAT(result.out,
              HasSubstr("in training and evaluation, segments of 24:\n"
                        "        absorbs: before reading; reads at: out; wants: read: q\n"
                        "        context: no rows; segments of any length\n"
                        "        state of 4 lanes (B), over all layers:\n"
                        "            slot coefficients [B, 64, 16] f32 a layer: 32768 bytes\n"
                        "            slot absorbed [B] i64 a layer: 64 bytes\n"));
  EXPECT_THAT(result.out,
              HasSubstr("info org.mneme.continuous_ltm: the update with segments of 24 rows and 32 "
                        "samples has spectral radius 1.5377\n"));
  EXPECT_THAT(result.out,
              HasSubstr("warning org.mneme.continuous_ltm: with segments of 24 rows the update's "
                        "spectral radius is 1.5377: the stored signal grows without bound"));
}

TEST_F(DescribeTier, NamesTheLossesAndRefusesAWeightOfNone) {
  const ProgramResult result = describe("continuous_ltm", continuous("weight.kl = 0.5\n"));
  expect_done(result);
  EXPECT_THAT(result.out, HasSubstr("\nauxiliary losses: weight.kl\n"));
  expect_refusal(
      describe("continuous_ltm", continuous("weight.lk = 0.0\n")), 2,
      {"experiment.toml:10:13: memory.tier.0.weight.lk: the plugin continuous_ltm declares "
       "no auxiliary loss \"lk\" (did you mean \"kl\"?)"});
}

TEST_F(DescribeTier, TakesKeysAndAMemoryFile) {
  const std::string memory =
      folder_
          .write("memory.toml",
                 memory_with("continuous_ltm", MNEME_PLUGIN_DIR, kContinuous + "samples = 64\n"))
          .string();
  const ProgramResult result = describe("continuous_ltm", with("[memory]\n"),
                                        {"--memory", memory, "--set", "train.lanes=3"});
  expect_done(result);
  EXPECT_THAT(result.out, HasSubstr("rows and 64 samples has spectral radius 0."));
  EXPECT_THAT(result.out, Not(HasSubstr("warning")));
  EXPECT_THAT(result.out, HasSubstr("slot coefficients [B, 64, 16] f32 a layer: 24576 bytes\n"));
}

TEST_F(DescribeTier, ShowsTheInstanceForEvaluationWhereThereIsOne) {
  const std::string path = continuous("samples = 64\neval_sticky = true\n", 12);
  const ProgramResult result = describe("org.mneme.continuous_ltm", path, {"--json", "-"});
  expect_done(result);
  const Json tiers = Json::parse(result.out).at("tiers");
  ASSERT_EQ(tiers.size(), 1U);
  const Json& tier = tiers.at(0);
  EXPECT_EQ(tier.at("tier"), "0.org.mneme.continuous_ltm");
  EXPECT_EQ(tier.at("layers"), Json({0, 1}));
  // key, value, output 16 x 16 each; two maps of 64; a convolution of width 3 with its bias.
  EXPECT_EQ(tier.at("parameter_count"), 2 * (3 * 256 + 2 * 64 + 3 * 256 + 16));
  EXPECT_EQ(tier.at("training").at("slots").size(), 2U);
  EXPECT_EQ(tier.at("training").at("segment"), 24);
  const Json& evaluation = tier.at("evaluation");
  EXPECT_EQ(evaluation.at("segment"), 12);
  const Json& density = evaluation.at("slots").at(1);
  EXPECT_EQ(density.at("name"), "density");
  EXPECT_EQ(density.at("dtype"), "f64");
  EXPECT_EQ(density.at("shape"), Json({"B", 128}));
  EXPECT_EQ(density.at("bytes"), 2 * evaluation.at("lanes").get<int>() * 128 * 8);
  EXPECT_THAT(evaluation.at("logged").at(0).at("text").get<std::string>(),
              HasSubstr("segments of 12 rows and 64 samples"));

  const ProgramResult text = describe("continuous_ltm.so", path);
  EXPECT_THAT(text.out, HasSubstr("    in training, segments of 24:\n"));
  EXPECT_THAT(text.out, HasSubstr("    in evaluation, segments of 12:\n"));
}

// A run's log holds the line once, though there are two instances, unless they have two updates.
TEST_F(DescribeTier, TrainingSaysTheRadiusOnce) {
  const std::string line = "has spectral radius";
  for (const int eval_segment : {24, 12}) {
    const ProgramResult result =
        run_mneme({"train", continuous("samples = 32\neval_report_error = true\n", eval_segment),
                   "--run", file(std::to_string(eval_segment)), "--quiet", "--threads", "1"});
    expect_done(result);
    const int updates = eval_segment == 24 ? 1 : 2;
    EXPECT_EQ(count_of(result.err, line), updates) << result.err;
    EXPECT_GE(count_of(result.err, "warning org.mneme"), 1) << result.err;
  }
}

TEST_F(DescribeTier, CountsAQueueAtItsCapacity) {
  const ProgramResult cache =
      describe(fs::path(MNEME_PLUGIN_DIR) / "xl_cache.so",
               with(memory_with("xl_cache", MNEME_PLUGIN_DIR, "rows = 32\neval_rows = 64\n")));
  expect_done(cache);
  EXPECT_THAT(cache.out, HasSubstr("parameters: 0 numbers"));
  EXPECT_THAT(cache.out, HasSubstr("absorbs: after the segment; reads at: nothing"));
  EXPECT_THAT(cache.out, HasSubstr("context: at most 64 rows a layer"));
  EXPECT_THAT(cache.out, HasSubstr("releases rows; same losses however a text is cut\n"));
  EXPECT_THAT(cache.out, HasSubstr("queue cache [B, 32, 16] f32 a layer, layer inputs: 16384 bytes "
                                   "when full\n"));
  EXPECT_THAT(cache.out, HasSubstr("logged while it was made: nothing\n"));
  // Both tensors of keys and values count.
  const fs::path tests = fs::path(MNEME_BINARY_DIR) / "tests/abi_plugins";
  const ProgramResult keys =
      describe("test_knn", with(memory_with("test_knn", tests, "rows = 10\nlayers = [1]\n")),
               {"--json", "-"});
  expect_done(keys);
  const Json queue = Json::parse(keys.out).at("tiers").at(0).at("training").at("queues").at(0);
  EXPECT_EQ(queue.at("shape"), Json({"B", 10, 2, 8}));
  EXPECT_EQ(queue.at("rows"), "keys and values");
  EXPECT_EQ(queue.at("bytes"), 2 * 4 * 10 * 16 * 4);
}

// In bf16 rows come in bf16, and a queue holds them so: as many bytes as an evaluation measures.
TEST_F(DescribeTier, CountsRowsInTheComputeDtype) {
  const std::string path = with(memory_with("xl_cache", MNEME_PLUGIN_DIR, "rows = 32\n"));
  const std::vector<std::string> low = {"--set", "train.precision=bf16"};
  const ProgramResult cache = describe("xl_cache", path, low);
  expect_done(cache);
  EXPECT_THAT(cache.out, HasSubstr("queue cache [B, 32, 16] bf16 a layer, layer inputs: 8192 bytes "
                                   "when full\n"));
  expect_done(run_mneme(
      {"train", path, "--run", file("low"), "--quiet", "--threads", "1", low[0], low[1]}));
  const ProgramResult evaluated = run_mneme({"eval", file("low"), "--quiet", "--json", "-"});
  expect_done(evaluated);
  const Json result = Json::parse(evaluated.out).at("memories").at(0).at("result");
  EXPECT_EQ(result.at("state_bytes").get<int>() / result.at("lanes").get<int>(), 8192 / 4);
}

TEST_F(DescribeTier, TellsModelScopeAndUnknownBytes) {
  const fs::path tests = fs::path(MNEME_BINARY_DIR) / "tests/abi_plugins";
  const std::string memory = memory_with("test_everything", tests) +
                             "[[memory.tier]]\nplugin = \"test_everything\"\nlayers = [0]\n";
  const ProgramResult result = describe("test_everything", with(memory));
  expect_done(result);
  EXPECT_THAT(result.out, HasSubstr("        start [16] a layer: 32\n"
                                    "        shared [16] for the model: 16\n"));
  EXPECT_THAT(result.out, HasSubstr("slot finished [B] f32 for the model: 16 bytes\n"));
  EXPECT_THAT(result.out, HasSubstr("queue places [B, any, 16] f32 a layer, layer inputs with "
                                    "position: bytes depend on what is written\n"));
  EXPECT_THAT(result.out, HasSubstr("wants: read: the projected result, read: x, finish: the top "
                                    "output, finish: all layers' outputs, finish: targets, "
                                    "finish: log-probabilities\n"));
  EXPECT_EQ(count_of(result.out, "\ntier "), 2) << "every tier of the plugin";
}

TEST_F(DescribeTier, NamesTheTiersWhenNoneIsOfThePlugin) {
  const std::string path = continuous("samples = 32\n");
  for (const std::string name : {"xl_cache", "./xl_cache.so"}) {
    expect_refusal(describe(name, path), 2,
                   {"plugins describe --in " + path, "no tier of this memory is of the plugin",
                    name, "0.org.mneme.continuous_ltm ("});
  }
  expect_refusal(describe("continuos_ltm", path), 2, {"(did you mean \"continuous_ltm\"?)"});
  expect_refusal(describe("continuous_ltm", with("[memory]\n")), 2, {"a memory without tiers"});
}

TEST_F(DescribeTier, RefusesABadExperiment) {
  expect_refusal(describe("continuous_ltm", file("absent.toml")), 2, {"absent.toml"});
  expect_refusal(describe("continuous_ltm", continuous("smples = 32\n")), 2,
                 {"smples", "(did you mean \"samples\"?)"});
  expect_refusal(describe("continuous_ltm", continuous(""), {"--set", "train.lans=3"}), 2,
                 {"train.lans", "(did you mean \"train.lanes\"?)"});
  expect_refusal(describe("absent", with(memory_with("absent", MNEME_PLUGIN_DIR))), 3,
                 {"absent", "not found"});
}

TEST_F(DescribeTier, RefusesArgumentsThatDoNotGoTogether) {
  const std::string path = continuous("samples = 32\n");
  expect_refusal(run_mneme({"plugins", "describe", "x", "--memory", path}), 2,
                 {"plugins describe --memory goes with --in"});
  expect_refusal(run_mneme({"plugins", "describe", "x", "--set", "train.lanes=2"}), 2,
                 {"plugins describe --set goes with --in"});
  expect_refusal(describe("x", path, {"--plugins", MNEME_PLUGIN_DIR}), 2,
                 {"plugins describe --in", "leave --plugins out"});
  expect_refusal(describe("x", path, {"--memory", path, "--memory", path}), 2, {"--memory"});
}

}  // namespace
}  // namespace mneme::test
