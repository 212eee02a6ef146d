// Commands that use a run: on what it was trained with, and within the memory that is free.
#include <functional>
#include <nlohmann/json.hpp>
#include <utility>

#include "host/base/file/checksum.hpp"
#include "host/base/file/file.hpp"
#include "host/base/text.hpp"
#include "tests/cli/program.hpp"

namespace mneme::test {
namespace {

namespace fs = std::filesystem;

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class RunUse : public CliTest {
 protected:
  void SetUp() override {
    folder_.write("train.txt", text(100, "ab ba\n"));
    folder_.write("valid.txt", text(20, "ab ba\n"));
    fs::create_directories(folder_ / "plugins");
    fs::copy_file(fs::path(MNEME_PLUGIN_DIR) / "xl_cache.so", folder_ / "plugins/xl_cache.so");
    const std::string toml = tiny_on(
        "task = \"text\"\ntrain = \"train.txt\"\nvalid = \"valid.txt\"\n"
        "vocabulary = \"char\"\n",
        memory_with("xl_cache", folder_ / "plugins", "rows = 8"));
    expect_done(run_mneme({"train", experiment(toml), "--run", file("run"), "--quiet"}));
  }
  static std::string text(int lines, const std::string& line) {
    std::string out;
    for (int i = 0; i < lines; ++i) out += i % 3 == 0 ? line : "bb aa ab\n";
    return out;
  }
  ProgramResult eval(std::vector<std::string> more = {}) const {
    more.insert(more.begin(), {"eval", file("run"), "--quiet", "--json", file("eval.json")});
    return run_mneme(more);
  }
  [[nodiscard]] Json json(const std::string& name = "eval.json") const {
    return Json::parse(read_file(folder_ / name));
  }
  [[nodiscard]] double loss() const {
    const Json result = json().at("memories").at(0).at("result");
    return result.at("nll").get<double>() / result.at("tokens").get<double>();
  }
  void swap_letters() const {
    Json vocabulary = json("run/vocabulary.json");
    std::swap(vocabulary.at("symbols").at(0), vocabulary.at("symbols").at(1));
    folder_.write("run/vocabulary.json", vocabulary.dump());
  }
  void change_plugin() const {
    const fs::path plugin = folder_ / "plugins/xl_cache.so";
    write_file_atomic(plugin, read_file(plugin) + '\0');
  }
  void edit_info(const std::function<void(Json&)>& edit) const {
    Json info = json("run/run.json");
    edit(info);
    folder_.write("run/run.json", info.dump());
  }
};

TEST_F(RunUse, RefusesAChangedVocabularyEverywhere) {
  expect_done(eval());
  const double before = loss();
  const std::string trained = json("run/run.json").at("data").at("vocabulary_sha256");
  swap_letters();
  const std::vector<std::string> texts = {
      file("run/vocabulary.json"), "the vocabulary is not the one that the run was trained with",
      "expected sha256 " + trained, "restore the run's vocabulary.json, or remove it"};
  expect_refusal(eval(), 2, texts);
  expect_refusal(run_mneme({"generate", file("run"), "--prompt", "ab"}), 2, texts);
  expect_refusal(run_mneme({"export", file("run"), file("out.safetensors")}), 2, texts);
  expect_refusal(run_mneme({"analyze", file("run"), "--out", file("out")}), 2, texts);
  expect_refusal(run_mneme({"analyze", "distance", file("run"), "--out", file("out")}), 2, texts);
  expect_refusal(run_mneme({"train", "--resume", file("run")}), 2, texts);
  EXPECT_FALSE(fs::exists(folder_ / "out.safetensors"));
  // As the message says.
  fs::remove(folder_ / "run/vocabulary.json");
  expect_done(eval());
  EXPECT_EQ(loss(), before);
}

// Without its file the vocabulary comes from the training text, which may have changed.
TEST_F(RunUse, RefusesAVocabularyMadeOfAnotherText) {
  fs::remove(folder_ / "run/vocabulary.json");
  folder_.write("train.txt", text(100, "ac ca\n"));
  expect_refusal(eval(), 2, {"data.vocabulary", "the vocabulary is not the one"});
}

TEST_F(RunUse, SaysNothingWhenNothingChanged) {
  const ProgramResult result = eval();
  expect_done(result);
  EXPECT_EQ(result.err, "");
  EXPECT_THAT(json().at("differs_from_run"), IsEmpty());
  EXPECT_THAT(json().at("memories").at(0).at("differs_from_run"), IsEmpty());
}

TEST_F(RunUse, SaysWhichValueOfTheModelIsAnother) {
  expect_done(eval({"--set", "model.same_length=true"}));
  const Json differences = json().at("differs_from_run");
  ASSERT_EQ(differences.size(), 1U);
  EXPECT_EQ(differences.at(0).at("part"), "model.same_length");
  EXPECT_EQ(differences.at(0).at("got"), "true");
  EXPECT_EQ(differences.at(0).at("chosen"), true);
}

TEST_F(RunUse, SaysThatTheTextIsAnother) {
  const std::string trained = json("run/run.json").at("data").at("valid").at("sha256");
  folder_.write("other.txt", text(30, "ba\n"));
  const auto expect_said = [&](const ProgramResult& result, const std::string& name) {
    expect_done(result);
    EXPECT_THAT(result.err,
                HasSubstr("data.valid (" + file(name) +
                          ") is not what the run was trained with: expected sha256 " + trained));
    const Json differences = json().at("differs_from_run");
    ASSERT_EQ(differences.size(), 1U);
    EXPECT_EQ(differences.at(0).at("expected"), "sha256 " + trained);
    EXPECT_EQ(differences.at(0).at("got"), "sha256 " + sha256_file(folder_ / name));
  };
  expect_said(eval({"--set", "data.valid=" + file("other.txt")}), "other.txt");
  folder_.write("valid.txt", text(30, "ba\n"));
  expect_said(eval(), "valid.txt");
}

TEST_F(RunUse, SaysThatThePluginIsAnother) {
  const std::string trained = json("run/run.json").at("plugins").at(0).at("sha256");
  change_plugin();
  const std::string now = sha256_file(folder_ / "plugins/xl_cache.so");
  const auto expect_said = [&](const ProgramResult& result, const Json& differences) {
    expect_done(result);
    EXPECT_THAT(result.err, HasSubstr("xl_cache.so) is not what the run was trained with"));
    EXPECT_THAT(result.err, HasSubstr(trained));
    ASSERT_EQ(differences.size(), 1U);
    EXPECT_THAT(differences.at(0).at("expected").get<std::string>(), HasSubstr(trained));
    EXPECT_THAT(differences.at(0).at("got").get<std::string>(), HasSubstr(now));
    EXPECT_EQ(differences.at(0).at("chosen"), false);
  };
  ProgramResult result = eval();
  expect_said(result, json().at("memories").at(0).at("differs_from_run"));
  result = run_mneme({"generate", file("run"), "--prompt", "ab", "--tokens", "2", "--quiet",
                      "--json", file("generate.json")});
  expect_said(result, json("generate.json").at("differs_from_run"));
  result =
      run_mneme({"export", file("run"), file("out.safetensors"), "--json", file("export.json")});
  expect_said(result, json("export.json").at("differs_from_run"));
  result = run_mneme({"analyze", "distance", file("run"), "--out", file("out"), "--distance", "5",
                      "--quiet", "--json", file("distance.json")});
  expect_said(result, json("distance.json").at("differs_from_run").at("run"));
}

TEST_F(RunUse, SaysWhichMemoryTakesTheRunsPlace) {
  const std::string none = folder_.write("none.toml", "[memory]\n").string();
  expect_done(eval({"--memory", none}));
  const Json differences = json().at("memories").at(0).at("differs_from_run");
  ASSERT_EQ(differences.size(), 1U);
  EXPECT_EQ(differences.at(0).at("got"), "a memory without it");
  EXPECT_EQ(differences.at(0).at("chosen"), true);
}

TEST_F(RunUse, OpensARunWithoutRecordedChecksums) {
  edit_info([](Json& info) {
    info.at("data").erase("vocabulary_sha256");
    info.at("data").at("valid").erase("sha256");
    info.at("data").at("train").erase("sha256");
    for (Json& plugin : info.at("plugins")) plugin.erase("sha256");
  });
  const ProgramResult result = eval();
  expect_done(result);
  EXPECT_THAT(result.err, HasSubstr("vocabulary.json: run.json has no checksum of the vocabulary, "
                                    "it cannot be checked"));
  EXPECT_THAT(result.err, HasSubstr("valid.txt): the run has no record of it, it cannot be "
                                    "checked"));
  EXPECT_EQ(json().at("differs_from_run").at(0).at("expected"), nullptr);
  const std::size_t said = result.err.find("no checksum of the vocabulary");
  EXPECT_EQ(result.err.find("no checksum of the vocabulary", said + 1), std::string::npos);
  const ProgramResult resumed = run_mneme({"train", "--resume", file("run"), "--quiet"});
  expect_done(resumed);
  EXPECT_THAT(resumed.err, HasSubstr("train.txt): the run has no record of it"));
  EXPECT_THAT(resumed.err, HasSubstr("valid.txt): the run has no record of it"));
}

TEST_F(RunUse, RefusesWhatDoesNotFitIntoMemory) {
  const std::string path = experiment(tiny());
  // 16 TiB of probabilities: nothing of it may be allocated before the refusal.
  const std::vector<std::string> huge = {"--set", "train.lanes=1000000", "--set",
                                         "train.segment=1000"};
  const auto with_huge = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), huge.begin(), huge.end());
    return run_mneme(arguments);
  };
  const std::vector<std::string> texts = {"training: there is not enough memory",
                                          "activations of the layers: about ", "lower train.lanes",
                                          " free (", "with --force it is tried"};
  expect_refusal(with_huge({"train", path, "--run", file("huge")}), 2, texts);
  EXPECT_FALSE(fs::exists(folder_ / "huge"));
  const std::string none = folder_.write("none.toml", "[memory]\n").string();
  expect_refusal(with_huge({"compare", path, "--memory", none}), 2, texts);
  const ProgramResult plan = with_huge({"train", path, "--dry-run"});
  expect_done(plan);
  EXPECT_THAT(plan.out, HasSubstr("too little,"));  // a line that is wrapped
  expect_refusal(eval({"--set", "eval.lanes=1000000", "--set", "eval.segment=100000"}), 2,
                 {"evaluation: there is not enough memory", "lower eval.lanes"});
  expect_refusal(run_mneme({"generate", file("run"), "--prompt", "ab", "--samples", "4096",
                            "--tokens", "1000000", "--set", "memory.tier.0.eval_rows=1000000"}),
                 2, {"evaluation: there is not enough memory", "memory state: about "});
  // A long segment fits when the text is too short to fill it.
  expect_done(run_mneme({"generate", file("run"), "--prompt", "ab", "--tokens", "4", "--segment",
                         "1000000", "--set", "memory.tier.0.eval_rows=1000000"}));
}

