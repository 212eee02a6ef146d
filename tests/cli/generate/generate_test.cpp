// mneme generate: what it refuses with which exit code, what it notes, and signals.
#include <csignal>
#include <nlohmann/json.hpp>

#include "host/base/text.hpp"
#include "tests/base/wordings.hpp"
#include "tests/cli/program.hpp"

namespace mneme::test {
namespace {

class BadGeneration : public CliTest {
 protected:
  // A run on a text of the characters a, b and newline.
  std::string run_of(const std::string& vocabulary, const std::string& name,
                     const std::string& model = "") {
    folder_.write("train.txt", text());
    folder_.write("valid.txt", text().substr(0, 100));
    std::string experiment_text =
        tiny_on("task = \"text\"\ntrain = \"train.txt\"\nvalid = \"valid.txt\"\nvocabulary = \"" +
                vocabulary + "\"\n");
    experiment_text.insert(experiment_text.find("[data]"), model);
    expect_done(run_mneme({"train", experiment(experiment_text), "--run", file(name), "--quiet"}));
    return file(name);
  }
  static ProgramResult generate(const std::string& run, const std::vector<std::string>& more) {
    std::vector<std::string> arguments{"generate", run, "--tokens", "4"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_mneme(arguments);
  }

 private:
  static std::string text() {
    std::string out;
    for (int i = 0; i < 100; ++i) out += i % 3 == 0 ? "ab ba\n" : "bb aa ab\n";
    return out;
  }
};

TEST_F(BadGeneration, Prompts) {
  const std::string run = run_of("char", "run");
  expect_done(generate(run, {"--prompt", "ab "}));
  expect_refusal(generate(run, {"--prompt", "ab\nXY"}), 2,
                 {"the vocabulary lacks characters", "\"X\" at --prompt:2:1", "\"Y\""});
  folder_.write("utf16.txt", std::string("a\0b\0", 4));
  expect_refusals(2, "generate {run} --tokens 4",
                  read_wording_file("tests/cli/messages/generate/prompts.txt"));
}

// Before the run is opened, so that no model is loaded in vain.
TEST_F(BadGeneration, FilesThatCannotBeReadAreFoundFirst) {
  expect_refusals(2, "",
                  read_wording_file(
                      "tests/cli/messages/generate/files_that_cannot_be_read_are_found_first.txt"));
}

TEST_F(BadGeneration, PromptsLongerThanTheModelAllows) {
  const std::string run = run_of("char", "run", "position = \"learned\"\n");
  expect_refusal(generate(run, {"--prompt", "ab ba ab "}), 2,
                 {"there is no memory", "at most 8 tokens", "learned positions end at 8"});
  expect_refusal(generate(run, {"--prompt", "ab", "--segment", "9"}), 2,
                 {"learned positions", "at most 8 tokens", "--segment 8"});
  // The protocol's chunks of 256 are shortened to the learned positions.
  const ProgramResult released =
      generate(run, {"--prompt", "a", "--protocol", "released", "--json", "-"});
  expect_done(released);
  EXPECT_EQ(Json::parse(released.out).at("prompt_segment"), 8);
}

TEST_F(BadGeneration, StepsThatAreRecordedGiveTheSameText) {
  const auto made = [&](const std::string& run, const std::vector<std::string>& more) {
    std::vector<std::string> arguments{"generate", run,        "--prompt", "ab ",       "--segment",
                                       "30",       "--tokens", "60",       "--samples", "2"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    ProgramResult result = run_mneme(arguments);
    expect_done(result);
    return result;
  };
  const std::string run = run_of("char", "run"),
                    alibi = run_of("char", "a", "position = \"alibi\"\n");
  const std::vector<std::string> on = {"--set", "generate.replay=on"};
  EXPECT_EQ(made(run, on).out, made(run, {}).out);
  EXPECT_THAT(made(run, on).err, testing::Not(testing::HasSubstr("generate.replay")));
  EXPECT_THAT(made(alibi, on).err,
              testing::HasSubstr("generate.replay: steps are not recorded: ALiBi's scores"));
}

// Segments of 8: of 22 tokens 16 are gone, 6 are still seen.
TEST_F(BadGeneration, TurnsBehindAForgottenBeginning) {
  const std::string run = run_of("char", "run");
  expect_done(run_mneme(
      {"generate", run, "--prompt", "ab", "--tokens", "20", "--save-state", file("state")}));
  const ProgramResult next = generate(run, {"--state", file("state"), "--prompt", "ab"});
  expect_done(next);
  EXPECT_THAT(next.err, testing::HasSubstr("no memory: the first 16 tokens of the conversation are "
                                           "forgotten"));
  expect_refusal(generate(run, {"--state", file("state"), "--prompt", "abb"}), 2,
                 {"at most 8 tokens", "got 9 with 6 of the turns before", "raise --segment to 9"});
}

TEST_F(BadGeneration, WordsThatTheVocabularyLacksAreNoted) {
  const std::string run = run_of("word", "run");
  const ProgramResult result = generate(run, {"--prompt", "ab zz ba\nyy zz"});
  expect_done(result);
  EXPECT_THAT(result.err, testing::HasSubstr("lacks 3 of the prompt's words (2 different ones), "));
  EXPECT_THAT(result.err, testing::HasSubstr("\"zz\" at --prompt:1:4, \"yy\" at --prompt:2:1\n"));
}

TEST_F(BadGeneration, TextForARunOnIds) {
  const std::string run = file("run");
  expect_done(run_mneme({"train", experiment(tiny()), "--run", run, "--quiet"}));
  expect_refusal(generate(run, {"--prompt", "ab"}), 2,
                 {"--prompt", "trained on ids", "--prompt-ids 1,2,3"});
  expect_refusal(generate(run, {"--prompt-ids", "1", "--stop", "\n"}), 2,
                 {"--stop: the run was trained on ids", "expected ids and blanks", "got \"\\n\""});
  expect_refusal(generate(run, {"--prompt-ids", "1", "--detokenize"}), 2,
                 {"--detokenize: the run has no vocabulary of words", "got ids without a text"});
  expect_done(generate(run, {"--prompt-ids", "1", "--stop", " 3 "}));
  const ProgramResult result = generate(run, {"--prompt-ids", "1,2", "--quiet"});
  expect_done(result);
  EXPECT_THAT(result.out, testing::MatchesRegex("[0-9]+ [0-9]+ [0-9]+ [0-9]+\n"));
}

TEST_F(BadGeneration, OptionsOutOfRange) {
  run_of("byte", "run");
  folder_.write("none.toml", "[memory]\n");
  expect_refusals(2, "generate {run} --tokens 4 --prompt ab",
                  read_wording_file("tests/cli/messages/generate/options_out_of_range.txt"));
}

TEST_F(BadGeneration, StatesOfAnotherModel) {
  const std::string one = run_of("byte", "one");
  run_of("char", "two");
  expect_done(generate(one, {"--prompt", "ab", "--save-state", file("state")}));
  expect_done(generate(one, {"--state", file("state")}));
  expect_refusals(2, "generate --tokens 4",
                  read_wording_file("tests/cli/messages/generate/states_of_another_model.txt"));
}

// A segment is a part of the function that a text is drawn from.
TEST_F(BadGeneration, AConversationGoesOnInItsSegments) {
  const std::string run = run_of("char", "run");
  const auto ids = [&](const std::vector<std::string>& more, std::string* notes = nullptr) {
    std::vector<std::string> arguments{"generate", run, "--threads", "1", "--json", "-"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const ProgramResult result = run_mneme(arguments);
    expect_done(result);
    if (notes != nullptr) *notes = result.err;
    return Json::parse(result.out).at("samples").at(0).at("ids").get<std::vector<int>>();
  };
  std::vector<int> made =
      ids({"--prompt", "ab", "--tokens", "7", "--segment", "3", "--save-state", file("state")});
  std::string notes;
  const std::vector<int> rest = ids({"--state", file("state"), "--tokens", "13"}, &notes);
  made.insert(made.end(), rest.begin(), rest.end());
  EXPECT_EQ(made, ids({"--prompt", "ab", "--tokens", "20", "--segment", "3"}));
  const std::string difference =
      "the conversation was generated in segments of 3 tokens and goes "
      "on in segments of ";
  EXPECT_THAT(notes, testing::Not(testing::HasSubstr(difference)));
  ids({"--state", file("state"), "--segment", "3"}, &notes);
  EXPECT_THAT(notes, testing::Not(testing::HasSubstr(difference)));
  ids({"--state", file("state"), "--segment", "5"}, &notes);
  EXPECT_THAT(notes, testing::HasSubstr(difference + "5, as given"));
  ids({"--state", file("state"), "--set", "generate.segment=4"}, &notes);
  EXPECT_THAT(notes, testing::HasSubstr(difference + "4, as given"));
}

TEST_F(BadGeneration, ASignalEndsItWithTheConversationSaved) {
  const std::string run = run_of("char", "run");
  for (const auto& [signal, name] : {std::pair{SIGINT, "SIGINT"}, std::pair{SIGTERM, "SIGTERM"}}) {
    const std::string sampling =
        " --stop 'a z' --ignore-eos --temperature 0.7 --top-k 3 --top-p 0.95 --min-p 0.001 --seed "
        "5";
    std::vector<std::string> arguments = {"generate",  run,         "--prompt",     "ab",
                                          "--tokens",  "100000000", "--json",       "-",
                                          "--segment", "3",         "--save-state", file("state")};
    for (const std::string& word : shell_words(sampling)) arguments.push_back(word);
    const ProgramResult stopped =
        run_mneme(arguments, {.signal = signal, .signal_after = "generate 1/"});
    EXPECT_EQ(stopped.signal, 0);
    EXPECT_EQ(stopped.exit_code, 128 + signal) << stopped.err;
    const Json json = Json::parse(stopped.out);
    const Json& sample = json.at("samples").at(0);
    const std::size_t made = sample.at("ids").size();
    EXPECT_EQ(sample.at("end"), "interrupted");
    EXPECT_THAT(stopped.err,
                testing::HasSubstr(std::string("mneme: stopped by ") + name + " after " +
                                   std::to_string(made) +
                                   " of 100000000 tokens; saved; continue with mneme "
                                   "generate " +
                                   run + sampling + " --segment 3 --state " + file("state") +
                                   " --tokens " + std::to_string(100000000 - made) + '\n'));
    const ProgramResult next = generate(run, {"--state", file("state"), "--json", "-"});
    expect_done(next);
    EXPECT_EQ(Json::parse(next.out).at("text_tokens"), 2 + made + 4);
  }
}

}  // namespace
}  // namespace mneme::test
