// mneme serve through the real program: its numbers are those of score, eval and generate.
#include <cmath>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <sstream>

#include "host/base/file/file.hpp"
#include "host/base/file/safetensors.hpp"
#include "host/base/text.hpp"
#include "tests/cli/program.hpp"

namespace mneme::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class ServeRun : public CliTest {
 protected:
  void SetUp() override {
    std::string text;
    for (int i = 0; i < 200; ++i) text += i % 2 == 0 ? "one two , three\n" : "four five .\n";
    folder_.write("train.txt", text);
    folder_.write("valid.txt", document());
    expect_done(run_mneme({"train",
                           experiment("[model]\nlayers = 2\nheads = 2\nwidth = 16\nff = 32\n"
                                      "dropout = 0.0\n[memory]\n"
                                      "[data]\ntask = \"text\"\ntrain = \"train.txt\"\n"
                                      "valid = \"valid.txt\"\nvocabulary = \"char\"\n[train]\n"
                                      "segment = 8\nlanes = 4\nsteps = 30\nlr = 5e-3\n"
                                      "[eval]\nsegment = 8\nlanes = 3\n"),
                           "--run", file("run"), "--quiet", "--threads", "1"}));
  }
  static std::string document() { return "one two , three\nfour five .\none two"; }

  // The answers to lines.
  std::vector<Json> serve(const std::vector<std::string>& lines,
                          const std::string& more = "") const {
    const ProgramResult result = serve_text(join(lines, "\n"), more);
    EXPECT_EQ(result.exit_code, 0) << result.out;
    std::vector<Json> answers;
    std::istringstream out(result.out);
    for (std::string line; std::getline(out, line);) answers.push_back(Json::parse(line));
    return answers;
  }
  ProgramResult serve_text(const std::string& text, const std::string& more = "") const {
    std::ofstream(file("requests.jsonl")) << text;
    return run_shell(shell_word(MNEME_PROGRAM) + " serve " + shell_word(file("run")) +
                     " --stdio --quiet --threads 1 " + more + " < " +
                     shell_word(file("requests.jsonl")) + " 2>" + shell_word(file("err.txt")));
  }
  static std::string score(int id, const std::string& text, const Json& more = Json::object()) {
    Json request = {{"id", id}, {"request", "score"}, {"text", text}};
    request.update(more);
    return request.dump();
  }
  static double sum(const Json& answer) { return answer.at("logprob").get<double>(); }
};

TEST_F(ServeRun, ScoresADocumentAsTheEvaluatorDoes) {
  const auto answers = serve({score(1, document(), {{"logprobs", true}})});
  ASSERT_EQ(answers.size(), 1U);
  const ProgramResult eval = run_mneme({"eval", file("run"), "--no-store", "--quiet", "--json", "-",
                                        "--threads", "1", "--set", "eval.lanes=1"});
  expect_done(eval);
  const Json result = Json::parse(eval.out).at("memories").at(0).at("result");
  const auto targets = static_cast<std::size_t>(result.at("tokens").get<double>());
  EXPECT_EQ(answers[0].at("tokens"), targets);
  EXPECT_NEAR(-sum(answers[0]) / static_cast<double>(targets), result.at("loss").get<double>(),
              1e-9);
  const auto each = answers[0].at("logprobs").get<std::vector<double>>();
  EXPECT_EQ(each.size(), targets);
  EXPECT_NEAR(std::accumulate(each.begin(), each.end(), 0.0), sum(answers[0]), 1e-12);
}

