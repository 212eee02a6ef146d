// mneme analyze of memories of rows, through the real binary: alpha, regions, attention by
// distance, extrapolation.
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "host/base/file/file.hpp"
#include "host/base/file/safetensors.hpp"
#include "host/base/text.hpp"
#include "tests/cli/program.hpp"

namespace mneme::test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

namespace fs = std::filesystem;

const fs::path kTestPlugins = fs::path(MNEME_BINARY_DIR) / "tests/abi_plugins";

class AnalyzeRows : public CliTest {
 protected:
  void SetUp() override {
    std::string text;
    for (int i = 0; i < 60; ++i) text += "the cat sat on the mat and a dog barked twice";
    folder_.write("train.txt", text);
    folder_.write("valid.txt", text.substr(0, 600));
    cache_ = write("cache", memory_with("xl_cache", MNEME_PLUGIN_DIR, "rows = 16"));
    none_ = write("none", "[memory]\n");
  }
  std::string write(const std::string& name, const std::string& text) const {
    return folder_.write(name + ".toml", text).string();
  }
  std::string train(const std::string& name, const std::string& memory) const {
    std::string text = tiny_on(
        "task = \"text\"\ntrain = \"train.txt\"\nvalid = \"valid.txt\"\n"
        "vocabulary = \"byte\"\nreset = \"never\"\n",
        memory);
    text.replace(text.find("layers = 1"), 10, "layers = 2");
    expect_done(
        run_mneme({"train", experiment(text), "--run", file(name), "--quiet", "--threads", "1"}));
    return file(name);
  }
  ProgramResult analyze(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), "analyze");
    for (const std::string& more :
         {std::string("--out"), file("out"), std::string("--quiet"), std::string("--threads"),
          std::string("1"), std::string("--json"), file("analysis.json")}) {
      arguments.push_back(more);
    }
    return run_mneme(arguments);
  }
  std::string out(const std::string& name) const { return read_file(folder_ / "out" / name); }
  bool has(const std::string& name) const { return fs::exists(folder_ / "out" / name); }
  Json json() const { return Json::parse(read_file(folder_ / "analysis.json")); }

  std::string cache_, none_;
};

// Row m of 4 in layer l is published as (l + m / 4) / 4.
TEST_F(AnalyzeRows, WritesAlphaOfARidingMemory) {
  const std::string run = train("run", memory_with("test_riders", kTestPlugins, "rows = 4"));
  const ProgramResult result = analyze({run, "--segments", "5"});
  expect_done(result);
  EXPECT_THAT(result.out, HasSubstr("mean alpha"));
  EXPECT_FALSE(has("attention.csv")) << "there is no signal";
  const Json layers = json().at("memories").at(0).at("alpha");
  ASSERT_EQ(layers.size(), 2U);
  EXPECT_EQ(layers.at(1).at("layer"), 1);
  EXPECT_EQ(layers.at(1).at("segments"), 4);  // the first segment finds no row
  EXPECT_EQ(layers.at(1).at("alpha").dump(), "[0.25,0.3125,0.375,0.4375]");
  EXPECT_THAT(out("alpha.csv"), HasSubstr("as trained,0.test.riders,0,3,0.1875,4\r\n"));
  EXPECT_THAT(out("alpha.vl.json"), HasSubstr("\"as trained, 0.test.riders, 4 segments\""));
  // As eval takes them: they leave the trained numbers alone.
  expect_done(analyze({run, "--segments", "2", "--set", "model.same_length=true", "--set",
                       "model.clamp_distance=8"}));
}

TEST_F(AnalyzeRows, WritesProbesAsTheyArePublished) {
  const std::string run = train("run", memory_with("test_riders", kTestPlugins, "rows = 4"));
  const ProgramResult result = analyze({"probes", run, "--segments", "3"});
  expect_done(result);
  EXPECT_THAT(result.out, HasSubstr("0.test.riders.1.memory.alpha"));
  const SafetensorsFile file = SafetensorsFile::open(folder_ / "out/run.safetensors");
  EXPECT_EQ(file.find("0.0.test.riders.1.memory.alpha"), nullptr) << "nothing is stored yet";
  const TensorView& alpha = file.at("2.0.test.riders.1.memory.alpha");
  ASSERT_EQ(alpha.shape.size(), 3U);
  EXPECT_EQ(alpha.shape[1], 4);
  const Json probe = json().at("memories").at(0).at("probes").at("0.test.riders.1.memory.alpha");
  EXPECT_EQ(probe.at("segments"), 2);
  EXPECT_EQ(probe.at("shape"), Json(alpha.shape));
  EXPECT_EQ(file.at("0.tokens").dtype, DType::I64);
  EXPECT_EQ(json().at("files").at(0), "run.safetensors");
  expect_done(analyze({"probes", run, "--name", "memory.alpha", "--segments", "2"}));
  const ProgramResult none = analyze({"probes", run, "--name", "alpha"});
  EXPECT_NE(none.exit_code, 0);
  EXPECT_THAT(none.err, HasSubstr("the memory publishes no tensor of these names: \"alpha\"; "
                                  "without --name all are written"));
  const ProgramResult silent = analyze({"probes", run, "--memory", cache_});
  EXPECT_THAT(silent.err, HasSubstr("the memory publishes no tensor; docs/analysis.md names"));
}

