// Several memories in one process through the real binary: eval --memory A --memory B --memory A.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <tuple>

#include "host/base/file/file.hpp"
#include "host/base/text.hpp"
#include "tests/cli/program.hpp"

namespace mneme::test {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

namespace fs = std::filesystem;

// The numbers in which two evaluations of one memory must agree, bit for bit: all but times.
Json numbers_of(Json memory) {
  memory.erase("name");
  memory.erase("speed");
  memory.at("result").erase("seconds");
  memory.at("result").erase("tokens_per_second");
  return memory;
}

class SweepRun : public CliTest {
 protected:
  void SetUp() override {
    ASSERT_TRUE(fs::exists(fs::path(MNEME_PLUGIN_DIR) / "xl_cache.so"));
    a_ = write("a", memory_with("xl_cache", MNEME_PLUGIN_DIR, "rows = 16\neval_rows = 24"));
    b_ = write("b", memory_with("xl_cache", MNEME_PLUGIN_DIR, "rows = 5"));
    none_ = write("none", "[memory]\n");
    folder_.write("no_library.so", "this is no library");
    broken_ = write("broken", memory_with("no_library", folder_.path()));
    train("run", read_file(a_));
  }
  // Trains with this [memory] and makes it the run that eval() reads.
  void train(const std::string& name, const std::string& memory) {
    run_ = file(name);
    expect_done(
        run_mneme({"train", experiment(tiny(memory)), "--run", run_, "--quiet", "--threads", "1"}));
  }
  std::string write(const std::string& name, const std::string& text) const {
    return folder_.write(name + ".toml", text).string();
  }
  ProgramResult eval(const std::vector<std::string>& memories,
                     const std::vector<std::string>& more = {}) const {
    std::vector<std::string> arguments{"eval",    run_,        "--json", file("eval.json"),
                                       "--quiet", "--threads", "1"};
    for (const std::string& memory : memories) {
      arguments.insert(arguments.end(), {"--memory", memory});
    }
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_mneme(arguments);
  }
  // The memories of the last evaluation.
  Json memories() const { return Json::parse(read_file(folder_ / "eval.json")).at("memories"); }
  Json alone(const std::string& memory) const {
    expect_done(eval({memory}));
    return numbers_of(memories().at(0));
  }

