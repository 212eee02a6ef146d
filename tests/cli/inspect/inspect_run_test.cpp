#include <cstdint>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "host/base/file/file.hpp"
#include "host/base/file/safetensors.hpp"
#include "host/base/text.hpp"
#include "tests/base/damaged_tensor.hpp"
#include "tests/cli/program.hpp"

namespace mneme::test {
namespace {

using ::testing::HasSubstr;

class InspectRun : public CliTest {
 protected:
  void SetUp() override {
    expect_done(run_mneme({"train", experiment(tiny()), "--run", file("run"), "--set",
                           "train.eval_every=3", "--set", "train.save_every=2", "--quiet"}));
  }
  ProgramResult inspect(std::vector<std::string> more = {}) const {
    more.insert(more.begin(), {"inspect", file("run")});
    return run_mneme(more);
  }
  Json json() const {
    const ProgramResult result = inspect({"--json", "-"});
    expect_done(result);
    return Json::parse(result.out);
  }
};

TEST_F(InspectRun, TellsSettingsProgressCheckpointsAndMetrics) {
  const ProgramResult text = inspect();
  expect_done(text);
  for (const std::string& part :
       {"run           " + file("run") + "\n", std::string("LibTorch"),
        std::string("model         xl, 1 layers of width 16, 2 heads x 8"),
        std::string("segment 8, 4 lanes, 6 steps, adam"), std::string("task motif, 8 ids"),
        std::string("step 6: 192 tokens"), std::string("  training    step 6: loss "),
        std::string("  valid       step 6: loss ")}) {
    EXPECT_THAT(text.out, HasSubstr(part));
  }
}

TEST_F(InspectRun, WritesThemAsJson) {
  const Json run = json();
  EXPECT_EQ(run.at("format"), "mneme-inspect-run");
  EXPECT_EQ(run.at("checkpoints").back().at("step"), 6);
  EXPECT_TRUE(run.at("checkpoints").back().at("whole_run").get<bool>());
  EXPECT_EQ(run.at("metrics").at("last_step").at("step"), 6);
  EXPECT_EQ(run.at("metrics").at("last_eval").at("valid").at("step"), 6);
  EXPECT_EQ(run.at("metrics").at("damaged_lines"), 0);
  EXPECT_EQ(run.at("info").at("format"), "mneme.run");
  int best = 0;
  for (const Json& checkpoint : run.at("checkpoints")) best += checkpoint.at("best").get<bool>();
  EXPECT_EQ(best, 1);
}

TEST_F(InspectRun, ReportsDamageAndGoesOn) {
  const std::string newest = json().at("checkpoints").back().at("file");
  std::string bytes = read_file(newest);
  bytes.resize(bytes.size() / 2);
  write_file_atomic(newest, bytes);
  write_file_atomic(folder_ / "run/metrics.jsonl",
                    read_file(folder_ / "run/metrics.jsonl") + "{\"kind\": \"st");
  const ProgramResult text = inspect();
  expect_refusal(text, 1,
                 {file("run") + ": the run is damaged: got the checkpoint of step 6, 1 line of "
                                "metrics.jsonl, which cannot be read"});
  EXPECT_THAT(text.out, HasSubstr("step 6: cannot be read:"));
  EXPECT_THAT(text.out, HasSubstr(", 1 damaged\n"));
  const ProgramResult result = inspect({"--json", "-"});
  EXPECT_EQ(result.exit_code, 1);
  const Json run = Json::parse(result.out);
  EXPECT_EQ(run.at("metrics").at("damaged_lines"), 1);
  EXPECT_EQ(run.at("damaged").size(), 2U);
}

TEST_F(InspectRun, ReportsMetricsThatAreGone) {
  std::filesystem::remove(folder_ / "run/metrics.jsonl");
  expect_refusal(inspect(), 1, {"the run is damaged: got metrics.jsonl"});
}

TEST_F(InspectRun, VerifiesACheckpointsChecksums) {
  const std::string newest = json().at("checkpoints").back().at("file");
  const ProgramResult whole = run_mneme({"inspect", newest});
  expect_done(whole);
  EXPECT_THAT(whole.out, HasSubstr("checksums of all tensors and of the metadata agree\n"));
  const std::string bytes = read_file(newest);
  std::uint64_t header = 0;
  std::memcpy(&header, bytes.data(), sizeof(header));
  const std::size_t data = sizeof(header) + header;
  // In the middle and at both ends of what the tensors hold.
  for (const std::size_t place : {data, data + (bytes.size() - data) / 2, bytes.size() - 1}) {
    std::string damaged = bytes;
    damaged[place] = static_cast<char>(damaged[place] ^ 1);
    write_file_atomic(newest, damaged);
    const ProgramResult result = run_mneme({"inspect", newest, "--json", file("out.json")});
    expect_refusal(result, 1, {newest + ": the file was damaged after it was written: got tensor"});
    EXPECT_THAT(result.out, HasSubstr("damaged after it was written:\n  tensor \""));
    const Json sums = Json::parse(read_file(folder_ / "out.json")).at("checksums");
    EXPECT_TRUE(sums.at("carried").get<bool>());
    EXPECT_EQ(sums.at("damaged").size(), 1U);
    expect_refusal(inspect(), 1, {"the checkpoint of step 6"});
    expect_refusal(run_mneme({"train", "--resume", file("run")}), 2, {"damaged"});
  }
  // Who needs the weights alone looks at no moments.
  for (const std::string prefix : {"adam.mean/", ""}) {
    write_file_atomic(newest, bytes);
    test::damage_tensor(newest, prefix + "model.embedding.0.weight");
    const std::vector<ProgramResult> results = {
        run_mneme(
            {"export", file("run"), file(prefix.empty() ? "x.safetensors" : "y.safetensors")}),
        run_mneme({"eval", file("run"), "--quiet"})};
    for (const ProgramResult& result : results) {
      prefix.empty() ? expect_refusal(result, 2, {"damaged"}) : expect_done(result);
    }
  }
  // A letter of the metadata: the header is JSON as before.
  std::string damaged = bytes;
  damaged[damaged.find("motif")] = 'n';
  write_file_atomic(newest, damaged);
  expect_refusal(run_mneme({"inspect", newest}), 1, {"got metadata, not as the checksums say"});
}

TEST_F(InspectRun, MissesTheChecksumsOfACheckpoint) {
  SafetensorsWriter writer;
  const float value = 1.0F;
  writer.add("model.x", DType::F32, {1}, &value);
  writer.set_metadata("format", "mneme.checkpoint");
  writer.write(folder_ / "x.safetensors");
  expect_refusal(run_mneme({"inspect", file("x.safetensors")}), 1, {"got metadata, not as"});
}

TEST_F(InspectRun, VerifiesAConversationsChecksums) {
  const std::string talk = file("talk.safetensors");
  expect_done(run_mneme({"generate", file("run"), "--prompt-ids", "1,2,3", "--tokens", "2",
                         "--save-state", talk, "--quiet"}));
  expect_done(run_mneme({"inspect", talk}));
  std::string bytes = read_file(talk);
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  write_file_atomic(talk, bytes);
  expect_refusal(run_mneme({"inspect", talk}), 1, {"the file was damaged after it was written"});
}

TEST_F(InspectRun, ComparesTheVocabularyWithTheRuns) {
  std::string text;
  for (int i = 0; i < 500; ++i) text += "abcd efgh ";
  const std::string path = folder_.write("text.txt", text).string();
  std::string tiny_text = tiny();
  const std::size_t data = tiny_text.find("task = ");
  tiny_text.replace(data, tiny_text.find("[train]") - data,
                    "task = \"text\"\nvocabulary = \"char\"\ntrain = \"" + path + "\"\nvalid = \"" +
                        path + "\"\n");
  expect_done(run_mneme({"train", experiment(tiny_text), "--run", file("text"), "--quiet"}));
  const ProgramResult whole = run_mneme({"inspect", file("text")});
  expect_done(whole);
  EXPECT_THAT(whole.out, HasSubstr("vocabulary    char vocabulary of 9 symbols"));
  const auto vocabulary = folder_ / "text/vocabulary.json";
  std::string bytes = read_file(vocabulary);
  std::swap(bytes[bytes.find("\"a\"") + 1], bytes[bytes.find("\"b\"") + 1]);
  write_file_atomic(vocabulary, bytes);
  expect_refusal(run_mneme({"inspect", file("text")}), 1,
                 {"the run is damaged: got vocabulary.json"});
  std::filesystem::remove(vocabulary);
  expect_refusal(run_mneme({"inspect", file("text")}), 1,
                 {"the run is damaged: got vocabulary.json"});
}

TEST_F(InspectRun, SaysWhatACheckpointIs) {
  const std::string newest = json().at("checkpoints").back().at("file");
  EXPECT_THAT(run_mneme({"inspect", newest}).out,
              HasSubstr("checkpoint of mneme: step 6, 192 tokens, precision f32\n"));
}

TEST_F(InspectRun, RefusesAFolderThatHoldsNoRun) {
  std::filesystem::create_directory(folder_ / "empty");
  expect_refusal(run_mneme({"inspect", file("empty")}), 2, {"this is no run of mneme"});
  write_file_atomic(folder_ / "run/run.json", "{");
  expect_refusal(inspect(), 2, {"run.json", "the run's folder was damaged"});
}

}  // namespace
}  // namespace mneme::test
