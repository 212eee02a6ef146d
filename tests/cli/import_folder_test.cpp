// import --from and export --to through the binary. Every message about folders is tested in
// tests/weights.
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <vector>

#include "host/base/file/file.hpp"
#include "host/base/file/safetensors.hpp"
#include "host/base/text.hpp"
#include "tests/cli/program.hpp"
#include "tests/weights/folder_support.hpp"

namespace mneme::test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kRest = R"([data]
task = "tokens"
train = "ids.safetensors"

[train]
segment = 4
lanes = 1
steps = 2
lr = 0.01
)";

class ImportFolder : public CliTest {
 protected:
  void SetUp() override { write_folder(folder_ / "model", small_llama(DType::BF16)); }
  // Ids for the training.
  void write_ids() const {
    std::vector<std::int64_t> ids;
    for (std::int64_t i = 0; i < 64; ++i) ids.push_back(i * 7 % 10);
    SafetensorsWriter writer;
    writer.add("tokens", DType::I64, {64}, ids.data());
    writer.write(folder_ / "ids.safetensors");
  }
  ProgramResult import(std::vector<std::string> more = {}) const {
    more.insert(more.begin(), {"import", "--from", file("model"), "--run", file("run")});
    return run_mneme(more);
  }
  ProgramResult export_run(const std::string& run, std::vector<std::string> more) const {
    more.insert(more.begin(), {"export", file(run)});
    return run_mneme(more);
  }
};

TEST_F(ImportFolder, GivesTheFolderBack) {
  const ProgramResult imported = import();
  expect_done(imported);
  EXPECT_THAT(imported.out, HasSubstr("parameters of the family llama: " + file("run")));
  const ProgramResult exported = export_run("run", {"--to", file("out"), "--json", "-"});
  expect_done(exported);
  const Json json = Json::parse(exported.out);
  EXPECT_EQ(json.at("names"), "llama");
  EXPECT_EQ(json.at("as_imported"), true);
  EXPECT_EQ(json.at("memory"), Json::array());
  EXPECT_EQ(files_of(folder_ / "out"), files_of(folder_ / "model"));
  EXPECT_THAT(run_mneme({"inspect", file("run")}).out,
              HasSubstr("weights from  " + file("model/model.safetensors")));
}

TEST_F(ImportFolder, ATrainedRunKeepsTheForm) {
  write_ids();
  expect_done(import({experiment(kRest), "--json", "-"}));
  expect_done(run_mneme({"train", file("run/experiment.toml"), "--init", file("run"), "--run",
                         file("tuned"), "--quiet"}));
  EXPECT_EQ(read_file(folder_ / "tuned/pretrained.json"),
            read_file(folder_ / "run/pretrained.json"));
  const ProgramResult exported = export_run("tuned", {"--to", file("out")});
  expect_done(exported);
  EXPECT_THAT(exported.out, HasSubstr("exported step 2: 21 tensors, "));
  EXPECT_THAT(exported.out, HasSubstr("in the form of the imported folder"));
  EXPECT_EQ(read_file(folder_ / "out/config.json"), read_file(folder_ / "model/config.json"));
  const SafetensorsFile before = SafetensorsFile::open(folder_ / "model/model.safetensors");
  const SafetensorsFile after = SafetensorsFile::open(folder_ / "out/model.safetensors");
  EXPECT_EQ(before.names(), after.names());
  std::size_t changed = 0;
  for (const std::string& name : before.names()) {
    const TensorView& theirs = before.at(name);
    const TensorView& ours = after.at(name, theirs.dtype, theirs.shape);
    const std::string a(reinterpret_cast<const char*>(theirs.data), theirs.bytes);
    changed += a != std::string(reinterpret_cast<const char*>(ours.data), ours.bytes) ? 1 : 0;
  }
  EXPECT_GT(changed, 15U);
}

// The exported model, which has no place for the updates, gives the run's losses.
TEST_F(ImportFolder, AddsLowRankUpdatesWhenItIsExported) {
  write_folder(folder_ / "model", small_llama());
  write_ids();
  const std::vector<std::string> data = {"--set", "data.valid=\"" + file("ids.safetensors") + "\""};
  const auto with_data = [&](std::vector<std::string> words) {
    words.insert(words.end(), data.begin(), data.end());
    return words;
  };
  expect_done(import(with_data({experiment(kRest)})));
  expect_done(run_mneme({"train", file("run/experiment.toml"), "--init", file("run"), "--run",
                         file("tuned"), "--set", "model.lora_rank=2", "--set",
                         "train.freeze=\"backbone\"", "--quiet"}));
  expect_done(export_run("tuned", {"--to", file("out")}));
  expect_done(run_mneme(
      with_data({"import", "--from", file("out"), "--run", file("again"), experiment(kRest)})));
  const auto loss_of = [&](const std::string& run) {
    const ProgramResult result = run_mneme({"eval", file(run), "--split", "valid", "--json", "-"});
    expect_done(result);
    return Json::parse(result.out).at("memories").at(0).at("result").at("loss").get<double>();
  };
  EXPECT_NEAR(loss_of("again"), loss_of("tuned"), 1e-5);
  EXPECT_GT(std::abs(loss_of("again") - loss_of("run")), 1e-4);
}

