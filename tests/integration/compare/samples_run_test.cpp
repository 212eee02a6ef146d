// Samples that runs of a comparison generate, through the real binary.
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "host/base/file/file.hpp"
#include "host/base/file/safetensors.hpp"
#include "host/base/text.hpp"
#include "host/scores/diagnostics.hpp"
#include "host/scores/generated.hpp"
#include "tests/cli/program.hpp"

namespace mneme::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

namespace fs = std::filesystem;

class SamplesRun : public CliTest {
 protected:
  void SetUp() override {
    std::string text;
    for (int i = 0; i < 200; ++i) text += i % 2 == 0 ? "one two , three\n" : "four & <b> five .\n";
    folder_.write("train.txt", text);
    folder_.write("valid.txt", text.substr(0, 1500));
    none_ = folder_.write("none.toml", "[memory]\n").string();
    cache_ = folder_.write("cache.toml", memory_with("xl_cache", MNEME_PLUGIN_DIR, "rows = 16"))
                 .string();
  }
  static std::string text(const std::string& vocabulary = "word") {
    return "[model]\nlayers = 2\nheads = 2\nwidth = 16\nff = 32\ndropout = 0.0\n[data]\n"
           "task = \"text\"\ntrain = \"train.txt\"\nvalid = \"valid.txt\"\nvocabulary = \"" +
           vocabulary + "\"\n[train]\nsegment = 8\nlanes = 4\nsteps = 6\nlr = 5e-3\n";
  }
  ProgramResult compare(const std::vector<std::string>& more,
                        const std::string& folder = "comparison") const {
    std::vector<std::string> all{
        "compare", experiment(text()), "--memory",  none_, "--memory", cache_,
        "--run",   file(folder),       "--threads", "1",   "--quiet"};
    all.insert(all.end(), more.begin(), more.end());
    return run_mneme(all);
  }
  // The only file of generated samples of a run.
  [[nodiscard]] fs::path stored(const std::string& run) const {
    std::vector<fs::path> found;
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator(folder_ / run / "generated", ignored)) {
      found.push_back(entry.path());
    }
    return found.size() == 1 ? found.front() : fs::path();
  }
  // The diagnostics that stand beside the samples.
  [[nodiscard]] scores::Diagnostics measured(const std::string& run) const {
    return scores::read_diagnostics(folder_ / run / "diagnostics" / stored(run).filename());
  }
  [[nodiscard]] std::string train(const std::string& experiment_text) const {
    expect_done(run_mneme(
        {"train", experiment(experiment_text), "--run", file("run"), "--quiet", "--threads", "1"}));
    return file("run");
  }

  std::string none_;
  std::string cache_;
};

TEST_F(SamplesRun, EveryRunOfAComparisonContinuesTheSamePrompts) {
  expect_done(compare({"--seeds", "2"}));
  std::vector<scores::Generated> all;
  for (const char* run : {"none-seed1", "none-seed2", "cache-seed1", "cache-seed2"}) {
    const fs::path path = stored(str("comparison/", run));
    ASSERT_FALSE(path.empty()) << run;
    EXPECT_TRUE(fs::exists(path.parent_path().parent_path() / "evaluations" / path.stem()));
    all.push_back(scores::read_generated(path));
    ASSERT_EQ(all.back().samples.size(), 3U);
    EXPECT_EQ(all.back().prompt_tokens, 28);
    for (std::size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(all.back().samples[i].prompt, all.front().samples[i].prompt);
      EXPECT_EQ(all.back().samples[i].expected, all.front().samples[i].expected);
      EXPECT_EQ(all.back().samples[i].prompt.size(), 28U);
      EXPECT_EQ(all.back().samples[i].generated.size(), 64U);
    }
  }
  EXPECT_NE(all[0].samples[0].generated, all[2].samples[0].generated);
  const scores::Diagnostics none = measured("comparison/none-seed1");
  const scores::Diagnostics cache = measured("comparison/cache-seed1");
  EXPECT_EQ(none.segments_wanted, 64);
  EXPECT_GT(none.segments, 4);
  EXPECT_EQ(none.lanes, 1);
  // Two layers; 32 intervals of one distance, of which a model without memory sees a segment's.
  ASSERT_EQ(none.distance.size(), 2U);
  ASSERT_EQ(cache.distance.at(1).values.size(), 32U);
  EXPECT_GT(cache.distance[1].values[10], 0.0);
  EXPECT_TRUE(std::isnan(none.distance[1].values[10]));
  const std::string page = read_file(folder_ / "comparison/report/index.html");
  EXPECT_THAT(page,
              AllOf(HasSubstr("<h2>Generated samples</h2>"), HasSubstr("&lt;b&gt;"),
                    HasSubstr("<h4>true continuation</h4>"), HasSubstr("attention-distance-valid"),
                    Not(HasSubstr("No samples are stored"))));
}

