#include <fstream>
#include <nlohmann/json.hpp>

#include "host/base/file/file.hpp"
#include "host/base/text.hpp"
#include "tests/base/wordings.hpp"
#include "tests/cli/program.hpp"

namespace mneme::test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// mneme data and what trains from it.
class Data : public CliTest {
 protected:
  // A text of so many lines with a few words each.
  std::string write_text(const std::string& name, int lines, const std::string& extra = "") const {
    std::string text;
    for (int i = 0; i < lines; ++i) text += "the cat " + std::to_string(i % 7) + " sat\n" + extra;
    return folder_.write(name, text).string();
  }
  ProgramResult prepare(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), {"data", "prepare"});
    arguments.insert(arguments.end(), {"--out", file("out")});
    return run_mneme(arguments);
  }
  // The tiny experiment on other data, a few steps.
  std::string experiment_on(const std::string& data) const {
    return experiment(tiny_on("task = \"text\"\n" + data));
  }
  void expect_nothing_written() const {
    for (const auto& entry : std::filesystem::directory_iterator(folder_ / ".")) {
      EXPECT_THAT(entry.path().filename().string(), ::testing::Not(HasSubstr("out")));
    }
  }
};

TEST_F(Data, TrainsAndEvaluatesOnPreparedWords) {
  const auto train = write_text("train.txt", 300);
  const auto test = write_text("test.txt", 200, "a dog\n");
  const ProgramResult prepared =
      prepare({"--vocabulary", "word", "--train", train, "--test", test, "--json", file("p.json")});
  expect_done(prepared);
  EXPECT_THAT(prepared.out, HasSubstr("vocabulary: word, 12 symbols"));
  // The path to copy holds wherever the experiment lies.
  const ProgramResult relative = run_mneme({"data", "prepare", "--train", train, "--out",
                                            std::filesystem::proximate(file("near")).string()});
  expect_done(relative);
  EXPECT_THAT(relative.out, HasSubstr("prepared = \"/"));
  const Json json = Json::parse(read_file(file("p.json")));
  EXPECT_EQ(json["splits"]["train"]["tokens"], 300 * 5);
  EXPECT_EQ(json["splits"]["test"]["unknown"], 400);

  const auto toml = experiment_on("prepared = \"out\"");
  const ProgramResult trained = run_mneme({"train", toml, "--run", file("run")});
  expect_done(trained);
  EXPECT_THAT(trained.err, HasSubstr("train data: 1500 tokens, 1 document, 1200 words, 0 of them "
                                     "unknown (0.00 %)"));
  const ProgramResult evaluated = run_mneme({"eval", file("run"), "--split", "test"});
  expect_done(evaluated);
  EXPECT_THAT(evaluated.err, HasSubstr("test data: 1600 tokens, 1 document, 1200 words, 400 of "
                                       "them unknown (33.33 %)"));
}

TEST_F(Data, DescribesAFolderAndAnExperiment) {
  const auto train = write_text("train.txt", 300);
  expect_done(prepare({"--train", train, "--split", "0.8,0.1,0.1"}));
  const ProgramResult folder = run_mneme(
      {"data", "describe", file("out"), "--lanes", "4", "--segment", "16", "--json", "-"});
  expect_done(folder);
  const Json json = Json::parse(folder.out);
  EXPECT_EQ(json["data"]["train"]["tokens"], 3360);
  EXPECT_EQ(json["cut"]["train"]["tokens_per_lane"], 840);
  EXPECT_EQ(json["cut"]["valid"]["dropped_tokens"], 0);
  EXPECT_EQ(json["cut"]["train"]["segments_per_epoch"], 53);
  EXPECT_EQ(json["prepared"]["splits"]["train"]["sources"][0]["path"], train);

  const ProgramResult motif = run_mneme({"data", "describe", experiment(tiny())});
  expect_done(motif);
  EXPECT_THAT(motif.out, HasSubstr("task: motif"));
  const ProgramResult plain =
      run_mneme({"data", "describe", experiment_on("train = \"train.txt\"")});
  expect_done(plain);
  EXPECT_THAT(plain.out, HasSubstr("tokens: 4200"));
  EXPECT_THAT(plain.out, HasSubstr("tokens_per_lane:"));
}

