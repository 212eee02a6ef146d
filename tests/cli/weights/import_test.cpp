// import, export and train --init through the binary, without memory. The numbers are checked in
// tests/integration/official_weights_test.cpp, the round trip in tests/golden.
#include <filesystem>
#include <nlohmann/json.hpp>
#include <vector>

#include "host/base/file/file.hpp"
#include "host/base/file/safetensors.hpp"
#include "host/base/text.hpp"
#include "tests/base/wordings.hpp"
#include "tests/cli/program.hpp"

namespace mneme::test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kExperiment = R"([model]
layers = 1
heads = 2
head_width = 2
width = 4
ff = 6

[data]
task = "tokens"
train = "absent.safetensors"
vocabulary_size = 5

[train]
segment = 4
lanes = 1
steps = 2
)";

const std::vector<std::pair<std::string, std::vector<std::int64_t>>> kImportWeights = {
    {"word_emb.emb_layers.0.weight", {5, 4}},
    {"crit.out_layers.0.weight", {5, 4}},
    {"crit.out_layers.0.bias", {5}},
    {"r_w_bias", {2, 2}},
    {"r_r_bias", {2, 2}},
    {"layers.0.dec_attn.qkv_net.weight", {12, 4}},
    {"layers.0.dec_attn.r_net.weight", {4, 4}},
    {"layers.0.dec_attn.o_net.weight", {4, 4}},
    {"layers.0.dec_attn.layer_norm.weight", {4}},
    {"layers.0.dec_attn.layer_norm.bias", {4}},
    {"layers.0.pos_ff.CoreNet.0.weight", {6, 4}},
    {"layers.0.pos_ff.CoreNet.0.bias", {6}},
    {"layers.0.pos_ff.CoreNet.3.weight", {4, 6}},
    {"layers.0.pos_ff.CoreNet.3.bias", {4}},
    {"layers.0.pos_ff.layer_norm.weight", {4}},
    {"layers.0.pos_ff.layer_norm.bias", {4}}};

class Import : public CliTest {
 protected:
  void SetUp() override { write_weights(kImportWeights); }
  void write_weights(const std::vector<std::pair<std::string, std::vector<std::int64_t>>>& tensors,
                     const std::string& prefix = "") const {
    SafetensorsWriter writer;
    for (const auto& [name, shape] : tensors) {
      std::int64_t count = 1;
      for (const std::int64_t extent : shape) count *= extent;
      std::vector<float> values(static_cast<std::size_t>(count));
      for (std::size_t i = 0; i < values.size(); ++i) {
        values[i] = static_cast<float>(i + shape.size()) / 64.0F;
      }
      writer.add_copy(prefix + name, DType::F32, shape, values.data());
    }
    writer.write(folder_ / "weights.safetensors");
  }
  ProgramResult import(std::vector<std::string> more = {},
                       const std::string& text = kExperiment) const {
    more.insert(more.begin(),
                {"import", file("weights.safetensors"), experiment(text), "--run", file("run")});
    return run_mneme(more);
  }
  ProgramResult tool(const std::string& command, std::vector<std::string> more) const {
    more.insert(more.begin(), {command, file("run")});
    return run_mneme(more);
  }
  void expect_nothing_made() const {
    for (const auto& entry : std::filesystem::directory_iterator(folder_.path())) {
      EXPECT_THAT(entry.path().filename().string(), Not(HasSubstr("run")));
    }
  }
};

TEST_F(Import, MakesARunThatExportsTheSameTensors) {
  const ProgramResult imported = import({"--json", "-"});
  expect_done(imported);
  EXPECT_EQ(Json::parse(imported.out).at("backbone_parameters"), 187);
  const ProgramResult exported =
      tool("export", {file("out.safetensors"), "--format", "transformer_xl", "--json", "-"});
  expect_done(exported);
  EXPECT_EQ(Json::parse(exported.out).at("tensors"),
            kImportWeights.size() + 1);  // pos_emb.inv_freq
  const SafetensorsFile in = SafetensorsFile::open(folder_ / "weights.safetensors");
  const SafetensorsFile out = SafetensorsFile::open(folder_ / "out.safetensors");
  for (const std::string& name : in.names()) {
    const TensorView& ours = out.at(name, in.at(name).dtype, in.at(name).shape);
    EXPECT_EQ(std::string(reinterpret_cast<const char*>(ours.data), ours.bytes),
              std::string(reinterpret_cast<const char*>(in.at(name).data), in.at(name).bytes))
        << name;
  }
  EXPECT_EQ(out.metadata_at("n_token"), "5");
  EXPECT_EQ(out.metadata_at("tie_projs"), "[false]");
  EXPECT_THAT(run_mneme({"inspect", file("out.safetensors")}).out,
              HasSubstr("weights of the official Transformer-XL\n"));
}