// A choice is right where its score is the highest, a free answer where it is greedy.
TEST_F(ServeRun, ScoresQuestionsAsAnEvaluationAnswersThem) {
  const std::vector<Json> questions = {
      {{"prompt", "one two , three\nfour fiv"}, {"answer", "e"}, {"groups", {{"kind", "free"}}}},
      {{"prompt", "one two ,"}, {"answer", "rrr"}, {"groups", {{"kind", "free"}}}},
      {{"prompt", "one two"},
       {"choices", {" ,", "eee", "."}},
       {"answer", 0},
       {"groups", {{"kind", "choice"}}}},
      {{"prompt", "four"},
       {"choices", {" five", "f"}},
       {"answer", 1},
       {"groups", {{"kind", "choice"}}}}};
  std::string lines;
  std::vector<std::string> requests;
  for (const Json& one : questions) {
    lines += one.dump() + "\n";
    const auto texts = one.contains("choices") ? one.at("choices").get<std::vector<std::string>>()
                                               : std::vector{one.at("answer").get<std::string>()};
    for (const std::string& text : texts)
      requests.push_back(
          score(static_cast<int>(requests.size()), text, {{"context", one.at("prompt")}}));
  }
  const auto answers = serve(requests);
  ASSERT_EQ(answers.size(), 7U);
  const auto best = [&](std::size_t first, std::size_t count) {
    std::size_t out = 0;
    for (std::size_t i = 1; i < count; ++i)
      if (sum(answers[first + i]) > sum(answers[first + out])) out = i;
    return out;
  };
  const int free = answers[0].at("is_greedy").get<int>() + answers[1].at("is_greedy").get<int>();
  const int choice = (best(2, 3) == 0 ? 1 : 0) + (best(5, 2) == 1 ? 1 : 0);
  const double nll = -sum(answers[0]) - sum(answers[1]) - sum(answers[2]) - sum(answers[6]);
  folder_.write("q.jsonl", lines);
  folder_.write("none.toml", "[memory]\n");
  folder_.write("again.toml", "[memory]\n");
  const ProgramResult eval =
      run_mneme({"eval", file("run"), "--questions", file("q.jsonl"), "--memory", file("none.toml"),
                 "--memory", file("again.toml"), "--split", "test", "--json", file("q.json"),
                 "--quiet", "--threads", "1"});
  expect_done(eval);
  EXPECT_THAT(eval.out, HasSubstr("kind choice"));
  EXPECT_THAT(eval.err, ::testing::Not(HasSubstr("warning")));
  const Json json = Json::parse(read_file(folder_ / "q.json"));
  ASSERT_EQ(json.at("memories").size(), 2U);
  for (const Json& memory : json.at("memories")) {
    const Json& result = memory.at("result");
    const Json& groups = result.at("questions").at("groups").at("kind");
    EXPECT_EQ(groups.at("free").at("right"), free);
    EXPECT_EQ(groups.at("choice").at("right"), choice);
    EXPECT_EQ(result.at("correct"), free + choice);
    EXPECT_EQ(result.at("accuracy"), (free + choice) / 4.0);
    EXPECT_NEAR(result.at("nll").get<double>(), nll, 1e-4);
    EXPECT_NEAR(result.at("bits_per_byte").get<double>(), nll / std::log(2.0) / 7, 1e-4);
  }
}

TEST_F(ServeRun, RefusesAFileThatIsNoQuestions) {
  folder_.write("q.jsonl", "{\"prompt\": \"one\", \"answer\": \" 9\"}\n");
  const auto refused = [&](const std::string& run, const std::vector<std::string>& texts,
                           const std::string& segment = "8") {
    expect_refusal(run_mneme({"eval", file(run), "--questions", file("q.jsonl"), "--set",
                              "eval.segment=" + segment, "--quiet"}),
                   2, texts);
  };
  refused("run", {"q.jsonl:1:1:5", "a character that the training text does not have"});
  folder_.write("q.jsonl", "{\"prompt\": \"one\", \"answer\": \" two\"}\n");
  refused("run", {"q.jsonl:1: the answer is longer than a segment", "at most 3", "eval.segment"},
          "3");
  expect_done(run_mneme({"train", experiment(tiny()), "--run", file("ids"), "--quiet"}));
  std::filesystem::remove(folder_ / "q.jsonl");
  refused("run", {"--questions: " + file("q.jsonl"), "starts at the current folder"});
  refused("ids", {"--questions", "it has no text vocabulary", "data.task = \"motif\""});
}