TEST_F(AnalyzeRows, WritesRegionsOfACompressiveMemory) {
  const std::string run =
      train("run", memory_with("compressive", MNEME_PLUGIN_DIR,
                               "rows = 8\ncompressed_rows = 4\nrate = 2\nfunction = \"mean\"\n"
                               "report_mass = true"));
  const ProgramResult result = analyze({run, "--segments", "8"});
  expect_done(result);
  EXPECT_THAT(result.out, HasSubstr("compressed"));
  const Json layers = json().at("memories").at(0).at("regions");
  ASSERT_EQ(layers.size(), 2U);
  for (const Json& layer : layers) {
    EXPECT_EQ(layer.at("compressed").at("places"), 4);
    EXPECT_EQ(layer.at("memory").at("places"), 8);
    EXPECT_EQ(layer.at("segment").at("places"), 8);
    double total = 0.0;
    for (const char* region : {"compressed", "memory", "segment"}) {
      const double share = layer.at(region).at("share");
      EXPECT_GT(share, 0.0);
      total += share;
    }
    EXPECT_NEAR(total, 1.0, 1e-5);
  }
  EXPECT_THAT(out("regions.csv"), HasSubstr(",1,segment,19,"));
}

TEST_F(AnalyzeRows, NamesTheOptionThatARunDidNotAskForItsProbeWith) {
  const std::string run =
      train("run", memory_with("compressive", MNEME_PLUGIN_DIR,
                               "rows = 8\ncompressed_rows = 4\nrate = 2\nfunction = \"mean\""));
  expect_refusal(analyze({run}), 2,
                 {"no memory published anything to analyse",
                  "only when an option asks for it, as with --set memory.tier.0.report_mass=true"});
  EXPECT_FALSE(fs::exists(folder_ / "out"));
  expect_done(analyze({run, "--set", "memory.tier.0.report_mass=true"}));
  EXPECT_TRUE(has("regions.csv"));
}

// The first segment finds no riders yet.
TEST_F(AnalyzeRows, RefusesSegmentsThatFillNoMemory) {
  const std::string run = train("run", memory_with("test_riders", kTestPlugins, "rows = 8"));
  expect_refusal(analyze({run, "--segments", "1"}), 2,
                 {"no memory published anything", "more segments than it needs to be read"});
  EXPECT_FALSE(fs::exists(folder_ / "out"));
  expect_done(analyze({run, "--segments", "3"}));
}

// Before the first run is evaluated, whose progress would show.
TEST_F(AnalyzeRows, RefusesAtOnceWhatTheLastRunCannotDo) {
  const std::string none = train("none_run", read_file(none_));
  const std::string cache = train("cache_run", read_file(cache_));
  const auto shown = [&](const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {"analyze", more.front(), none,
                                          cache,     "--out",      file("new/out")};
    arguments.insert(arguments.end(), more.begin() + 1, more.end());
    return run_mneme(arguments);
  };
  const ProgramResult sizes = shown({"extrapolation", "--option", "size"});
  expect_refusal(sizes, 2, {"cache_run: extrapolation: no tier has an integer option \"size\""});
  EXPECT_THAT(sizes.err, Not(HasSubstr("none_run")));
  const ProgramResult layers = shown({"distance", "--layer", "2"});
  expect_refusal(layers, 2, {"none_run: ", "expected layers from 0 to 1, got 2"});
  EXPECT_FALSE(fs::exists(folder_ / "new"));
}

TEST_F(AnalyzeRows, PutsTheAttentionOfSeveralRunsIntoOneChart) {
  const std::string cache = train("cache_run", read_file(cache_));
  const std::string none = train("none_run", read_file(none_));
  const ProgramResult result =
      analyze({"distance", cache, none, "--distance", "20", "--segments", "6"});
  expect_done(result);
  EXPECT_THAT(result.out, HasSubstr("16-20"));
  const Json memories = json().at("memories");
  ASSERT_EQ(memories.size(), 2U);
  EXPECT_EQ(memories.at(0).at("name"), "cache_run");
  const Json& far = memories.at(0).at("layers").at(0);
  EXPECT_EQ(far.at("layer"), 1);  // the last
  ASSERT_EQ(far.at("weight").size(), 4U);
  // Segments of 8, whose token i has i tokens, then 8 + i, then 16 + i to its left: the interval
  // 16-20 has 4 tokens of each of the last four segments.
  EXPECT_EQ(far.at("tokens").dump(), "[43,38,33,16]");
  EXPECT_EQ(memories.at(1).at("layers").at(0).at("tokens").dump(), "[18,0,0,0]");
  EXPECT_THAT(out("distance.csv"), HasSubstr("cache_run,1,16,20,"));
  EXPECT_THAT(out("distance.csv"), Not(HasSubstr("none_run,1,6,10,")));
  EXPECT_THAT(out("distance.vl.json"), HasSubstr("\"none_run\""));
  EXPECT_THAT(out("distance.html"), StartsWith("<!DOCTYPE html>"));
  expect_done(analyze({"distance", cache, "--layer", "0", "--layer", "1", "--memory", cache_,
                       "--memory", none_, "--segments", "2"}));
  EXPECT_EQ(json().at("memories").at(1).at("name"), "none");
  EXPECT_EQ(json().at("memories").at(1).at("layers").size(), 2U);
}

