// Dialogues through the real program: training, evaluation, answers with scores, and a chat.
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "host/base/file/file.hpp"
#include "host/base/text.hpp"
#include "host/scores/generated.hpp"
#include "host/scores/overlap/overlap.hpp"
#include "tests/cli/program.hpp"

namespace mneme::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

namespace fs = std::filesystem;

class DialogueRun : public CliTest {
 protected:
  void SetUp() override {
    std::string lines;
    for (int i = 0; i < 12; ++i) {
      nlohmann::json turns;
      for (int turn = 0; turn < 4 + i % 3; ++turn) {
        turns.push_back({{"speaker", 1 + turn % 2},
                         {"text", turn % 2 == 0 ? str("who made film f", i % 4, " ?")
                                                : str("it was made by m", i % 4, " .")}});
      }
      lines +=
          nlohmann::json{{"id", str("d", i)},
                         {"document", str("film f", i % 4, " was made by m", i % 4, " in y", i)},
                         {"turns", turns}}
              .dump() +
          "\n";
    }
    folder_.write("dialogues.jsonl", lines);
    none_ = folder_.write("none.toml", "[memory]\n").string();
    cache_ = folder_.write("cache.toml", memory_with("xl_cache", MNEME_PLUGIN_DIR, "rows = 16"))
                 .string();
  }
  static std::string text(const std::string& data = "") {
    return "[model]\nlayers = 2\nheads = 2\nwidth = 16\nff = 32\ndropout = 0.0\n[data]\n"
           "task = \"dialogue\"\ntrain = \"dialogues.jsonl\"\nvalid = \"dialogues.jsonl\"\n" +
           data + "[train]\nsegment = 12\nlanes = 3\nsteps = 8\nlr = 1e-2\n";
  }
  [[nodiscard]] std::string train() const {
    expect_done(run_mneme({"train", experiment(text()), "--memory", cache_, "--run", file("run"),
                           "--quiet", "--threads", "1"}));
    return file("run");
  }
  ProgramResult chat(const std::string& run, const std::string& lines,
                     const std::string& more = "") const {
    folder_.write("lines.txt", lines);
    return run_shell(str(MNEME_PROGRAM, " generate ", run, " --chat --tokens 6 --threads 1 ", more,
                         " < ", file("lines.txt")));
  }

  std::string none_;
  std::string cache_;
};

TEST_F(DialogueRun, AnswersAreGeneratedScoredAndCompared) {
  expect_done(run_mneme({"compare", experiment(text()), "--memory", none_, "--memory", cache_,
                         "--run", file("comparison"), "--threads", "1", "--quiet"}));
  const std::string run = file("comparison/cache-seed1");
  for (const char* arm : {"none-seed1", "cache-seed1"}) {
    expect_done(run_mneme({"generate", file(str("comparison/", arm)), "--split", "valid",
                           "--for-report", "14", "--threads", "1", "--quiet"}));
  }
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(fs::path(run) / "generated")) {
    files.push_back(entry.path());
  }
  ASSERT_EQ(files.size(), 1U);
  const scores::Generated made = scores::read_generated(files.front());
  ASSERT_EQ(made.samples.size(), 14U);
  double f1 = 0.0;
  for (const scores::GeneratedSample& sample : made.samples) {
    EXPECT_THAT(sample.id, AllOf(testing::StartsWith("valid/d"), HasSubstr("@")));
    EXPECT_LE(sample.generated.size(), 50U);
    EXPECT_THAT(*sample.prompt_text,
                testing::AnyOf(testing::EndsWith("<speaker1>"), testing::EndsWith("<speaker2>")));
    EXPECT_THAT(*sample.generated_text, Not(HasSubstr("<speaker")));
    EXPECT_THAT(*sample.expected_text,
                testing::AnyOf(testing::StartsWith("who made"), testing::StartsWith("it was")));
    f1 += scores::token_f1(*sample.generated_text, *sample.expected_text).f / 14.0;
  }
  const ProgramResult report = run_mneme({"report", file("comparison"), "--format", "json"});
  expect_done(report);
  EXPECT_THAT(report.out, AllOf(HasSubstr("token_f1"), HasSubstr("rougeL_recall"),
                                HasSubstr("meteor_exact_stem")));
  const ProgramResult table =
      run_mneme({"report", file("comparison"), "--format", "csv", "--table", "runs"});
  if (table.exit_code == 0) {
    EXPECT_THAT(table.out,
                HasSubstr(str("valid.token_f1,cache,1,", format_exact(f1).substr(0, 8))));
  }
}