TEST_F(ServeRun, ScoresOfABatchAreThoseOfTheirTextsAlone) {
  std::vector<std::string> texts = {document(), "one two", " ,", document() + document(), "four"};
  Json list = Json::array();
  std::vector<std::string> lines;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const std::string line = score(static_cast<int>(i), texts[i], {{"context", "one"}});
    list.push_back(Json::parse(line));
    lines.push_back(line);
  }
  const auto queued = serve(lines), listed = serve({list.dump()});
  ASSERT_EQ(queued.size(), texts.size());
  ASSERT_EQ(listed.size(), texts.size());
  for (std::size_t i = 0; i < texts.size(); ++i) {
    SCOPED_TRACE(i);
    for (const Json& of : {queued[i], listed[i]}) {
      EXPECT_EQ(of.at("id"), i);
      EXPECT_EQ(of.at("tokens"), texts[i].size());
      EXPECT_EQ(of.at("text_tokens"), texts[i].size());
    }
    // Lines that come late are in another batch, whose sums may differ in the last bits.
    EXPECT_NEAR(sum(queued[i]), sum(listed[i]), 1e-4);
    const Json alone = serve({lines[i]}).at(0);
    EXPECT_NEAR(sum(queued[i]), sum(alone), 1e-4);
    EXPECT_EQ(queued[i].at("is_greedy"), alone.at("is_greedy"));
  }
}

TEST_F(ServeRun, ASessionGivesTheSumsOfTheWholeText) {
  const Json carry = {{"carry", true}};
  const auto answers =
      serve({score(1, document().substr(0, 5), carry), score(2, document().substr(5, 13), carry),
             score(3, document().substr(18), carry), score(4, document()),
             R"({"id": "x", "request": "reset"})", score(5, document(), carry)});
  ASSERT_EQ(answers.size(), 6U);
  EXPECT_NEAR(sum(answers[0]) + sum(answers[1]) + sum(answers[2]), sum(answers[3]), 1e-4);
  EXPECT_EQ(answers[1].at("tokens"), 13);
  EXPECT_EQ(answers[4], Json({{"id", "x"}}));
  EXPECT_NEAR(sum(answers[5]), sum(answers[3]), 1e-4);
}

TEST_F(ServeRun, SeparateWindowsForgetWhatIsBeforeThem) {
  const auto answers = serve({score(1, document(), {{"windows", "separate"}}),
                              score(2, document().substr(0, 9), {{"windows", "separate"}}),
                              score(3, document().substr(0, 9))});
  EXPECT_EQ(answers[0].at("tokens"), document().size() - 1);
  EXPECT_EQ(answers[0].at("text_tokens"), document().size());
  EXPECT_NEAR(sum(answers[1]), sum(answers[2]), 1e-6);  // one window
  // The last window is full: the tokens of the one before stand in it again.
  const std::string all = document();
  const std::size_t windows = (all.size() - 1) / 8;
  double expected = 0.0;
  for (std::size_t i = 0; i < windows; ++i)
    expected += sum(serve({score(1, all.substr(8 * i, 9))}).at(0));
  const std::size_t rest = (all.size() - 1) % 8;
  if (rest > 0) {
    const auto last = serve({score(1, all.substr(all.size() - 9), {{"logprobs", true}})}).at(0);
    const auto each = last.at("logprobs").get<std::vector<double>>();
    expected += std::accumulate(each.end() - static_cast<std::ptrdiff_t>(rest), each.end(), 0.0);
  }
  EXPECT_NEAR(sum(answers[0]), expected, 1e-4);
}

