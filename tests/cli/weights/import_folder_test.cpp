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
#include "tests/weights/gguf/gguf_support.hpp"

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

TEST_F(ImportFolder, TakesNamesInTheWorkingFolder) {
  folder_.write("m.gguf", gguf_of(small_llama()).bytes());
  expect_done(
      run_mneme({"import", "--from", "m.gguf", "--run", "of_gguf"}, {.folder = folder_.path()}));
  EXPECT_THAT(read_file(folder_ / "of_gguf/experiment.toml"), HasSubstr(file("no-data")));
  expect_done(import());
  expect_done(run_mneme({"export", "step_00000000.safetensors", "--to", file("out")},
                        {.folder = folder_ / "run/checkpoints"}));
  EXPECT_EQ(files_of(folder_ / "out"), files_of(folder_ / "model"));
}

TEST_F(ImportFolder, SaysThatAFileIsAPointer) {
  const std::string pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n";
  for (const std::string name : {"config.json", "model.safetensors"}) {
    const std::string whole = read_file(folder_ / ("model/" + name));
    folder_.write("model/" + name, pointer);
    expect_refusal(import(), 2,
                   {name + ": the file is a pointer of Git LFS: its contents were not fetched",
                    "git lfs pull --include " + name});
    folder_.write("model/" + name, whole);
  }
}

TEST_F(ImportFolder, SaysThatAVocabularyOfTiktokenIsNotRead) {
  folder_.write("model/tokenizer.model", "IQ== 0\n");
  const ProgramResult imported = import();
  expect_done(imported);
  EXPECT_THAT(imported.err, HasSubstr("its tokenizer, tokenizer.model, is not read: the run takes "
                                      "token ids"));
  EXPECT_THAT(imported.err, HasSubstr("AutoTokenizer.from_pretrained('" + file("model")));
}