  std::string run_, a_, b_, none_, broken_;
};

TEST_F(SweepRun, OneProcessGivesTheNumbersOfSeparateOnes) {
  expect_done(eval({a_, b_, a_, none_, a_}));
  const Json together = memories();
  ASSERT_EQ(together.size(), 5U);
  EXPECT_EQ(together.at(0).at("name"), "a");
  EXPECT_EQ(together.at(2).at("name"), "a#2");
  const Json a = alone(a_), b = alone(b_), none = alone(none_);
  EXPECT_EQ(numbers_of(together.at(0)), a);
  EXPECT_EQ(numbers_of(together.at(1)), b);
  EXPECT_EQ(numbers_of(together.at(2)), a);
  EXPECT_EQ(numbers_of(together.at(3)), none);
  EXPECT_EQ(numbers_of(together.at(4)), a);
  EXPECT_NE(a.at("result").at("nll"), b.at("result").at("nll"));
  EXPECT_NE(a.at("result").at("nll"), none.at("result").at("nll"));
}

// A memory with trained parameters and a segment-to-segment state, away and back.
TEST_F(SweepRun, TrainedParametersComeBackAfterAnotherMemory) {
  const std::string infini = write(
      "infini", memory_with("test_infini", MNEME_BINARY_DIR "/tests/abi_plugins", "lr = 3.0"));
  train("with_infini", read_file(infini));
  expect_done(eval({infini, none_, infini, b_, infini}));
  const Json together = memories();
  ASSERT_EQ(together.size(), 5U);
  const Json trained = alone(infini), none = alone(none_), b = alone(b_);
  EXPECT_EQ(numbers_of(together.at(0)), trained);
  EXPECT_EQ(numbers_of(together.at(1)), none);
  EXPECT_EQ(numbers_of(together.at(2)), trained);
  EXPECT_EQ(numbers_of(together.at(3)), b);
  EXPECT_EQ(numbers_of(together.at(4)), trained);
  EXPECT_NE(trained.at("result").at("nll"), none.at("result").at("nll"));
  // Its parameters are the trained ones: the same memory behind a run without them is refused.
  train("without_memory", read_file(none_));
  fs::remove(file("eval.json"));
  const ProgramResult untrained = eval({none_, infini, none_});
  expect_refusal(untrained, 2,
                 {"infini: ", "memory.0.test.infini.0.beta: ", "nothing was evaluated"});
  EXPECT_EQ(untrained.out, "");
  EXPECT_FALSE(fs::exists(file("eval.json")));
}

// Eight minutes of evaluating the first memory are too late to say that the second one's plugin is
// not there.
TEST_F(SweepRun, WhatIsWrongWithAMemoryEndsItBeforeTheFirstEvaluation) {
  const std::string absent = write("absent", memory_with("absent", MNEME_PLUGIN_DIR));
  const std::string misspelt =
      write("misspelt", memory_with("xl_cache", MNEME_PLUGIN_DIR, "row = 8"));
  const std::string large = write(
      "large", memory_with("xl_cache", MNEME_PLUGIN_DIR, "rows = 16\neval_rows = 40000000000"));
  const std::vector<std::vector<std::string>> modes = {{}, {"--no-trial"}, {"--diagnostics", "2"}};
  for (const std::vector<std::string>& mode : modes) {
    SCOPED_TRACE(mode.empty() ? "" : mode.front());
    fs::remove(file("eval.json"));
    for (const auto& [memory, exit_code, words] :
         {std::tuple(broken_, 3, "broken: "), std::tuple(absent, 3, "absent: "),
          std::tuple(misspelt, 2, "did you mean \"rows\"")}) {
      const ProgramResult result = eval({a_, memory, a_}, mode);
      expect_refusal(result, exit_code, {words, "nothing was evaluated"});
      EXPECT_EQ(result.out, "");
      EXPECT_FALSE(fs::exists(file("eval.json")));
    }
  }
  const ProgramResult both = eval({a_, broken_, absent});
  expect_refusal(
      both, 3, {"broken: ", "'no_library' (", "): is no shared library", "absent: ", "not found"});
  EXPECT_EQ(eval({a_, large}).out, "");
  // A mistake of each kind, in one message: a file that is missing, a key, a plugin, an option.
  const std::string key = write("key", "[memory]\nplugns = 1\n");
  const std::string nowhere = file("nowhere.toml");
  for (const std::vector<std::string>& mode : modes) {
    const ProgramResult all = eval({nowhere, misspelt, key, a_, absent}, mode);
    expect_refusal(all, 2,
                   {"nowhere: ", nowhere, "misspelt: ", "did you mean \"rows\"", "key: ",
                    "did you mean \"plugins\"", "absent: ", "not found", "nothing was evaluated"});
    EXPECT_THAT(all.err, Not(HasSubstr("\na: ")));
  }
  // What all fail with is told once.
  const ProgramResult same = eval({a_, b_}, {"--set", "eval.lans=1"});
  expect_refusal(same, 2, {"did you mean \"eval.lanes\""});
  EXPECT_EQ(same.err.find("did you mean"), same.err.rfind("did you mean")) << same.err;
  const ProgramResult sizes = eval({a_, none_}, {"--extrapolate", "2"});
  expect_refusal(sizes, 2, {"none: ", "no tier has an integer option", "nothing was evaluated"});
  EXPECT_EQ(sizes.out, "");
  expect_refusal(eval({broken_}), 3, {"'no_library' (", "): is no shared library"});
}

TEST_F(SweepRun, ExtrapolatesInOneCommand) {
  const ProgramResult result = eval({}, {"--extrapolate", "3", "--segment", "4"});
  expect_done(result);
  EXPECT_THAT(result.out, HasSubstr("as trained, rows = 12"));
  EXPECT_THAT(result.out, HasSubstr("4 + 12"));
  const Json all = memories();
  ASSERT_EQ(all.size(), 3U);
  for (int m = 1; m <= 3; ++m) {
    const Json& one = all.at(static_cast<std::size_t>(m - 1));
    EXPECT_EQ(one.at("result").at("protocol").at("segment"), 4);
    EXPECT_EQ(one.at("result").at("protocol").at("context_rows"), 4 * m);
    const std::string same =
        write("same", memory_with("xl_cache", MNEME_PLUGIN_DIR,
                                  "rows = 16\neval_rows = " + std::to_string(4 * m)));
    expect_done(eval({same}, {"--set", "eval.segment=4"}));
    EXPECT_EQ(numbers_of(memories().at(0)).at("result"), numbers_of(one).at("result"));
  }
  const ProgramResult unknown = eval({}, {"--extrapolate", "2", "--option", "row"});
  EXPECT_EQ(unknown.exit_code, 2);
  EXPECT_THAT(unknown.err, HasSubstr("did you mean \"rows\""));
  expect_refusal(eval({}, {"--segment", "4"}), 2, {"goes with --extrapolate"});
  expect_refusal(eval({}, {"--option", "rows"}), 2, {"goes with --extrapolate"});
}

// A paragraph, which is broken to the terminal's width.
std::string on_one_line(std::string text) {
  std::ranges::replace(text, '\n', ' ');
  return text;
}

TEST_F(SweepRun, PrintsTheBreakdown) {
  const ProgramResult plain = eval({});
  expect_done(plain);
  EXPECT_THAT(on_one_line(plain.out), HasSubstr("each of the 4 lanes starts with"));
  EXPECT_THAT(plain.out, Not(HasSubstr("place in the segment")));
  const ProgramResult result = eval({a_, b_}, {"--breakdown"});
  expect_done(result);
  EXPECT_THAT(result.out, HasSubstr("loss, nats a token, by place in the segment\n"));
  EXPECT_THAT(result.out, ContainsRegex("\n +tokens +a +b\n"));
  const Json one = memories().at(0);
  const Json& position = one.at("breakdown").at("position");
  double nll = 0.0;
  std::int64_t tokens = 0;
  for (std::size_t i = 0; i < position.at("nll").size(); ++i) {
    nll += position.at("nll").at(i).get<double>();
    tokens += position.at("tokens").at(i).get<std::int64_t>();
  }
  EXPECT_EQ(tokens, one.at("result").at("tokens").get<std::int64_t>());
  EXPECT_NEAR(nll, one.at("result").at("nll").get<double>(), 1e-6);
  expect_refusal(eval({}, {"--breakdown", "--tokens", "x", "--dump", "y"}), 2,
                 {"score: unknown argument \"--breakdown\""});
}

// A text: normalisations, <eos>, <unk>, distances and frequencies, all from the JSON's sums.
TEST_F(SweepRun, StatesAWordModelFully) {
  std::string train, valid;
  for (int line = 0; line < 40; ++line) {
    train += "one two three four five six seven eight nine ten\n";
    valid += "two one strange four ten\n";
  }
  const std::string text = tiny() + "\n";
  std::string words = text.substr(0, text.find("[data]")) +
                      "[data]\ntask = \"text\"\nvocabulary = \"word\"\ntrain = \"" +
                      folder_.write("train.txt", train).string() + "\"\nvalid = \"" +
                      folder_.write("valid.txt", valid).string() + "\"\n" +
                      text.substr(text.find("[train]"));
  words.replace(words.find("steps = 4"), 9, "steps = 0");
  expect_done(
      run_mneme({"train", experiment(words), "--run", file("words"), "--quiet", "--threads", "1"}));
  const ProgramResult result =
      run_mneme({"eval", file("words"), "--json", file("eval.json"), "--quiet", "--breakdown"});
  expect_done(result);
  EXPECT_THAT(on_one_line(result.out), HasSubstr("a token is a word or the <eos>"));
  EXPECT_THAT(result.out, HasSubstr("times in the training data"));
  const Json one = memories().at(0);
  const Json& numbers = one.at("result");
  const Json& protocol = numbers.at("protocol");
  EXPECT_EQ(protocol.at("tokens"), 240);
  EXPECT_EQ(protocol.at("words"), 200);
  EXPECT_EQ(protocol.at("unknown"), 40);
  EXPECT_EQ(protocol.at("dropped"), 0);
  EXPECT_EQ(numbers.at("tokens"), 236);  // four lanes, each without its first token
  EXPECT_NEAR(std::log(numbers.at("perplexity_per_word").get<double>()),
              numbers.at("nll").get<double>() / 236 * 240 / 200, 1e-9);
  const Json& frequency = one.at("breakdown").at("frequency");
  EXPECT_EQ(frequency.at("name").at(0), "<unk>");
  EXPECT_EQ(frequency.at("tokens").at(0), numbers.at("unknown").at("tokens"));
  std::int64_t far = 0;
  for (const Json& tokens : one.at("breakdown").at("distance").at("tokens")) {
    far += tokens.get<std::int64_t>();
  }
  EXPECT_EQ(far, 236);
}

}  // namespace
}  // namespace mneme::test