// The report is the same from the files alone, and the same samples are made again.
TEST_F(SamplesRun, AreTheSameWhenTheyAreMadeAgain) {
  expect_done(compare({"--json", file("first.json")}));
  const std::string page = read_file(folder_ / "comparison/report/index.html");
  const fs::path path = stored("comparison/cache-seed1");
  const std::string before = read_file(path);
  const fs::path measures = path.parent_path().parent_path() / "diagnostics" / path.filename();
  const std::string measures_before = read_file(measures);
  expect_done(run_mneme({"report", file("comparison"), "--quiet", "--json", file("again.json")}));
  EXPECT_EQ(read_file(folder_ / "comparison/report/index.html"), page);
  EXPECT_EQ(read_file(folder_ / "first.json"), read_file(folder_ / "again.json"));
  // An interrupted comparison lacks some, and may have a damaged one.
  fs::remove(path);
  write_file_atomic(measures, "[]");
  write_file_atomic(stored("comparison/none-seed1"), "{");
  expect_done(compare({"--json", file("third.json")}));
  EXPECT_EQ(read_file(path), before);
  EXPECT_EQ(read_file(measures), measures_before);
  EXPECT_EQ(read_file(folder_ / "first.json"), read_file(folder_ / "third.json"));
}

TEST_F(SamplesRun, AreCheckedByInspect) {
  expect_done(compare({}));
  const std::string run = file("comparison/cache-seed1");
  const fs::path samples = stored("comparison/cache-seed1");
  const std::string name = samples.stem().string();
  const ProgramResult whole = run_mneme({"inspect", run});
  expect_done(whole);
  EXPECT_THAT(whole.out, AllOf(HasSubstr(str("samples       ", name, ": 3 samples\n")),
                               HasSubstr(str("diagnostics   ", name, ": over "))));
  std::string damaged = read_file(samples);
  damaged.replace(damaged.find("\"position\""), 10, "\"pasition\"");
  write_file_atomic(samples, damaged);
  const ProgramResult result = run_mneme({"inspect", run, "--json", file("out.json")});
  EXPECT_EQ(result.exit_code, 1) << result.err;
  EXPECT_THAT(result.err, HasSubstr(str("the run is damaged: got the generated samples of ", name,
                                        ", which cannot be read")));
  EXPECT_THAT(result.out, AllOf(HasSubstr("samples       cannot be read:"),
                                HasSubstr(str("diagnostics   ", name, ": over "))));
  const Json record = Json::parse(read_file(folder_ / "out.json")).at("for_reports");
  EXPECT_EQ(record.at(0).at("kind"), "generated samples");
  EXPECT_THAT(record.at(0).at("problem").get<std::string>(), HasSubstr("checksum"));
  EXPECT_EQ(record.at(1).at("problem"), "");
}

TEST_F(SamplesRun, AreAsManyAsAreAskedFor) {
  expect_done(compare({"--samples", "0", "--diagnostics", "0"}));
  EXPECT_TRUE(stored("comparison/none-seed1").empty());
  EXPECT_FALSE(fs::exists(folder_ / "comparison/none-seed1/diagnostics"));
  EXPECT_THAT(read_file(folder_ / "comparison/report/index.html"),
              HasSubstr("mneme generate RUN --for-report 3"));
  expect_done(compare({"--samples", "1"}));
  EXPECT_EQ(scores::read_generated(stored("comparison/none-seed1")).samples.size(), 1U);
  expect_refusal(compare({"--samples", "100001"}), 2, {"--samples", "100000"});
}

// A comparison whose samples cannot be written is complete without them.
TEST_F(SamplesRun, AreLeftOutWhereTheyCannotBeWritten) {
  expect_done(compare({"--samples", "0"}));
  folder_.write("comparison/none-seed1/generated", "a file where a folder should be");
  const ProgramResult result = compare({});
  expect_done(result);
  EXPECT_THAT(result.err, HasSubstr("none-seed1: samples are missing, the same "
                                    "command tries again: "));
  EXPECT_FALSE(stored("comparison/cache-seed1").empty());
  const Json record = Json::parse(read_file(folder_ / "comparison/comparison.json"));
  EXPECT_EQ(record.at("arms").at(0).at("runs").at(0).at("state"), "done");
}