TEST_F(ServeRun, GeneratesTheTextsOfGenerate) {
  const auto answers = serve(
      {R"({"id": 1, "request": "generate", "prompt": "one", "tokens": 12, "seed": 7})",
       R"({"id": 2, "request": "generate", "prompt": "one", "tokens": 12, "greedy": true})",
       R"({"id": 3, "request": "generate", "prompt": "one", "tokens": 4, "greedy": true, "carry": true})",
       R"({"id": 4, "request": "generate", "prompt": "", "tokens": 8, "greedy": true, "carry": true})",
       R"({"id": 5, "request": "generate", "prompt": "one", "tokens": 200, "greedy": true, "until": [" t", "three"]})"});
  ASSERT_EQ(answers.size(), 5U);
  const auto generated = [&](const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {"generate", file("run"), "--prompt", "one",
                                          "--tokens", "12",        "--json",   "-",
                                          "--quiet",  "--threads", "1"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const ProgramResult result = run_mneme(arguments);
    expect_done(result);
    return Json::parse(result.out).at("samples").at(0);
  };
  EXPECT_EQ(answers[0].at("ids"), generated({"--seed", "7"}).at("ids"));
  const Json greedy = generated({"--greedy"});
  EXPECT_EQ(answers[1].at("ids"), greedy.at("ids"));
  EXPECT_EQ(answers[1].at("text"), greedy.at("text"));
  EXPECT_EQ(answers[1].at("end"), "tokens");
  EXPECT_EQ(answers[2].at("text").get<std::string>() + answers[3].at("text").get<std::string>(),
            greedy.at("text"));
  EXPECT_EQ(answers[4].at("text").get<std::string>().find(" t"), std::string::npos);
}

TEST_F(ServeRun, DescribesItself) {
  const Json answer = serve({R"({"id": 1, "request": "describe"})"}).at(0);
  EXPECT_EQ(answer.at("segment"), 8);
  EXPECT_EQ(answer.at("lanes"), 3);
  EXPECT_EQ(answer.at("step"), 30);
  EXPECT_EQ(answer.at("vocabulary").at("kind"), "char");
  EXPECT_EQ(answer.at("session_tokens"), 0);
}

// A request that fails gets its error, and the others their answers.
TEST_F(ServeRun, AnswersWhatItCannotDoAndGoesOn) {
  const std::vector<std::pair<std::string, std::vector<std::string>>> cases = {
      {"{", {"no JSON"}},
      {"7", {"it is no object"}},
      {R"({"id": 1, "request": "scor", "text": "one"})",
       {"no such request", "did you mean \"score\""}},
      {R"({"id": 1, "request": "score", "txt": "one"})", {"unknown key", "did you mean \"text\""}},
      {R"({"id": 1, "request": "score"})", {"the key \"text\" is missing"}},
      {R"({"request": "score", "text": "one"})", {"the key \"id\" is missing"}},
      {R"({"id": 1, "request": "score", "text": 3})", {"a text or a list of ids", "got 3"}},
      {R"({"id": 1, "request": "score", "text": [1, 900]})", {"no such id", "got 900"}},
      {R"({"id": 1, "request": "score", "text": "XYZ"})", {"the vocabulary lacks"}},
      {R"({"id": 1, "request": "score", "text": "o"})", {"no token is scored"}},
      {R"({"id": 1, "request": "score", "text": "one", "bos": true})", {"no token that begins"}},
      {R"({"id": 1, "request": "score", "text": "one", "windows": "x"})", {"\"separate\""}},
      {R"({"id": 1, "id": 2, "request": "describe"})", {"a key is there twice", "got \"id\""}},
      {R"([{"id": 1, "request": "score", "text": "one", "text": "two"}])", {"got \"text\""}},
      {R"({"id": 1, "request": "generate", "prompt": ""})",
       {"prompt: it is empty", "got none; give a text; a model needs a first token"}},
      {R"({"id": 1, "request": "generate", "prompt": "one", "temperature": 1e-400})",
       {"key \"temperature\": tokens cannot", "got 0; \"greedy\": true takes"}},
      {R"({"id": 1, "request": "generate", "prompt": "one", "top_p": 2})", {"key \"top_p\": "}},
      {R"({"id": 1, "request": "generate", "prompt": "one", "min_p": 1})", {"key \"min_p\": "}},
      {R"({"id": 1, "request": "generate", "prompt": "one", "tokens": 1.5})", {"an integer"}}};
  std::vector<std::string> lines;
  for (const auto& [line, parts] : cases) lines.push_back(line);
  lines.push_back(score(9, "one two"));
  const auto answers = serve(lines);
  ASSERT_EQ(answers.size(), lines.size());
  for (std::size_t i = 0; i < cases.size(); ++i) {
    ASSERT_TRUE(answers[i].contains("error")) << lines[i] << answers[i];
    EXPECT_EQ(answers[i].at("error").at("kind"), "usage") << lines[i];
    for (const std::string& part : cases[i].second)
      EXPECT_THAT(answers[i].at("error").at("message").get<std::string>(), HasSubstr(part));
  }
  EXPECT_LT(sum(answers.back()), 0.0);
}

// Without a memory a prompt must fit into a segment; the session stays as it was.
TEST_F(ServeRun, ARequestThatFailsLeavesTheSession) {
  const Json carry = {{"carry", true}};
  const auto answers =
      serve({score(1, "one tw", carry),
             R"({"id": 2, "request": "generate", "prompt": "one two , three", "carry": true})",
             score(3, "o , th", carry), score(4, "one two , th")});
  EXPECT_THAT(answers[1].at("error").at("message").get<std::string>(),
              HasSubstr("longer than the model's context"));
  EXPECT_NEAR(sum(answers[0]) + sum(answers[2]), sum(answers[3]), 1e-4);
}

// A memory of the tests, from option `plugin` on, as arguments.
std::string with_memory(const TemporaryFolder& folder, const std::string& tier) {
  return "--memory " +
         shell_word(
             folder
                 .write("memory.toml", "[memory]\ncarry = \"reset\"\nplugins = [\"" MNEME_BINARY_DIR
                                       "/tests/abi_plugins\"]\n"
                                       "[[memory.tier]]\n" +
                                           tier)
                 .string());
}

// A loss that is NaN is an error of its request, in a batch and in a session.
TEST_F(ServeRun, NamesALossThatIsNotFinite) {
  const Json carry = {{"carry", true}};
  const auto answers =
      serve({score(1, "one two"), score(2, "one two , three"), score(3, "four"),
             score(4, "one", carry), score(5, " two , three", carry), score(6, " two", carry)},
            with_memory(folder_, "plugin = \"test_unfinite\"\ngives = \"read\"\nfrom = 1\n"));
  ASSERT_EQ(answers.size(), 6U);
  for (const std::size_t i : {1U, 4U}) {
    EXPECT_EQ(answers[i].at("error").at("kind"), "run");
    EXPECT_THAT(answers[i].at("error").at("message").get<std::string>(),
                HasSubstr("the loss of a token is not finite: got nan"));
  }
  for (const std::size_t i : {0U, 2U, 3U, 5U}) EXPECT_LT(sum(answers[i]), 0.0);
}

// The memory reads once: the request fails, and so does the session's text when it is fed again.
TEST_F(ServeRun, GoesOnWhereASessionIsLost) {
  const Json carry = {{"carry", true}};
  const auto answers = serve(
      {score(1, "one", carry), score(2, " two", carry), R"({"id": 3, "request": "describe"})"},
      with_memory(folder_, "plugin = \"test_keeping\"\nact = \"handle\"\nlayers = [0]\n"));
  ASSERT_EQ(answers.size(), 3U);
  EXPECT_EQ(answers[0].at("tokens"), 2);
  EXPECT_EQ(answers[1].at("id"), 2);
  EXPECT_EQ(answers[1].at("error").at("kind"), "run");
  EXPECT_THAT(
      answers[1].at("error").at("message").get<std::string>(),
      AllOf(HasSubstr("session: it could not be restored after this error: plugin test.keeping"),
            HasSubstr("the session is empty now")));
  EXPECT_EQ(answers[2].at("session_tokens"), 0);
}

// A client that goes away in mid line: the last line is answered as if it had ended.
TEST_F(ServeRun, AnswersALastLineWithoutAnEnd) {
  const ProgramResult cut = serve_text(score(1, "one two") + "\n" + score(2, "one").substr(0, 20));
  EXPECT_EQ(cut.exit_code, 0);
  EXPECT_THAT(cut.out, AllOf(HasSubstr("\"id\":1,\"logprob\""), HasSubstr("this is no JSON")));
}

TEST_F(ServeRun, NeedsItsChannelAndEndsWithItsReader) {
  expect_refusal(run_mneme({"serve", file("run")}), 2, {"--stdio"});
  std::ofstream(file("requests.jsonl")) << score(1, "one two") << '\n';
  const ProgramResult unread =
      run_shell(shell_word(MNEME_PROGRAM) + " serve " + shell_word(file("run")) +
                " --stdio --quiet < " + shell_word(file("requests.jsonl")) + " | true; echo end");
  EXPECT_THAT(unread.out, AllOf(HasSubstr("end"), ::testing::Not(HasSubstr("rror"))));
  EXPECT_TRUE(serve({}).empty());
}

}  // namespace
}  // namespace mneme::test