TEST_F(Data, DescribesTheFirstAndTheLastOfManyFiles) {
  std::filesystem::create_directory(folder_ / "texts");
  for (int i = 0; i < 8; ++i) write_text(str("texts/part", i, ".txt"), 30);
  expect_done(prepare({"--train", file("texts")}));
  const ProgramResult text = run_mneme({"data", "describe", file("out"), "--json", file("all")});
  expect_done(text);
  for (const int i : {0, 2, 5, 7}) EXPECT_THAT(text.out, HasSubstr(str("part", i, ".txt\n")));
  for (const int i : {3, 4}) EXPECT_THAT(text.out, Not(HasSubstr(str("part", i, ".txt"))));
  EXPECT_THAT(text.out, HasSubstr("\n        .. 2 more, which --json FILE has\n\n"));
  const Json json = Json::parse(read_file(folder_ / "all"));
  EXPECT_EQ(json["prepared"]["splits"]["train"]["sources"].size(), 8U);
}

TEST_F(Data, SaysWhereTheStandardSetsAre) {
  const ProgramResult sets = run_mneme({"data", "sets"});
  expect_done(sets);
  for (const char* text :
       {"WikiText-103", "enwik8", "text8", "PG-19", "CMU-DoG", "217646", "245569", "88982818"}) {
    EXPECT_THAT(sets.out, HasSubstr(text));
  }
  const ProgramResult json = run_mneme({"data", "sets", "--json", "-"});
  EXPECT_EQ(Json::parse(json.out)["sets"].size(), 5U);
}

TEST_F(Data, SaysWhereCountsAreNotThePublishedOnes) {
  const ProgramResult other = prepare(
      {"--preparation", "enwik8", "--train", write_text("x", 200), "--json", file("p.json")});
  expect_done(other);
  EXPECT_THAT(other.out, HasSubstr("not the text published as enwik8:\n  train tokens: "));
  EXPECT_THAT(other.out, HasSubstr(", published 88982818\n"));
  EXPECT_EQ(Json::parse(read_file(file("p.json")))["published"][0]["published"], 88982818);
}

TEST_F(Data, DescribeSaysHowATextIsDescribed) {
  const auto text = write_text("text.txt", 3);
  expect_refusal(
      run_mneme({"data", "describe", text}), 2,
      {"data describe " + text, "this is no prepared folder and no experiment file",
       "mneme data prepare --train " + text + " --out DIR, then mneme data describe DIR"});
  expect_refusal(run_mneme({"train", text, "--run", file("run")}), 2,
                 {text + ":1:", "is " + text + " the file that you meant? It was read as TOML"});
}

TEST_F(Data, SkipsByteOrderMarks) {
  const std::string mark = "\xEF\xBB\xBF";
  folder_.write("train.txt", mark + std::string(600, 'a') + "\n");
  const ProgramResult trained =
      run_mneme({"train", experiment_on("train = \"train.txt\""), "--run", file("run")});
  expect_done(trained);
  EXPECT_THAT(trained.err, HasSubstr("train.txt: the byte order mark at its start is no part of "
                                     "the text and was skipped"));
  EXPECT_THAT(trained.err, HasSubstr("train data: 601 tokens"));
  const auto prompt = folder_.write("prompt.txt", mark + "aaa").string();
  const ProgramResult generated =
      run_mneme({"generate", file("run"), "--prompt-file", prompt, "--tokens", "2", "--json", "-"});
  expect_done(generated);
  EXPECT_THAT(generated.err, HasSubstr(prompt + ": the byte order mark at its start was skipped"));
  EXPECT_THAT(generated.out, ::testing::Not(HasSubstr("\xEF\xBB\xBF")));
}

TEST_F(Data, RefusesOptionsThatContradict) {
  const auto train = write_text("train.txt", 30);
  expect_refusals(2, "data prepare --out {out} --train {train.txt}",
                  read_wording_file("tests/cli/data/messages/refuses_options_that_contradict.txt"));
  expect_refusal(prepare({"--train", train, "--documents", "mark", "--document-mark", "x\n"}), 2,
                 {"--document-mark", "expected one line", "\"x\\n\""});
  expect_nothing_written();
}