TEST_F(ImportFolder, RefusesAFolderThatARunCouldNotName) {
  std::filesystem::rename(folder_ / "model", folder_ / "caf\xe9");
  expect_refusal(run_mneme({"import", "--from", file("caf\xe9"), "--run", file("run")}), 2,
                 {"caf\\xe9", "a run could not keep this path in its experiment.toml", "UTF-8"});
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

#ifdef MNEME_HAS_XL_CACHE
// A model that a memory was trained with, and a memory that is no cache, give no warning.
TEST_F(ImportFolder, WarnsOfACacheThatDropsFirstRows) {
  write_ids();
  const std::string ids = "data.valid=\"" + file("ids.safetensors") + "\"";
  expect_done(import({experiment(kRest), "--set", ids}));
  folder_.write("cache.toml", memory_with("xl_cache", MNEME_PLUGIN_DIR, "rows = 4\n"));
  folder_.write("none.toml", "[memory]\n");
  const std::string warning =
      "the memory keeps the newest 4 rows, and the imported model was not trained with it";
  const auto evaluated = [&](const std::string& run, const std::string& memory) {
    const ProgramResult result =
        run_mneme({"eval", file(run), "--memory", file(memory), "--no-store", "--quiet"});
    expect_done(result);
    return result.err;
  };
  EXPECT_THAT(evaluated("run", "cache.toml"),
              AllOf(HasSubstr(warning), HasSubstr("the example memory sinks keeps them")));
  EXPECT_THAT(evaluated("run", "none.toml"), Not(HasSubstr(warning)));
  expect_done(run_mneme({"train", file("run/experiment.toml"), "--init", file("run"), "--memory",
                         file("cache.toml"), "--run", file("tuned"), "--set", ids, "--quiet"}));
  EXPECT_THAT(evaluated("tuned", "cache.toml"), Not(HasSubstr(warning)));
}
#endif

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

// No training data are needed for the vocabulary.
TEST_F(ImportFolder, QuestionsAreAskedWithTheFoldersTokenizer) {
  write_bytes(folder_ / "model/tokenizer.json", kTokenizer);
  write_bytes(folder_ / "test.jsonl", R"({"prompt": "abcde", "answer": "ab"})"
                                      "\n");
  expect_done(
      import({this->experiment("[data]\ntask = \"questions\"\ntest = \"test.jsonl\"\n"
                               "[train]\nsteps = 1\nsegment = 4\nlanes = 1\n")}));
  EXPECT_THAT(read_file(folder_ / "run/experiment.toml"), HasSubstr("vocabulary_size = 10"));
  const ProgramResult scored =
      run_mneme({"eval", file("run"), "--split", "test", "--json", "-", "--quiet"});
  expect_done(scored);
  const Json result = Json::parse(scored.out).at("memories").at(0).at("result");
  EXPECT_EQ(result.at("tokens"), 1) << "ab is one token";
}

TEST_F(ImportFolder, AnExperimentMaySayThatTheTextHasTheFoldersTokenizer) {
  write_bytes(folder_ / "model/tokenizer.json", kTokenizer);
  write_bytes(folder_ / "text.txt", "abcdeabcdabceabdabcdeeedcba");
  expect_done(
      import({this->experiment("[data]\ntask = \"text\"\ntrain = \"text.txt\"\n"
                               "vocabulary = \"tokenizer\"\n"
                               "[train]\nsteps = 1\nsegment = 4\nlanes = 1\n")}));
  EXPECT_THAT(read_file(folder_ / "run/experiment.toml"), HasSubstr(file("model")));
}

TEST_F(ImportFolder, ATrainingHearsThatTheFirstRunHasAVocabulary) {
  write_bytes(folder_ / "model/tokenizer.json", kTokenizer);
  write_bytes(folder_ / "text.txt", "abcdeabcdabceabdabcdeeedcba");
  expect_done(import());
  const std::vector<std::string> train = {
      "train",
      this->experiment("[data]\ntask = \"text\"\ntrain = \"text.txt\"\n"
                       "vocabulary = \"tokenizer\"\n"
                       "[train]\nsteps = 1\nsegment = 4\nlanes = 1\n"),
      "--init",
      file("run"),
      "--run",
      file("tuned")};
  expect_refusal(run_mneme(train), 2,
                 {"data.vocabulary_file: missing",
                  "the run of --init has one: --set "
                  "data.vocabulary_file=" +
                      file("run/vocabulary.json")});
  std::filesystem::remove(folder_ / "run/vocabulary.json");
  const ProgramResult without = run_mneme(train);
  expect_refusal(without, 2, {"data.vocabulary_file: missing"});
  EXPECT_THAT(without.err, Not(HasSubstr("--init")));
}

// A run that begins with the imported one, whose folder is gone, exports a folder that can be
// imported with its tokenizer.
TEST_F(ImportFolder, ATrainedRunExportsItsTokenizer) {
  write_bytes(folder_ / "model/tokenizer.json", kTokenizer);
  write_bytes(folder_ / "model/tokenizer_config.json", R"({"eos_token": "e"})");
  write_bytes(folder_ / "model/chat_template.jinja", "{{ messages }}");
  write_bytes(folder_ / "text.txt", "abcdeabcdabceabdabcdeeedcba");
  expect_done(
      import({this->experiment("[data]\ntask = \"text\"\ntrain = \"text.txt\"\n"
                               "[train]\nsteps = 1\nsegment = 4\nlanes = 1\n")}));
  const std::map<std::string, std::string> before = files_of(folder_ / "model");
  expect_done(run_mneme({"train", file("run/experiment.toml"), "--init", file("run"), "--run",
                         file("tuned"), "--quiet"}));
  std::filesystem::remove_all(folder_ / "model");
  std::filesystem::remove_all(folder_ / "run");
  expect_done(export_run("tuned", {"--to", file("model")}));
  std::map<std::string, std::string> after = files_of(folder_ / "model");
  EXPECT_NE(after.at("model.safetensors"), before.at("model.safetensors"));
  after["model.safetensors"] = before.at("model.safetensors");
  EXPECT_EQ(after, before);
  expect_done(import());
  const ProgramResult text =
      run_mneme({"generate", file("run"), "--prompt", "abcde", "--tokens", "1", "--json", "-"});
  expect_done(text);
  EXPECT_EQ(Json::parse(text.out).at("prompt").at("ids"), Json({5, 6, 4}));
}

// A task needs data, so the experiment names a file; it is not said to be missing.
TEST_F(ImportFolder, ARunWithoutDataSaysHowATrainingGetsThem) {
  const auto refuses = [&](const std::string& what) {
    for (const std::vector<std::string>& command :
         {std::vector<std::string>{"train", file("run/experiment.toml"), "--init", file("run"),
                                   "--run", file("tuned")},
          {"config", "check", file("run/experiment.toml")}}) {
      expect_refusal(run_mneme(command), 2,
                     {"data.train: the run was imported without data: expected a", what,
                      "got none; name one: --set data.train=FILE"});
    }
  };
  write_folder(folder_ / "model", small_llama());
  expect_done(import());
  refuses("file");  // ids
  write_bytes(folder_ / "model/tokenizer.json", kTokenizer);
  std::filesystem::remove_all(folder_ / "run");
  expect_done(import());
  refuses("file");
  write_bytes(folder_ / "text.txt", "abcdeabcdabceabdabcdeeedcba");
  expect_done(run_mneme({"train", file("run/experiment.toml"), "--init", file("run"), "--run",
                         file("tuned"), "--set", "data.train=\"" + file("text.txt") + "\"", "--set",
                         "train.segment=4", "--set", "train.lanes=1", "--quiet"}));
}

TEST_F(ImportFolder, PassesOverWhatIgnoreNames) {
  SmallModel model = small_llama();
  model.config["flavour"] = "sweet";
  write_folder(folder_ / "model", model);
  expect_refusal(import(), 2, {"flavour: \"sweet\": no key", "--ignore flavour"});
  expect_refusal(import({"--ignore", "flavor"}), 2,
                 {"--ignore flavor: there is no such key", "did you mean \"flavour\"?"});
  expect_refusal(run_mneme({"import", "w.safetensors", "e.toml", "--run", "r", "--ignore", "x"}), 2,
                 {"--ignore", "--from"});
  const ProgramResult imported = import({"--ignore", "flavour", "--json", "-"});
  expect_done(imported);
  EXPECT_THAT(imported.err, HasSubstr("passed over, because --ignore names it: flavour"));
  EXPECT_EQ(Json::parse(imported.out).at("ignored"), Json({"flavour"}));
  EXPECT_THAT(run_mneme({"inspect", file("run")}).out,
              HasSubstr("passed over   flavour, as import"));
  expect_done(export_run("run", {"--to", file("out")}));
  EXPECT_EQ(files_of(folder_ / "out"), files_of(folder_ / "model"));
}

TEST_F(ImportFolder, ATrainingDoesNotBeginWithAFolder) {
  expect_refusal(
      run_mneme({"train", experiment(tiny()), "--init", file("model"), "--run", file("tuned")}), 2,
      {"this is a model folder, and not a run", "mneme import --from " + file("model")});
}

TEST_F(ImportFolder, AnEvaluationBeyondTheContextsIsRefusedAndOneBeyondTheWindowIsNot) {
  SmallModel model = small_llama();
  model.config["model_type"] = "mistral";
  model.config["architectures"] = nullptr;
  model.config["sliding_window"] = 5;
  model.config["max_position_embeddings"] = 12;
  model.config["rope_scaling"] = {{"rope_type", "dynamic"}, {"factor", 4.0}};
  write_folder(folder_ / "model", model);
  write_ids();
  const ProgramResult imported = import();
  expect_done(imported);
  EXPECT_THAT(imported.err, HasSubstr("the plain ones in contexts of at most 12"));
  const auto scored = [&](const std::string& segment) {
    return run_mneme({"eval", file("run"), "--split", "test", "--quiet", "--set",
                      "data.test=\"" + file("ids.safetensors") + "\"", "--set",
                      "eval.segment=" + segment});
  };
  expect_done(scored("12"));
  expect_refusal(
      scored("13"), 2,
      {"model.rotary.original_positions = 12", "got 13 tokens", "--ignore rope_scaling"});
  expect_refusal(run_mneme({"generate", file("run"), "--prompt-ids", "1", "--segment", "13"}), 2,
                 {"the segment is longer than the model's contexts", "at most 12 tokens"});
}

// A model whose numbers are equal for all ids: the likeliest one is 0.
class EndOfGeneration : public ImportFolder {
 protected:
  void SetUp() override {
    model_ = small_llama();
    model_.at("lm_head.weight").bytes.assign(model_.at("lm_head.weight").bytes.size(), '\0');
  }
  // Imports the model with this member of config.json and these texts beside it; the first sample
  // of five tokens.
  Json sample(const Json& in_config, const std::string& generation_config,
              std::vector<std::string> more = {}) {
    std::filesystem::remove_all(folder_ / "run");
    model_.config["eos_token_id"] = in_config;
    write_folder(folder_ / "model", model_);
    write_bytes(folder_ / "model/tokenizer.json", kTokenizer);
    write_bytes(folder_ / "model/generation_config.json", generation_config);
    if (generation_config.empty()) {
      std::filesystem::remove(folder_ / "model/generation_config.json");
    }
    expect_done(import());
    more.insert(more.begin(), {"generate", file("run"), "--prompt", "cd", "--tokens", "5",
                               "--greedy", "--json", "-"});
    last_ = run_mneme(more);
    expect_done(last_);
    return Json::parse(last_.out).at("samples").at(0);
  }
  static Json ended() { return {{"ids", {0}}, {"text", ""}, {"end", "eos"}}; }
  static Json whole() { return {{"ids", {0, 0, 0, 0, 0}}, {"text", "aaaaa"}, {"end", "tokens"}}; }

  SmallModel model_;
  ProgramResult last_;
};

TEST_F(EndOfGeneration, IsAtAnIdThatTheFolderNames) {
  EXPECT_EQ(sample(nullptr, ""), whole());
  EXPECT_EQ(sample(0, ""), ended());
  EXPECT_THAT(last_.err,
              HasSubstr("a sample ends at a (id 0), as config.json says; --ignore-eos goes on"));
  EXPECT_EQ(sample(2, R"({"eos_token_id": [2, 0]})"), ended());
  EXPECT_THAT(last_.err,
              HasSubstr("a sample ends at c (id 2), a (id 0), as generation_config.json"));
  EXPECT_EQ(sample(0, R"({"eos_token_id": 2})"), whole());
  EXPECT_EQ(sample(0, R"({"eos_token_id": null})"), whole());
  EXPECT_EQ(sample(0, R"({"do_sample": true})"), ended());
  EXPECT_EQ(sample(0, "", {"--ignore-eos"}), whole());
  EXPECT_THAT(last_.err, Not(HasSubstr("a sample ends at")));
  const ProgramResult chat =
      run_shell(str("printf 'cd\\ncd\\n' | ", MNEME_BINARY_DIR, "/bin/mneme generate ",
                    shell_word(file("run")), " --chat --tokens 5 --greedy --quiet"));
  expect_done(chat);
  EXPECT_EQ(chat.out, "\n\n");
}

TEST_F(EndOfGeneration, ChatSaysThatATemplateIsNotApplied) {
  static_cast<void>(sample(nullptr, ""));
  const std::vector<std::string> chat = {"generate", file("run"), "--chat"};  // of no line
  ProgramResult result = run_mneme(chat);
  expect_done(result);
  EXPECT_THAT(result.err, Not(HasSubstr("chat template")));
  std::filesystem::remove_all(folder_ / "run");
  write_bytes(folder_ / "model/tokenizer_config.json", R"({"chat_template": "{{ messages }}"})");
  expect_done(import());
  result = run_mneme(chat);
  expect_done(result);
  EXPECT_THAT(result.err, HasSubstr("the model's chat template (tokenizer_config.json) is not "
                                    "applied: a line is read as it is"));
}

TEST_F(EndOfGeneration, IsAtTheFirstOfSeveralStopTexts) {
  const Json stopped = sample(nullptr, "", {"--stop", "e", "--stop", "aa"});
  EXPECT_EQ(stopped, Json({{"ids", {0, 0}}, {"text", ""}, {"end", "stop"}}));
}

TEST_F(EndOfGeneration, TextsBeginAsTheTokenizersTemplateSaysOnRequest) {
  static_cast<void>(sample(nullptr, ""));
  EXPECT_THAT(last_.err, Not(HasSubstr("--bos")));
  const std::vector<std::string> command = {"generate", file("run"), "--tokens",
                                            "1",        "--json",    "-"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), command.begin(), command.end());
    return run_mneme(more);
  };
  expect_refusal(with({"--prompt", "cd", "--bos"}), 2,
                 {"--bos: the tokenizer's template puts no token before a text"});
  std::filesystem::remove_all(folder_ / "run");
  Json tokenizer = Json::parse(kTokenizer);
  tokenizer["post_processor"] = Json::parse(R"({"type": "TemplateProcessing", "single":
    [{"SpecialToken": {"id": "b", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
    "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
    "special_tokens": {"b": {"id": "b", "ids": [1], "tokens": ["b"]}}})");
  write_bytes(folder_ / "model/tokenizer.json", tokenizer.dump());
  expect_done(import());
  const auto ids = [&](const std::vector<std::string>& more, const char* note) {
    const ProgramResult result = with(more);
    expect_done(result);
    EXPECT_THAT(result.err, HasSubstr(note));
    return Json::parse(result.out).at("prompt").at("ids");
  };
  EXPECT_EQ(ids({"--prompt", "cd"},
                "the tokenizer's template begins a text with b (id 1), which is "
                "put there with --bos alone"),
            Json({6}));
  EXPECT_EQ(ids({"--prompt", "cd", "--bos"}, "the text begins with b (id 1)"), Json({1, 6}));
  EXPECT_EQ(ids({"--prompt", "bcd", "--bos"}, "the text begins with b (id 1)"), Json({1, 6}));
  EXPECT_EQ(ids({"--bos"}, "the text begins with b (id 1)"), Json({1}));
  expect_refusal(with({"--prompt-ids", "1", "--bos"}), 2, {"--bos", "--prompt-ids"});
  expect_done(run_mneme({"train", experiment(tiny()), "--run", file("mine"), "--quiet"}));
  expect_refusal(run_mneme({"generate", file("mine"), "--bos"}), 2,
                 {"--bos: the run's vocabulary is no tokenizer"});
}

TEST_F(ImportFolder, RefusesATokenizerOfAnotherModel) {
  std::string tokenizer = kTokenizer;
  tokenizer.replace(tokenizer.find("\"cd\": 6"), 7, R"("cd": 6, "f": 7, "g": 8, "h": 9, "i": 10)");
  write_bytes(folder_ / "model/tokenizer.json", tokenizer);
  const ProgramResult refused = import();
  EXPECT_NE(refused.exit_code, 0);
  EXPECT_THAT(refused.err, HasSubstr("config.json: vocab_size: the tokenizer has ids beyond it: "
                                     "expected at least 11, got 10"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "run"));
}

TEST_F(ImportFolder, NamesTheFileWhoseTokensTheModelHasNoRowFor) {
  write_bytes(folder_ / "model/tokenizer.json", kTokenizer);
  write_bytes(folder_ / "model/tokenizer_config.json",
              R"({"extra_special_tokens": ["<1>", "<2>", "<3>", "<4>"]})");
  expect_refusal(
      import(), 2,
      {"config.json: vocab_size: the tokenizer has ids beyond it: expected at least 11, the "
       "last \"<4>\" of ",
       "tokenizer_config.json: extra_special_tokens[3]", "got 10"});
  write_bytes(folder_ / "model/tokenizer_config.json",
              R"({"extra_special_tokens": ["<1>", "<2>"], "note": 1})");
  const ProgramResult imported = import();
  expect_done(imported);
  EXPECT_THAT(imported.err, HasSubstr("tokenizer_config.json: note is passed over"));
}

}  // namespace
}  // namespace mneme::test
