#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <utility>

#include "host/base/file/file.hpp"
#include "host/base/file/safetensors.hpp"
#include "host/base/text.hpp"
#include "host/scores/evaluation_files.hpp"
#include "host/scores/stored_evaluation.hpp"
#include "tests/cli/program.hpp"

namespace mneme::test {
namespace {

namespace fs = std::filesystem;

using scores::StoredEvaluation;
using ::testing::HasSubstr;

// What training and evaluating leave in a run's folder.
class StoredByCommands : public CliTest {
 protected:
  void train(const std::string& text, const std::vector<std::string>& more = {}) const {
    std::vector<std::string> arguments{"train", experiment(text), "--run", file("run"), "--quiet"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    expect_done(run_mneme(arguments));
  }
  ProgramResult eval(const std::vector<std::string>& more = {}) const {
    std::vector<std::string> arguments{"eval", file("run"), "--quiet", "--json", file("eval.json")};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_mneme(arguments);
  }
  Json eval_result(const std::vector<std::string>& more = {}) const {
    expect_done(eval(more));
    return Json::parse(read_file(folder_ / "eval.json")).at("memories").at(0).at("result");
  }
  [[nodiscard]] std::vector<fs::path> stored() const {
    return scores::list_evaluations(folder_ / "run");
  }
  [[nodiscard]] std::vector<std::int64_t> stored_steps() const {
    std::vector<std::int64_t> steps;
    for (const fs::path& folder : stored()) steps.push_back(StoredEvaluation::open(folder).step());
    return steps;
  }
  // The last evaluation that training printed.
  [[nodiscard]] Json trained_result() const {
    Json result;
    std::ifstream in(folder_ / "run/metrics.jsonl");
    for (std::string line; std::getline(in, line);) {
      const Json json = Json::parse(line);
      if (json.at("kind") == "eval") result = json.at("result");
    }
    return result;
  }
  // Rows of ids, each a document, as data.valid and data.train.
  [[nodiscard]] std::string ids(std::int64_t rows, std::int64_t columns) const {
    std::mt19937_64 random(3);
    std::vector<std::int32_t> values(static_cast<std::size_t>(rows * columns));
    for (std::int32_t& value : values) value = static_cast<std::int32_t>(random() % 11);
    SafetensorsWriter writer;
    writer.add("tokens", DType::I32, {rows, columns}, values.data());
    writer.write(folder_ / "ids.safetensors");
    return tiny_on(
        "task = \"tokens\"\ntrain = \"ids.safetensors\"\nvalid = \"ids.safetensors\"\n"
        "vocabulary_size = 11\nreset = \"document\"\n");
  }
};

TEST_F(StoredByCommands, ATrainingsEvaluationAddsUpToWhatItPrinted) {
  train(tiny());
  ASSERT_EQ(stored().size(), 1U);
  const auto evaluation = StoredEvaluation::open(stored().front());
  const Json result = trained_result();
  EXPECT_EQ(evaluation.step(), 6);
  EXPECT_EQ(evaluation.info().at("result").at("nll"), result.at("nll"));
  const scores::Columns columns = evaluation.columns();
  EXPECT_EQ(columns.size(), result.at("tokens"));
  EXPECT_EQ(std::ranges::count(columns.correct, 1), result.at("correct"));
  EXPECT_EQ(evaluation.info().at("written_by"), "train");
}

TEST_F(StoredByCommands, SaysWhatWasEvaluatedAndHow) {
  train(tiny());
  const Json info = StoredEvaluation::open(stored().front()).info();
  EXPECT_EQ(info.at("task"), "motif");
  EXPECT_GE(info.at("threads"), 1);
  EXPECT_EQ(info.at("data").at("alphabet"), 8);
  EXPECT_THAT(info.at("machine").at("libtorch"), HasSubstr("2."));
  EXPECT_THAT(info.at("statement"), HasSubstr("loss and perplexity are per token"));
  EXPECT_THAT(info.at("memory"), HasSubstr("[memory]"));
  EXPECT_THAT(info.at("experiment"), HasSubstr("[train]"));
  EXPECT_GT(info.at("peak_bytes"), 10'000'000);
  EXPECT_GT(info.at("tokens_per_second"), 0.0);
  EXPECT_EQ(info.at("state_bytes"), 0);
  EXPECT_TRUE(info.at("vocabulary_counts").is_null());
}

TEST_F(StoredByCommands, AMotifsEpisodesAreSamplesOfTheirLanes) {
  train(tiny());
  const auto evaluation = StoredEvaluation::open(stored().front());
  EXPECT_EQ(evaluation.unit(), "sequence");
  EXPECT_EQ(evaluation.samples().at(0).id, "valid/lane0/0");
  EXPECT_EQ(evaluation.samples().at(1).id, "valid/lane1/0");
  const Json by_source = trained_result().at("by_source");
  for (const char* const name : {"none", "inside", "outside"}) {
    std::int64_t targets = 0, correct = 0;
    for (const scores::Sample& sample : evaluation.samples()) {
      const auto slice = sample.slices.find(name);
      if (slice == sample.slices.end()) continue;
      targets += slice->second.targets;
      correct += slice->second.correct;
    }
    EXPECT_EQ(by_source.at(name).at("tokens"), targets) << name;
    EXPECT_EQ(by_source.at(name).at("correct"), correct) << name;
  }
}

TEST_F(StoredByCommands, ATasksSequencesAreSamples) {
  train(
      tiny_on("task = \"digit_sorting\"\nlength = 4\nalphabet = 5\ntrain_sequences = 40\n"
              "valid_sequences = 6\ntest_sequences = 6\n"));
  const auto evaluation = StoredEvaluation::open(stored().front());
  EXPECT_EQ(evaluation.unit(), "sequence");
  EXPECT_EQ(evaluation.sample_unit(), scores::SampleUnit::kSequence);
  ASSERT_EQ(evaluation.samples().size(), 6U);
  EXPECT_EQ(evaluation.samples().back().id, "valid/5");
  EXPECT_EQ(evaluation.samples().back().sums.targets, 4);
  EXPECT_EQ(evaluation.columns().distance.front(), 4);
}

TEST_F(StoredByCommands, ANeedlesSamplesHaveDepthAndLength) {
  train(
      tiny_on("task = \"needle\"\nlength = 12\nalphabet = 5\nanswer = 2\ntrain_sequences = 40\n"
              "valid_sequences = 6\ntest_sequences = 6\n"));
  expect_done(eval({"--set", "data.length=20", "--set", "eval.steps=0"}));
  std::map<std::string, std::int64_t> lengths;
  for (const fs::path& folder : stored()) {
    const auto evaluation = StoredEvaluation::open(folder);
    for (const scores::Sample& sample : evaluation.samples()) {
      EXPECT_THAT(sample.groups.at("depth"), ::testing::MatchesRegex("0[.][0-9]-[01][.][0-9]"));
      ++lengths[sample.groups.at("length")];
    }
  }
  EXPECT_EQ(lengths, (std::map<std::string, std::int64_t>{{"12", 6}, {"20", 6}}));
}

TEST_F(StoredByCommands, OfATrainingTheNewestAndTheBestStay) {
  train(tiny(), {"--set", "train.eval_every=1"});
  std::int64_t best = 0;
  std::ifstream in(folder_ / "run/metrics.jsonl");
  for (std::string line; std::getline(in, line);) {
    const Json json = Json::parse(line);
    if (json.at("kind") == "eval" && json.at("best")) best = json.at("step");
  }
  std::vector<std::int64_t> expected{best, 6};
  if (best == 6) expected.pop_back();
  EXPECT_EQ(stored_steps(), expected);
}

TEST_F(StoredByCommands, AnEqualEvaluationReplacesItselfAndAnotherStandsBeside) {
  train(tiny());
  const fs::path trained = stored().front();
  const Json result = eval_result();
  ASSERT_EQ(stored(), std::vector{trained});
  const auto again = StoredEvaluation::open(trained);
  EXPECT_EQ(again.info().at("written_by"), "eval");
  EXPECT_EQ(again.info().at("result").at("nll"), result.at("nll"));
  expect_done(eval({"--set", "eval.lanes=2"}));
  EXPECT_EQ(stored().size(), 2U);
  expect_done(eval({"--split", "test"}));
  EXPECT_EQ(stored().size(), 3U);
  expect_done(eval({"--no-store", "--set", "eval.lanes=3"}));
  EXPECT_EQ(stored().size(), 3U);
}

TEST_F(StoredByCommands, ANameDoesNotDependOnThePlaceOfTheRun) {
  train(ids(4, 9));
  const fs::path before = stored().front().filename();
  fs::create_directory(folder_ / "elsewhere");
  fs::rename(folder_ / "run", folder_ / "elsewhere/run");
  fs::copy(folder_ / "ids.safetensors", folder_ / "elsewhere/ids.safetensors");
  expect_done(run_mneme({"eval", file("elsewhere/run"), "--quiet", "--set",
                         "data.valid=" + file("elsewhere/ids.safetensors")}));
  const auto after = scores::list_evaluations(folder_ / "elsewhere/run");
  ASSERT_EQ(after.size(), 1U);
  EXPECT_EQ(after.front().filename(), before);
}

// A memoryless model that starts every document afresh: its losses do not depend on the lanes.
TEST_F(StoredByCommands, LanesDoNotChangeWhatStandsAtAPlaceOfTheText) {
  train(ids(8, 21));
  std::map<std::pair<int, int>, double> first;
  for (const char* const lanes : {"1", "4"}) {
    expect_done(eval(
        {"--set", str("eval.lanes=", lanes), "--set", "eval.segment=6", "--set", "eval.steps=0"}));
    fs::path newest;
    for (const fs::path& folder : stored()) {
      const Json info = StoredEvaluation::open(folder).info();
      if (info.at("result").at("lanes") == std::stoi(lanes) && info.at("written_by") == "eval") {
        newest = folder;
      }
    }
    const auto evaluation = StoredEvaluation::open(newest);
    EXPECT_EQ(evaluation.samples().size(), 8U);
    const scores::Columns columns = evaluation.columns();
    ASSERT_EQ(columns.size(), 160);
    for (std::size_t i = 0; i < columns.target.size(); ++i) {
      const auto [entry, is_new] =
          first.emplace(std::pair(columns.document[i], columns.distance[i]), columns.nll(i));
      EXPECT_EQ(is_new, lanes[0] == '1');
      EXPECT_NEAR(entry->second, columns.nll(i), 1e-6);
    }
  }
}

TEST_F(StoredByCommands, TheTrainingDatasCountsAreStored) {
  train(ids(4, 9));
  const auto counts = StoredEvaluation::open(stored().front()).vocabulary_counts();
  ASSERT_EQ(counts.size(), 11U);
  std::int64_t sum = 0;
  for (const std::int64_t count : counts) sum += count;
  EXPECT_EQ(sum, 36);
}

TEST_F(StoredByCommands, OtherDataHasOtherChecksums) {
  train(ids(4, 9));
  const auto before = StoredEvaluation::open(stored().front()).samples();
  std::vector<std::int32_t> values(36, 2);
  SafetensorsWriter writer;
  writer.add("tokens", DType::I32, {4, 9}, values.data());
  writer.write(folder_ / "other.safetensors");
  expect_done(eval({"--set", "data.valid=" + file("other.safetensors")}));
  ASSERT_EQ(stored().size(), 2U);
  for (const fs::path& folder : stored()) {
    const auto evaluation = StoredEvaluation::open(folder);
    if (evaluation.info().at("written_by") == "train") continue;
    EXPECT_EQ(evaluation.samples().at(0).id, before.at(0).id);
    EXPECT_NE(evaluation.samples().at(0).sha256, before.at(0).sha256);
  }
}

TEST_F(StoredByCommands, ARunThatCannotBeWrittenIsEvaluatedAllTheSame) {
  train(tiny());
  fs::remove_all(folder_ / "run/evaluations");
  folder_.write("run/evaluations", "a file where the folder should be");
  const ProgramResult result = eval();
  expect_done(result);
  EXPECT_THAT(result.out, HasSubstr("loss"));
  EXPECT_THAT(result.err, HasSubstr("the evaluation is not stored in the run: "));
}

TEST_F(StoredByCommands, InspectNamesTheDamagedOne) {
  train(tiny());
  const std::string name = stored().front().filename().string();
  const ProgramResult whole = run_mneme({"inspect", file("run")});
  expect_done(whole);
  EXPECT_THAT(whole.out, HasSubstr("evaluation    " + name + ": loss "));
  const fs::path columns = stored().front() / "nll.safetensors";
  std::string bytes = read_file(columns);
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 8);
  write_file_atomic(columns, bytes);
  const ProgramResult damaged = run_mneme({"inspect", file("run")});
  expect_refusal(damaged, 1, {"the run is damaged: got the evaluation " + name});
  EXPECT_THAT(damaged.out, HasSubstr(columns.string()));
}

TEST_F(StoredByCommands, AContinuedRunDropsThoseOfLaterSteps) {
  train(tiny(), {"--set", "train.eval_every=3", "--set", "train.save_every=3", "--set",
                 "train.keep_checkpoints=9"});
  expect_done(eval({"--set", "eval.lanes=2"}));
  const ProgramResult result =
      run_mneme({"train", "--resume", file("run"), "--checkpoint", "3", "--quiet"});
  expect_done(result);
  EXPECT_THAT(result.err, HasSubstr("deleted the stored evaluation valid-step00000006-"));
  for (const fs::path& folder : stored()) {
    EXPECT_EQ(StoredEvaluation::open(folder).info().at("written_by"), "train");
  }
  EXPECT_EQ(stored_steps().back(), 6);
}

}  // namespace
}  // namespace mneme::test