TEST_F(RunUse, RefusesFilesWithoutEnd) {
  const std::vector<std::string> config = {"/dev/zero: cannot read: expected at most 16.0 MiB"};
  expect_refusal(run_mneme({"train", "/dev/zero"}), 2, config);
  expect_refusal(eval({"--memory", "/dev/zero"}), 2, config);
  expect_refusal(run_mneme({"compare", "/dev/zero", "--memory", "/dev/zero"}), 2, config);
  expect_refusal(run_mneme({"generate", file("run"), "--prompt-file", "/dev/zero"}), 2,
                 {"/dev/zero: cannot read: expected at most 256.0 MiB"});
}

// The refusal comes before the evaluation and leaves nothing.
TEST_F(RunUse, RefusesAtOnceToAnalyseAMemoryThatPublishesNothing) {
  const std::vector<std::string> texts = {
      "no memory published anything to analyse",
      "mneme analyze distance " + file("run") + " --out " + file("new/out")};
  const std::string none = folder_.write("none.toml", "[memory]\n").string();
  for (const std::vector<std::string>& memory : {std::vector<std::string>(), {"--memory", none}}) {
    std::vector<std::string> arguments = {"analyze", file("run"), "--out", file("new/out")};
    arguments.insert(arguments.end(), memory.begin(), memory.end());
    const ProgramResult result = run_mneme(arguments);
    expect_refusal(result, 2, texts);
    EXPECT_THAT(result.err, Not(HasSubstr("analyze as trained")));  // the bar's title
    EXPECT_FALSE(fs::exists(folder_ / "new"));
  }
  expect_done(
      run_mneme({"analyze", "distance", file("run"), "--out", file("new/out"), "--distance", "5"}));
}

}  // namespace
}  // namespace mneme::test