// What is read before the turns may differ: their losses are paired all the same.
TEST_F(DialogueRun, RunsWithAndWithoutTheDocumentAreCompared) {
  for (const char* has_document : {"true", "false"}) {
    expect_done(run_mneme({"train", experiment(text()), "--memory", none_, "--run",
                           file(has_document), "--set", str("data.with_document=", has_document),
                           "--quiet", "--threads", "1"}));
    expect_done(run_mneme({"generate", file(has_document), "--split", "valid", "--for-report", "12",
                           "--threads", "1", "--quiet"}));
  }
  expect_done(run_mneme({"report", file("true"), file("false"), "--out", file("pages"), "--json",
                         file("report.json"), "--quiet"}));
  const nlohmann::json report = nlohmann::json::parse(read_file(folder_ / "report.json"));
  std::vector<std::string> measures;
  for (const nlohmann::json& one : report.at("differences")) {
    measures.push_back(one.at("measure").get<std::string>());
    EXPECT_NE(one.at("verdict"), "unknown") << one.dump();
    EXPECT_GT(one.at("units").get<int>(), 3);
  }
  EXPECT_THAT(measures, testing::ElementsAre("loss", "token_f1", "rouge1_recall", "rouge1_f",
                                             "rougeL_recall", "rougeL_f", "meteor_exact_stem"));
}

TEST_F(DialogueRun, ChatsInTurnsAndKeepsItsState) {
  const std::string run = train();
  folder_.write("film.txt", "film f1 was made by m1 in y1");
  std::string lines;
  for (int i = 0; i < 9; ++i) lines += str("who made film f", i % 4, " ?\n");
  const ProgramResult all =
      chat(run, lines, str("--document ", file("film.txt"), " --save-state ", file("talk")));
  EXPECT_EQ(all.exit_code, 0) << all.out;
  EXPECT_THAT(all.out, AllOf(HasSubstr("document: 8 tokens"), HasSubstr("prompt: 5 tokens"),
                             Not(HasSubstr("<speaker"))));
  // The state is as large after the last turn as after the fourth.
  std::vector<std::string> sizes;
  for (std::size_t from = 0; (from = all.out.find(", memory ", from)) != std::string::npos;
       ++from) {
    sizes.push_back(all.out.substr(from, all.out.find('\n', from) - from));
  }
  ASSERT_EQ(sizes.size(), 10U) << all.out;
  EXPECT_EQ(sizes.back(), sizes[4]);
  // A saved conversation goes on as if it had not stopped.
  const ProgramResult next = chat(run, "who made film f2 ?\n", str("--state ", file("talk")));
  EXPECT_EQ(next.exit_code, 0) << next.out;
  const ProgramResult whole =
      chat(run, lines + "who made film f2 ?\n", str("--document ", file("film.txt"), " --quiet"));
  const ProgramResult last =
      chat(run, "who made film f2 ?\n", str("--quiet --state ", file("talk")));
  EXPECT_TRUE(whole.out.ends_with(last.out)) << whole.out << "---\n" << last.out;
}

TEST_F(DialogueRun, RefusesWhatDoesNotFit) {
  const std::string run = train();
  expect_refusal(run_mneme({"generate", run, "--prompt", "a", "--document", "x"}), 2,
                 {"--document goes with --chat"});
  EXPECT_THAT(chat(run, "who\n", "--document nowhere.txt").out, HasSubstr("nowhere.txt"));
  folder_.write("text.txt", "a b c d e f g h a b c d e f g h a b c d e f g h a b c d");
  const std::string text_run = file("text_run");
  expect_done(run_mneme({"train",
                         experiment("[model]\nlayers = 1\nheads = 2\nwidth = 16\n[data]\ntask = "
                                    "\"text\"\ntrain = \"text.txt\"\n[train]\nsegment = 8\nlanes = "
                                    "1\nsteps = 1\n"),
                         "--run", text_run, "--quiet", "--threads", "1"}));
  EXPECT_THAT(chat(text_run, "a\n", str("--document ", file("text.txt"))).out,
              AllOf(HasSubstr("--document: the run was not trained on dialogues"),
                    HasSubstr("give the text as the first prompt")));
  expect_refusal(
      run_mneme({"train", experiment(text("with_documents = true\n")), "--run", file("x")}), 2,
      {"data.with_documents", "with_document"});
  expect_refusal(run_mneme({"train", experiment(text("alphabet = 3\n")), "--run", file("x")}), 2,
                 {"data.alphabet", "not used by the task \"dialogue\""});
}

}  // namespace
}  // namespace mneme::test