TEST_F(Import, TheRunSaysWhereItsWeightsCameFrom) {
  expect_done(import());
  const Json info = Json::parse(read_file(folder_ / "run/run.json"));
  EXPECT_EQ(info.at("initial_weights").at("file"), file("weights.safetensors"));
  EXPECT_EQ(info.at("initial_weights").at("sha256").get<std::string>().size(), 64U);
  const ProgramResult text = run_mneme({"inspect", file("run")});
  expect_done(text);
  EXPECT_THAT(text.out, HasSubstr("weights from  " + file("weights.safetensors")));
  EXPECT_THAT(text.out, HasSubstr("step 0: 0 tokens, 0.00s, "));
  EXPECT_THAT(text.out, HasSubstr("weights alone"));
}

TEST_F(Import, ReadsNamesBehindAPrefix) {
  write_weights(kImportWeights, "module.");
  expect_refusal(import(), 2, {"module.r_w_bias: unexpected", "r_w_bias: missing in the file"});
  expect_done(import({"--prefix", "module."}));
}

TEST_F(Import, ListsEveryMismatchAndWritesNothing) {
  auto tensors = kImportWeights;
  tensors[2].second = {7};
  tensors.pop_back();
  tensors.push_back({"r_emb", {2}});
  write_weights(tensors);
  expect_refusal(import({"--set", "model.embedding_scale=none"}), 2,
                 {"model.embedding_scale: expected \"sqrt\", got \"none\"",
                  "crit.out_layers.0.bias: wrong shape: expected [5], got [7]",
                  "layers.0.pos_ff.layer_norm.bias: missing in the file", "r_emb: unexpected",
                  "data.vocabulary_size"});
  expect_nothing_made();
}

TEST_F(Import, RefusesAFolderThatIsTaken) {
  expect_done(import());
  expect_refusal(import(), 2, {file("run"), "the run's folder is taken", "--run"});
  EXPECT_TRUE(std::filesystem::exists(folder_ / "run/run.json"));
}

TEST_F(Import, RefusesALinkForAFolderBeforeItReadsTheWeights) {
  std::filesystem::create_directory(folder_ / "empty");
  std::filesystem::create_symlink("empty", folder_ / "run");
  expect_refusal(import(), 2, {file("run"), "the run's folder is taken", "got a link"});
  EXPECT_TRUE(std::filesystem::is_symlink(folder_ / "run"));
}

TEST_F(Import, TakesAnEmptyFolderAndLeavesNothingBesideIt) {
  std::filesystem::create_directory(folder_ / "run");
  expect_done(import());
  int entries = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder_.path())) {
    ++entries;
  }
  EXPECT_EQ(entries, 3);  // weights, experiment, run
}

TEST_F(Import, SaysThatNothingCanBeWritten) {
  expect_refusal(run_mneme({"import", file("weights.safetensors"), experiment(kExperiment), "--run",
                            "/proc/run"}),
                 2, {"/proc/run"});
}

TEST_F(Import, RefusesACheckpoint) {
  expect_done(import());
  std::filesystem::path checkpoint;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_ / "run")) {
    if (entry.path().extension() == ".safetensors") checkpoint = entry.path();
  }
  const auto again = [&](std::vector<std::string> more) {
    more.insert(more.begin(),
                {"import", checkpoint.string(), experiment(kExperiment), "--run", file("other")});
    return run_mneme(more);
  };
  expect_refusal(again({}), 2, {"this is no file to import", "mneme train EXP --init FILE"});
  expect_refusal(again({"--prefix", "x."}), 2, {"the prefix \"x.\" is given for official weights"});
}

TEST_F(Import, RefusesASecondMemoryAndAMissingVocabulary) {
  expect_refusal(import({"--memory", file("a"), "--memory", file("b")}), 2,
                 {"import --memory: expected one file, got 2"});
  expect_refusal(import({"--vocabulary", file("absent.json")}), 2, {"absent.json"});
  expect_refusal(run_mneme({"import", file("weights.safetensors"), experiment(kExperiment)}), 2,
                 {"--run"});
}