TEST_F(AnalyzeRows, ExtrapolatesSeveralRunsInOneCommand) {
  const std::string cache = train("cache_run", read_file(cache_));
  const std::string none = train("none_run", read_file(none_));
  const std::vector<std::string> sizes = {"--multiples", "2", "--segment", "4"};
  std::vector<std::string> arguments = {"extrapolation", cache, none};
  arguments.insert(arguments.end(), sizes.begin(), sizes.end());
  const ProgramResult result = analyze(arguments);
  expect_done(result);
  EXPECT_THAT(result.out, HasSubstr("4 + 8"));
  const Json memories = json().at("memories");
  ASSERT_EQ(memories.size(), 3U);
  EXPECT_EQ(memories.at(1).at("name"), "cache_run");
  EXPECT_EQ(memories.at(1).at("multiple"), 2);
  EXPECT_EQ(memories.at(1).at("result").at("protocol").at("context_rows"), 8);
  EXPECT_EQ(memories.at(2).at("multiple"), 0);
  EXPECT_THAT(out("extrapolation.csv"), HasSubstr("\ncache_run,2,4,8,"));
  EXPECT_THAT(out("extrapolation.vl.json"), HasSubstr("\"none_run\""));
  // The numbers are those of eval --extrapolate.
  expect_done(run_mneme({"eval", cache, "--extrapolate", "2", "--segment", "4", "--quiet",
                         "--threads", "1", "--json", file("eval.json")}));
  const Json eval = Json::parse(read_file(folder_ / "eval.json")).at("memories");
  for (std::size_t m = 0; m < 2; ++m) {
    EXPECT_EQ(eval.at(m).at("result").at("nll"), memories.at(m).at("result").at("nll"));
  }
}

TEST_F(AnalyzeRows, SaysWhichLayerHasNoAttention) {
  const std::string run = train("run", memory_with("test_replacing", kTestPlugins, "layers = [1]"));
  const ProgramResult refused = analyze({"distance", run});
  EXPECT_NE(refused.exit_code, 0);
  EXPECT_THAT(refused.err, HasSubstr("analyze distance: layer 1 has no attention: the memory "
                                     "replaces it; --layer names another one"));
  expect_done(analyze({"distance", run, "--layer", "0"}));
}

TEST_F(AnalyzeRows, RefusesWhatItCannotMeasure) {
  const std::string run = train("run", read_file(cache_));
  expect_refusal(analyze({"distance", run, "--layer", "2"}), 2,
                 {"run: analyze distance --layer: expected layers from 0 to 1, got 2"});
  expect_refusal(analyze({"distance", run, "--set", "eval.lanes=2"}), 2,
                 {"analyze distance --set eval.lanes: use --lanes"});
  expect_refusal(analyze({"distance", run, "--width", "0"}), 2, {"--width"});
  expect_refusal(analyze({"distance", run, "--width", "4000000000000"}), 2,
                 {"--width", "4000000000000", "1048576"});
  expect_refusal(analyze({"distance", run, "--distance", "4000000000000"}), 2,
                 {"--distance", "4000000000000", "1048576"});
  for (const auto& [distance, width] : {std::pair("7", "5"), std::pair("3", "50")}) {
    expect_refusal(analyze({"distance", run, "--distance", distance, "--width", width}), 2,
                   {std::string("analyze distance: expected a --distance that is a multiple of "
                                "--width, got ") +
                    distance + " and " + width});
  }
  expect_refusal(analyze({"distance", file("nowhere")}), 2, {"nowhere"});
  expect_refusal(analyze({"extrapolation", run, "--set", "eval.segment=2"}), 2,
                 {"analyze extrapolation --set eval.segment: use --segment"});
  expect_refusal(analyze({"extrapolation", run, "--set", "train.lr=2"}), 2,
                 {"train.lr", "measured as it is"});
  expect_refusal(analyze({"extrapolation", run, "--option", "size"}), 2,
                 {"run: extrapolation: no tier has an integer option \"size\""});
  expect_refusal(run_mneme({"analyze", "distance", run}), 2, {"--out is required"});
  expect_refusal(analyze({"extrapolation"}), 2, {"RUN is required"});
}

}  // namespace
}  // namespace mneme::test