TEST_F(Data, RefusesBadTexts) {
  const auto bad = folder_.write("bad.txt", "fine\nnot \xfe fine\n").string();
  expect_refusal(prepare({"--vocabulary", "char", "--train", bad}), 2,
                 {"bad.txt:2:5", "not UTF-8", "byte 0xfe at byte offset 9", "iconv"});
  const auto empty = folder_.write("empty.txt", "").string();
  const auto train = write_text("train.txt", 30);
  expect_refusal(prepare({"--train", train, "--valid", empty}), 2,
                 {"--valid", "empty.txt", "the file is empty", "name another file in --valid"});
  const auto ids = folder_.write("ids.safetensors", std::string("\x02\0\0\0\0\0\0\0{}", 10));
  expect_refusal(prepare({"--train", ids.string()}), 2,
                 {"--train: " + ids.string(), "expected a text file, got a safetensors file",
                  "data.task = \"tokens\""});
  // The command line is corrected, not an experiment.
  const std::string here =
      "a relative path starts at the current folder, " + std::filesystem::current_path().string();
  expect_refusal(prepare({"--train", file("none.txt")}), 2,
                 {"--train: " + file("none.txt"), "no such file; correct --train; " + here});
  expect_refusal(prepare({"--train", train, "--test", file("none.txt")}), 2,
                 {"--test: " + file("none.txt"), "no such file; correct --test; " + here});
  expect_refusal(run_mneme({"data", "describe", file("none")}), 2,
                 {"data describe: " + file("none"), "got no such file or folder", here});
  std::filesystem::create_directory(folder_ / "plain");
  folder_.write("plain/a.txt", "a text");
  expect_refusal(run_mneme({"data", "describe", file("plain")}), 2,
                 {"data describe " + file("plain") + ": this is no prepared folder",
                  "got a folder without data.json; if it holds texts: mneme data prepare --train " +
                      file("plain") + " --out DIR"});
  folder_.write("plain/experiment.toml", "");
  expect_refusal(run_mneme({"data", "describe", file("plain")}), 2,
                 {"if it is a run: mneme data describe " + file("plain/experiment.toml")});
  expect_refusal(run_mneme({"data", "dialogues", file("none"), "--out", file("out")}), 2,
                 {"data dialogues: " + file("none"), "got no such file or folder", here});
  std::filesystem::create_directory(folder_ / "bare");
  expect_refusal(prepare({"--train", train, "--valid", file("bare")}), 2,
                 {"--valid", "bare", "no file in it"});
  expect_nothing_written();
}

// Before the training, not after it.
TEST_F(Data, RefusesAValidTextThatCannotBeEvaluated) {
  write_text("train.txt", 300);
  folder_.write("short.txt", "abc");
  const auto train_on = [&](const std::string& valid) {
    return run_mneme({"train", experiment_on("train = \"train.txt\"\nvalid = \"" + valid + "\""),
                      "--run", file("run")});
  };
  expect_refusal(train_on("short.txt"), 2, {"data.valid", "short.txt", "too short", "eval.lanes"});
  folder_.write("empty.txt", "");
  expect_refusal(train_on("empty.txt"), 2, {"data.valid", "empty.txt", "the file is empty"});
  EXPECT_FALSE(std::filesystem::exists(folder_ / "run"));
}

TEST_F(Data, LeavesNothingWhereItCannotWrite) {
  const auto train = write_text("train.txt", 30);
  const ProgramResult result =
      run_mneme({"data", "prepare", "--train", train, "--out", "/proc/mneme/out"});
  expect_refusal(result, 1, {"/proc/mneme/out", "cannot be written", "name a place"});
  std::filesystem::create_directory(folder_ / "out");
  folder_.write("out/mine.txt", "kept");
  expect_refusal(prepare({"--train", train}), 2, {"the place is taken", "choose another --out"});
  EXPECT_EQ(read_file(folder_ / "out/mine.txt"), "kept");
}