TEST_F(SamplesRun, GenerateMakesThemAlone) {
  const std::string run = train(text("byte"));
  const ProgramResult result =
      run_mneme({"generate", run, "--for-report", "2", "--prompt-tokens", "20", "--json",
                 file("out.json"), "--quiet", "--threads", "1"});
  expect_done(result);
  EXPECT_THAT(result.out, HasSubstr("as trained: 2 samples of valid in "));
  const scores::Generated read = scores::read_generated(stored("run"));
  ASSERT_EQ(read.samples.size(), 2U);
  EXPECT_EQ(read.samples[0].prompt.size(), 20U);
  EXPECT_EQ(read.samples[0].generated.size(), 256U);
  ASSERT_TRUE(read.samples[0].prompt_text.has_value());
  const std::string valid = read_file(folder_ / "valid.txt");
  EXPECT_EQ(*read.samples[0].prompt_text,
            valid.substr(static_cast<std::size_t>(read.samples[0].distance), 20));
  const Json json = Json::parse(read_file(folder_ / "out.json"));
  EXPECT_EQ(json.at("memories").at(0).at("samples").size(), 2U);
  // Bytes of an untrained model are no UTF-8.
  EXPECT_THAT(*read.samples[0].generated_text, HasSubstr("\xEF\xBF\xBD"));
  const std::string before = read_file(stored("run"));
  const ProgramResult old = run_mneme({"eval", run, "--diagnostics=3", "--samples", "2",
                                       "--prompt-tokens", "20", "--quiet", "--threads", "1"});
  expect_done(old);
  EXPECT_THAT(old.err, AllOf(HasSubstr(str("it is: mneme generate ", run, " --for-report 2 ")),
                             HasSubstr(str("it is: mneme analyze ", run, " --for-report=3 "))));
  EXPECT_THAT(old.out, AllOf(HasSubstr("as trained: 2 samples of valid in "),
                             HasSubstr("as trained: diagnostics of 3 segments of valid in ")));
  EXPECT_EQ(read_file(stored("run")), before);
  expect_refusal(run_mneme({"eval", run, "--samples", "2", "--breakdown"}), 2,
                 {"mneme generate", "unknown argument \"--breakdown\""});
  const std::string once = file("once.json");
  expect_refusal(run_mneme({"eval", run, "--samples", "2", "--diagnostics", "3", "--json", once}),
                 2,
                 {"each of which would write --json",
                  str("mneme generate ", run, " --for-report 2 --json ", once),
                  str("mneme analyze ", run, " --for-report 3 --json ", once)});
  EXPECT_FALSE(fs::exists(once));
}

TEST_F(SamplesRun, OfTasksAreTheirStoredPredictions) {
  const std::string run = train(
      "[model]\nlayers = 1\nheads = 2\nwidth = 16\nff = 32\ndropout = 0.0\n[data]\ntask = "
      "\"copy\"\nlength = 4\nalphabet = 8\ngap = 3\ntrain_sequences = 50\nvalid_sequences = 8\n"
      "[train]\nsegment = 8\nlanes = 4\nsteps = 2\n");
  expect_refusal(run_mneme({"generate", run, "--for-report", "2"}), 2,
                 {"the run's task has no text to continue", "\"copy\""});
  expect_done(run_mneme({"report", run, "--out", file("report"), "--quiet"}));
  EXPECT_THAT(read_file(folder_ / "report/index.html"),
              AllOf(HasSubstr("<h2>Answers</h2>"), HasSubstr(" of 4 right")));
}

TEST_F(SamplesRun, OfIdsHaveNoText) {
  std::vector<std::int64_t> ids(400);
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<std::int64_t>(i % 7);
  SafetensorsWriter writer;
  writer.add("tokens", DType::I64, {4, 100}, ids.data());
  writer.write(folder_ / "ids.safetensors");
  const std::string run = train(
      "[model]\nlayers = 1\nheads = 2\nwidth = 16\nff = 32\ndropout = 0.0\n[data]\ntask = "
      "\"tokens\"\ntrain = \"ids.safetensors\"\nvalid = \"ids.safetensors\"\n[train]\n"
      "segment = 8\nlanes = 4\nsteps = 2\n");
  expect_done(run_mneme({"generate", run, "--for-report", "1", "--quiet"}));
  const scores::Generated read = scores::read_generated(stored("run"));
  EXPECT_FALSE(read.samples.at(0).prompt_text.has_value());
  EXPECT_EQ(read.samples[0].expected[0], (read.samples[0].prompt.back() + 1) % 7);
  expect_done(run_mneme({"report", run, "--out", file("report"), "--quiet"}));
  std::string shown;
  for (const std::int32_t id : read.samples[0].generated) {
    shown += str(shown.empty() ? "" : " ", id);
  }
  EXPECT_THAT(read_file(folder_ / "report/index.html"), HasSubstr('>' + shown + '<'));
}

}  // namespace
}  // namespace mneme::test