TEST_F(ImportFolder, RefusesWrongWords) {
  expect_refusal(run_mneme({"import", "--run", file("run")}), 2, {"WEIGHTS is required"});
  expect_refusal(run_mneme({"import", "w.safetensors", "--run", file("run")}), 2,
                 {"EXP is required", "--from DIR"});
  expect_refusal(import({"a.toml", "b.toml"}), 2, {"at most one experiment", "b.toml"});
  expect_refusal(import({"--prefix", "x."}), 2, {"--prefix", "--from"});
  expect_refusal(import({"--set", "model.width=9"}), 2, {"model.width: expected 8, got 9"});
  expect_done(import());
  expect_refusal(export_run("run", {}), 2, {"either OUT", "--to DIR", "got neither"});
  expect_refusal(export_run("run", {file("x"), "--to", file("y")}), 2, {"got both"});
  expect_refusal(export_run("run", {file("x"), "--family", "llama"}), 2, {"--family", "--to"});
  expect_refusal(export_run("run", {"--to", file("model")}), 2, {"the folder is taken", "--to"});
}

TEST_F(ImportFolder, ARunOfItsOwnNeedsAFamily) {
  expect_done(run_mneme({"train", experiment(tiny()), "--run", file("mine"), "--quiet"}));
  expect_refusal(export_run("mine", {"--to", file("out")}), 2,
                 {"its weights are not from a Hugging Face model folder", "--family"});
  expect_refusal(export_run("mine", {"--to", file("out"), "--family", "gpt2"}), 2,
                 {"the family has no such model",
                  "model.position: expected \"learned\", got "
                  "\"relative\""});
  EXPECT_FALSE(std::filesystem::exists(folder_ / "out"));
}

TEST_F(ImportFolder, RefusesADamagedFolderAndMakesNothing) {
  std::filesystem::resize_file(folder_ / "model/model.safetensors", 900);
  expect_refusal(import(), 2, {file("model/model.safetensors")});
  EXPECT_FALSE(std::filesystem::exists(folder_ / "run"));
}

#ifdef MNEME_HAS_CONTINUOUS_LTM
TEST_F(ImportFolder, WritesTheMemoryBesideTheModel) {
  const std::string memory = memory_with("continuous_ltm", MNEME_PLUGIN_DIR, "basis = 8\n");
  const ProgramResult imported = import({experiment(memory + kRest), "--json", "-"});
  expect_done(imported);
  EXPECT_GT(Json::parse(imported.out).at("memory_parameters").get<int>(), 0);
  const ProgramResult exported = export_run("run", {"--to", file("out")});
  expect_done(exported);
  EXPECT_THAT(exported.out, HasSubstr("parameters are in memory.safetensors"));
  const SafetensorsFile file = SafetensorsFile::open(folder_ / "out/memory.safetensors");
  EXPECT_EQ(file.metadata_at("format"), "mneme.memory");
  EXPECT_THAT(file.names().front(), HasSubstr("memory.0.org.mneme.continuous_ltm"));
  EXPECT_EQ(read_file(folder_ / "out/model.safetensors"),
            read_file(folder_ / "model/model.safetensors"));
}
#endif

// A byte-level tokenizer of seven tokens; models have ten ids.
constexpr const char* kTokenizer = R"({"version": "1.0", "added_tokens": [], "normalizer": null,
"pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true,
                  "use_regex": true},
"post_processor": null, "decoder": {"type": "ByteLevel"},
"model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "c": 2, "d": 3, "e": 4, "ab": 5, "cd": 6},
          "merges": ["a b", "c d"]}})";

TEST_F(ImportFolder, TheFoldersTokenizerIsTheVocabularyOfATextWithoutOne) {
  write_bytes(folder_ / "model/tokenizer.json", kTokenizer);
  expect_done(import());
  const std::string experiment = read_file(folder_ / "run/experiment.toml");
  EXPECT_THAT(experiment, HasSubstr("vocabulary = \"tokenizer\""));
  EXPECT_THAT(experiment, HasSubstr("vocabulary_size = 10"));
  // The folder is not needed any more, and ids beyond the tokenizer are never drawn.
  std::filesystem::remove_all(folder_ / "model");
  const ProgramResult text = run_mneme({"generate", file("run"), "--prompt", "abcde", "--tokens",
                                        "200", "--temperature", "5", "--seed", "3"});
  expect_done(text);
  EXPECT_GE(text.out.size(), 200U);
  EXPECT_EQ(text.out.find_first_not_of("abcde\n"), std::string::npos) << text.out;
}

TEST_F(ImportFolder, ATextIsEvaluatedWithTheFoldersTokenizer) {
  write_bytes(folder_ / "model/tokenizer.json", kTokenizer);
  write_bytes(folder_ / "text.txt", "abcdeabcdabceabdabcdeeedcba");
  expect_done(
      import({this->experiment("[data]\ntask = \"text\"\ntrain = \"text.txt\"\n"
                               "test = \"text.txt\"\n"
                               "[train]\nsteps = 1\nsegment = 4\nlanes = 1\n")}));
  const ProgramResult scored =
      run_mneme({"eval", file("run"), "--split", "test", "--json", "-", "--quiet"});
  expect_done(scored);
  EXPECT_THAT(scored.out, HasSubstr("tokenizer"));
}

TEST_F(ImportFolder, RefusesATokenizerOfAnotherModel) {
  std::string tokenizer = kTokenizer;
  tokenizer.replace(tokenizer.find("\"cd\": 6"), 7, R"("cd": 6, "f": 7, "g": 8, "h": 9, "i": 10)");
  write_bytes(folder_ / "model/tokenizer.json", tokenizer);
  const ProgramResult refused = import();
  EXPECT_NE(refused.exit_code, 0);
  EXPECT_THAT(refused.err, HasSubstr("data.vocabulary_size: the tokenizer has ids beyond it: "
                                     "expected at least 11, got 10"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "run"));
}

}  // namespace
}  // namespace mneme::test