TEST_F(Data, RefusesDamagedPreparedFiles) {
  expect_done(prepare({"--train", write_text("train.txt", 300)}));
  const auto toml = experiment_on("prepared = \"out\"");
  const auto ids = folder_ / "out/train.safetensors";
  std::filesystem::resize_file(ids, std::filesystem::file_size(ids) - 5);
  expect_refusal(run_mneme({"train", toml, "--run", file("run")}), 2,
                 {"train.safetensors", "prepare the data again"});
  expect_refusal(run_mneme({"data", "describe", file("out")}), 2, {"train.safetensors"});
  expect_refusal(run_mneme({"data", "describe", file("absent")}), 2, {"absent"});
}

// The run goes on with other files of the same ids, and does not notice.
TEST_F(Data, TrainsOnShards) {
  const auto train = write_text("train.txt", 300);
  const auto toml = experiment_on("prepared = \"out\"");
  expect_done(prepare({"--vocabulary", "word", "--train", train, "--valid", train}));
  expect_done(run_mneme({"train", toml, "--run", file("whole")}));
  expect_done(run_mneme({"eval", file("whole"), "--json", file("whole.json")}));
  std::filesystem::remove_all(folder_ / "out");
  const ProgramResult prepared = prepare(
      {"--vocabulary", "word", "--train", train, "--valid", train, "--shard-tokens", "391"});
  expect_done(prepared);
  EXPECT_THAT(prepared.out, HasSubstr("train: 4 shards\nvalid: 4 shards\n"));
  const ProgramResult described = run_mneme({"data", "describe", file("out")});
  expect_done(described);
  EXPECT_THAT(described.out, HasSubstr("file: train-0004.safetensors\n"));

  expect_done(run_mneme({"eval", file("whole"), "--json", file("again.json")}));
  expect_done(run_mneme({"train", toml, "--run", file("shards")}));
  expect_done(run_mneme({"eval", file("shards"), "--json", file("shards.json")}));
  const auto read = [&](const char* name) { return Json::parse(read_file(file(name))); };
  EXPECT_EQ(read("again.json").at("differs_from_run"), Json::array());
  const auto loss_of = [&](const char* name) {
    return read(name).at("memories").at(0).at("result").at("loss");
  };
  EXPECT_EQ(loss_of("again.json"), loss_of("whole.json"));
  EXPECT_EQ(loss_of("shards.json"), loss_of("whole.json"));
}

TEST_F(Data, RefusesShardsThatAreNotThere) {
  expect_done(prepare({"--train", write_text("train.txt", 300), "--shard-tokens", "1500"}));
  const auto shard = folder_ / "out/train-0002.safetensors";
  std::filesystem::remove(shard);
  const auto toml = experiment_on("prepared = \"out\"");
  expect_refusal(run_mneme({"train", toml, "--run", file("run")}), 2,
                 {"train-0002.safetensors", "expected shard 2 of 3 of train", "no such file"});
  std::filesystem::create_symlink("/mnt/absent_disk/shard", shard);
  expect_refusal(run_mneme({"data", "describe", file("out")}), 2,
                 {"train-0002.safetensors", "a symbolic link to /mnt/absent_disk/shard"});
}

TEST_F(Data, RefusesAVocabularyOfAnotherCorpus) {
  const auto train = write_text("train.txt", 300);
  expect_done(prepare({"--vocabulary", "word", "--train", train, "--valid", train}));
  const auto toml = experiment_on("prepared = \"out\"");
  expect_done(run_mneme({"train", toml, "--run", file("run")}));
  std::filesystem::remove_all(folder_ / "out");
  const auto other = write_text("other.txt", 300, "and more\n");
  expect_done(prepare({"--vocabulary", "word", "--train", other, "--valid", other}));
  expect_refusal(run_mneme({"eval", file("run")}), 2,
                 {"data.prepared", "another vocabulary than the run's", "--vocabulary-file"});

  const auto words = folder_ / "words.json";
  std::filesystem::copy_file(folder_ / "out/vocabulary.json", words);
  expect_refusal(run_mneme({"train",
                            experiment_on("train = \"train.txt\"\nvocabulary = \"char\"\n"
                                          "vocabulary_file = \"words.json\""),
                            "--run", file("run2")}),
                 2, {"data.vocabulary", "words.json", "expected \"word\", got \"char\""});
}

}  // namespace
}  // namespace mneme::test