TEST_F(Import, AnImportedRunIsNotResumed) {
  expect_done(import());
  expect_refusal(
      run_mneme({"train", "--resume", file("run")}), 2,
      {"it holds weights alone: there is no training to resume", "mneme train EXP --init RUN"});
}

TEST_F(Import, SaysThatNumbersAreRounded) {
  const std::vector<double> frequencies = {1.0, 0.01};
  SafetensorsWriter writer;
  const SafetensorsFile in = SafetensorsFile::open(folder_ / "weights.safetensors");
  for (const std::string& name : in.names()) {
    writer.add_copy(name, DType::F32, in.at(name).shape, in.at(name).data);
  }
  writer.add("pos_emb.inv_freq", DType::F64, {2}, frequencies.data());
  writer.write(folder_ / "weights.safetensors");
  const ProgramResult result = import();
  expect_done(result);
  EXPECT_THAT(result.err, HasSubstr("its F64 numbers are rounded"));
}

TEST_F(Import, TrainBeginsWithTheWeightsOfARunACheckpointOrAFile) {
  expect_done(import());
  const std::vector<std::int64_t> ids = {0, 1, 2, 3, 4, 3, 2, 1, 0, 1, 2, 3};
  SafetensorsWriter writer;
  writer.add("tokens", DType::I64, {1, 12}, ids.data());
  writer.write(folder_ / "absent.safetensors");
  std::vector<std::string> metrics;
  for (const std::string source : {"run", "weights.safetensors"}) {
    const std::string to = file("from_" + source);
    expect_done(run_mneme({"train", experiment(kExperiment), "--init", file(source), "--run", to,
                           "--set", "train.log_every=1", "--quiet"}));
    const Json info = Json::parse(read_file(to + "/run.json"));
    EXPECT_THAT(info.at("initial_weights").at("file").get<std::string>(), HasSubstr(file(source)));
    const std::string lines = read_file(to + "/metrics.jsonl");
    metrics.push_back(Json::parse(lines.substr(0, lines.find('\n'))).at("loss").dump());
  }
  EXPECT_EQ(metrics[0], metrics[1]);
  expect_done(run_mneme({"train", experiment(kExperiment), "--run", file("fresh"), "--set",
                         "train.log_every=1", "--quiet"}));
  const std::string lines = read_file(folder_ / "fresh/metrics.jsonl");
  EXPECT_NE(Json::parse(lines.substr(0, lines.find('\n'))).at("loss").dump(), metrics[0]);
}

TEST_F(Import, TrainRefusesWeightsThatDoNotFitBeforeItMakesAFolder) {
  expect_refusal(run_mneme({"train", experiment(tiny()), "--init", file("weights.safetensors"),
                            "--run", file("run")}),
                 2, {"these are not the weights of the experiment's model"});
  expect_refusal(
      run_mneme({"train", experiment(tiny()), "--init", file("absent"), "--run", file("run")}), 2,
      {"absent"});
  expect_nothing_made();
  expect_refusal(run_mneme({"train", "--resume", file("run"), "--init", file("x")}), 2,
                 {"train --resume continues the run's own experiment", "leave --init out"});
}

class Export : public Import {
 protected:
  ProgramResult train(const std::vector<std::string>& settings) const {
    std::vector<std::string> arguments = {"train", experiment(tiny()), "--run", file("run"),
                                          "--quiet"};
    for (const std::string& setting : settings) {
      arguments.insert(arguments.end(), {"--set", setting});
    }
    return run_mneme(arguments);
  }
};

TEST_F(Export, RefusesModelsThatTheOfficialCodeDoesNotHave) {
  expect_done(train({"model.position=alibi", "model.embedding_scale=none"}));
  expect_refusal(tool("export", {file("out.safetensors")}), 2,
                 {"the official code has no such model",
                  "model.position: expected \"relative\" or \"disentangled\", got \"alibi\"",
                  "model.embedding_scale: expected \"sqrt\", got \"none\""});
  EXPECT_FALSE(std::filesystem::exists(folder_ / "out.safetensors"));
}

TEST_F(Export, SaysWhatIsMissingOrWrong) {
  expect_refusal(tool("export", {file("out.safetensors")}), 2, {"run"});
  expect_done(train({}));
  expect_refusals(2, "export", read_wording_file("tests/cli/weights/messages/export.txt"));
  expect_refusal(tool("export", {"/proc/out.safetensors"}), 1, {"/proc/out.safetensors"});
}

}  // namespace
}  // namespace mneme::test
