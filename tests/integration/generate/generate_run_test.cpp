// Text from a trained run, through the real binary.
#include <nlohmann/json.hpp>

#include "host/base/file/file.hpp"
#include "host/base/text.hpp"
#include "tests/cli/program.hpp"

namespace mneme::test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class GenerateRun : public CliTest {
 protected:
  void SetUp() override {
    std::string text;
    for (int i = 0; i < 200; ++i) text += i % 2 == 0 ? "one two , three\n" : "four @-@ five .\n";
    folder_.write("train.txt", text);
    folder_.write("valid.txt", text.substr(0, 200));
  }
  std::string train(const std::string& memory, const std::string& vocabulary,
                    const std::string& model = "") {
    expect_done(run_mneme(
        {"train",
         experiment(memory +
                    "[model]\nlayers = 2\nheads = 2\nwidth = 16\nff = 32\ndropout = 0.0\n" + model +
                    "[data]\n"
                    "task = \"text\"\ntrain = \"train.txt\"\nvalid = \"valid.txt\"\nvocabulary = "
                    "\"" +
                    vocabulary + "\"\n[train]\nsegment = 8\nlanes = 4\nsteps = 30\nlr = 5e-3\n"),
         "--run", file("run"), "--quiet", "--threads", "1"}));
    return file("run");
  }
  // Generates with these arguments; the JSON of it.
  Json generate(const std::vector<std::string>& more) {
    std::vector<std::string> arguments{"generate",  file("run"), "--json", file("out.json"),
                                       "--threads", "1",         "--quiet"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const ProgramResult result = run_mneme(arguments);
    expect_done(result);
    out_ = result.out;
    return Json::parse(read_file(folder_ / "out.json"));
  }
  static std::vector<int> ids(const Json& json, std::size_t sample = 0) {
    return json.at("samples").at(sample).at("ids");
  }
  static std::vector<int> joined(std::vector<int> a, const std::vector<int>& b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
  }

  std::string out_;
};

TEST_F(GenerateRun, SameSeedGivesTheSameText) {
  train("", "char");
  const Json one = generate({"--prompt", "one", "--tokens", "30", "--seed", "5"});
  const std::string first_out = out_;
  EXPECT_EQ(ids(one), ids(generate({"--prompt", "one", "--tokens", "30", "--seed", "5"})));
  EXPECT_NE(ids(one), ids(generate({"--prompt", "one", "--tokens", "30", "--seed", "6"})));
  EXPECT_EQ(ids(one).size(), 30U);
  const std::string text = one.at("samples")[0].at("text");
  EXPECT_EQ(first_out, text.ends_with('\n') ? text : text + '\n');
  const Json greedy = generate({"--prompt-ids", "1,2", "--tokens", "9", "--greedy"});
  EXPECT_EQ(ids(greedy),
            ids(generate({"--prompt-ids", "1,2", "--tokens", "9", "--greedy", "--seed", "9"})));
}

TEST_F(GenerateRun, SeveralSamplesShareThePromptAndTheFirstIsTheSingleOne) {
  train("", "word");
  const Json single = generate({"--prompt", "one two", "--tokens", "12"});
  const Json four = generate({"--prompt", "one two", "--tokens", "12", "--samples", "4"});
  EXPECT_THAT(out_, HasSubstr("--- sample 0\n"));
  EXPECT_THAT(out_, HasSubstr("--- sample 3\n"));
  ASSERT_EQ(four.at("samples").size(), 4U);
  EXPECT_EQ(ids(four), ids(single));
  EXPECT_NE(ids(four, 0), ids(four, 1));
}

TEST_F(GenerateRun, TokenizeTakesThePromptApart) {
  train("", "word");
  const Json written = generate({"--prompt", "one two , three", "--tokens", "5"});
  const Json typed = generate({"--prompt", "one two, three", "--tokenize", "--tokens", "5"});
  EXPECT_EQ(typed.at("prompt"), written.at("prompt"));
  EXPECT_EQ(ids(typed), ids(written));
  const auto typed_at_keyboard = [&](const std::vector<std::string>& more) {
    std::vector<std::string> arguments{"generate", file("run"), "--prompt",  "one two, six-five.",
                                       "--tokens", "1",         "--threads", "1"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_mneme(arguments);
  };
  const ProgramResult plain = typed_at_keyboard({});
  EXPECT_THAT(plain.err, HasSubstr("the vocabulary lacks 2 of the prompt's words"));
  EXPECT_THAT(plain.err, HasSubstr("with --tokenize the prompt is \"one two , six @-@ five .\", 1 "
                                   "of its words are unknown"));
  const ProgramResult taken_apart = typed_at_keyboard({"--tokenize"});
  EXPECT_THAT(taken_apart.err, HasSubstr("lacks 1 of the prompt's words, <unk> stands for them: "
                                         "\"six\" at --prompt, tokenized:1:11"));
  EXPECT_THAT(taken_apart.err, Not(HasSubstr("with --tokenize")));
}

TEST_F(GenerateRun, TokenizeIsForWords) {
  train("", "char");
  expect_refusal(run_mneme({"generate", file("run"), "--prompt", "one", "--tokenize"}), 2,
                 {"--tokenize: the run has no vocabulary of words", "got the vocabulary \"char\""});
  expect_refusal(run_mneme({"generate", file("run"), "--prompt-ids", "1", "--tokenize"}), 2,
                 {"--tokenize takes a text apart, and --prompt-ids is none"});
}

TEST_F(GenerateRun, StopsAtAText) {
  train("", "char");
  const Json whole = generate({"--prompt", "one", "--tokens", "60"});
  const std::string text = whole.at("samples")[0].at("text");
  const std::string stop = text.substr(20, 2);
  const Json stopped = generate({"--prompt", "one", "--tokens", "60", "--stop", stop});
  EXPECT_EQ(stopped.at("samples")[0].at("text"), text.substr(0, text.find(stop)));
  EXPECT_EQ(stopped.at("samples")[0].at("end"), "stop");
  EXPECT_EQ(whole.at("samples")[0].at("end"), "tokens");
}

// Every memory of the paper's comparison, continued in processes of their own.
class GenerateMemory : public GenerateRun {
 protected:
  void expect_continues(const std::string& memory, const std::string& model = "") {
    train(memory, "char", model);
    const std::string state = file("talk");
    const auto tokens = [](const std::string& n) {
      return std::vector{std::string("--tokens"), n};
    };
    const auto with = [&](std::vector<std::string> a, const std::vector<std::string>& b) {
      a.insert(a.end(), b.begin(), b.end());
      return a;
    };
    // Turns: a prompt, 5 tokens, a prompt, 6 and 7 tokens.
    const Json first =
        generate(with({"--prompt", "one two", "--save-state", state, "--seed", "3"}, tokens("5")));
    const Json second = generate(
        with({"--state", state, "--prompt", "four", "--save-state", file("two")}, tokens("6")));
    const Json third = generate(with({"--state", file("two")}, tokens("7")));
    // The same without a stop after the second turn.
    const Json whole = generate(with({"--state", state, "--prompt", "four"}, tokens("13")));
    EXPECT_EQ(joined(ids(second), ids(third)), ids(whole));
    EXPECT_EQ(third.at("text_tokens"), 7 + 5 + 4 + 6 + 7);
    EXPECT_EQ(third.at("sampling").at("seed"), 3);
    // The first process drew what a longer one draws.
    const Json longer = generate(with({"--prompt", "one two", "--seed", "3"}, tokens("30")));
    std::vector<int> beginning = ids(longer);
    beginning.resize(5);
    EXPECT_EQ(beginning, ids(first));
  }
};

#ifdef MNEME_HAS_XL_CACHE
TEST_F(GenerateMemory, XlCacheContinuesAConversation) {
  expect_continues(memory_with("xl_cache", MNEME_PLUGIN_DIR, "rows = 12"));
}

TEST_F(GenerateMemory, PaperProtocol) {
  train(memory_with("xl_cache", MNEME_PLUGIN_DIR, "rows = 12"), "word");
  const Json json = generate({"--prompt", "one two ,\nthree", "--protocol", "released"});
  EXPECT_EQ(ids(json).size(), 256U);
  EXPECT_EQ(json.at("prompt").at("ids").size(), 4U);  // without <eos>
  EXPECT_EQ(json.at("segment"), 1);
  EXPECT_EQ(json.at("prompt_segment"), 256);
  EXPECT_EQ(json.at("sampling").at("top_p"), 0.95);
  EXPECT_EQ(json.at("sampling").at("seed"), 42);
  // 2 layers of 259 committed rows: fewer than the protocol's 512, more than the run's own 12.
  EXPECT_EQ(json.at("state_bytes"), 2 * 259 * 16 * 4);
  EXPECT_GT(json.at("speed").at("bytes_per_step"), json.at("state_bytes"));
  EXPECT_GT(json.at("speed").at("bandwidth_share").get<double>(), 0.0);
  EXPECT_THAT(json.at("samples")[0].at("text"), testing::Not(HasSubstr("@-@")));
  const Json own = generate({"--prompt", "one", "--protocol", "released", "--tokens", "3",
                             "--segment", "4", "--seed", "1"});
  EXPECT_EQ(own.at("segment"), 4);
  EXPECT_EQ(ids(own).size(), 3U);
}

// The protocol's 512 take the place of the run's own rows, not of those given beside it.
TEST_F(GenerateMemory, PaperProtocolKeepsRowsThatAreGiven) {
  const std::string cache = memory_with("xl_cache", MNEME_PLUGIN_DIR, "rows = 12\neval_rows = 6");
  train(cache, "word");
  const auto rows = [&](const std::vector<std::string>& more) {
    std::vector<std::string> all{"--prompt", "one", "--protocol", "released", "--tokens", "40"};
    all.insert(all.end(), more.begin(), more.end());
    return generate(all).at("state_bytes").get<int>() / (2 * 16 * 4);
  };
  EXPECT_EQ(rows({}), 40);
  EXPECT_EQ(rows({"--set", "memory.tier.0.eval_rows=5"}), 5);
  EXPECT_EQ(rows({"--memory", folder_.write("same.toml", cache).string()}), 6);
  const std::string plain = memory_with("xl_cache", MNEME_PLUGIN_DIR, "rows = 12");
  const std::string file = folder_.write("plain.toml", plain).string();
  EXPECT_EQ(rows({"--memory", file}), 40);
  EXPECT_EQ(rows({"--memory", file, "--set", "memory.tier.0.rows=7"}), 7);
}

TEST_F(GenerateMemory, AConversationIsOfOneMemory) {
  train(memory_with("xl_cache", MNEME_PLUGIN_DIR, "rows = 12"), "char");
  generate({"--prompt", "one", "--tokens", "9", "--save-state", file("talk")});
  const auto refuses = [&](const std::string& key, const std::vector<std::string>& texts) {
    expect_refusal(run_mneme({"generate", file("run"), "--state", file("talk"), "--threads", "1",
                              "--set", "memory.tier.0." + key}),
                   2, texts);
  };
  refuses("eval_rows=5", {"another model: memory", "{ rows = 5 }"});
  refuses("layers=[0]", {"another model: memory", "layers = [0]", "layers = all"});
  refuses("feed=segment", {"another model: memory", "feed = segment", "feed = released"});
}
#endif

#ifdef MNEME_HAS_COMPRESSIVE
TEST_F(GenerateMemory, CompressiveContinuesAConversation) {
  expect_continues(
      memory_with("compressive", MNEME_PLUGIN_DIR, "rows = 8\ncompressed_rows = 4\nrate = 2"));
}
#endif

#ifdef MNEME_HAS_LAMEMO
TEST_F(GenerateMemory, LaMemoContinuesAConversation) {
  expect_continues(memory_with("lamemo", MNEME_PLUGIN_DIR, "rows = 12"),
                   "position = \"disentangled\"\n");
}
#endif

#ifdef MNEME_HAS_CONTINUOUS_LTM
TEST_F(GenerateMemory, ContinuousMemoryContinuesAConversation) {
  expect_continues(memory_with("continuous_ltm", MNEME_PLUGIN_DIR, "basis = 8"));
}

// The memory logs its spectral radius, and the command names the words that the vocabulary lacks.
TEST_F(GenerateMemory, QuietIsWithoutMessages) {
  train(memory_with("continuous_ltm", MNEME_PLUGIN_DIR, "basis = 8"), "word");
  std::vector<std::string> arguments{"generate", file("run"), "--prompt",  "one zebra",
                                     "--tokens", "9",         "--threads", "1"};
  EXPECT_THAT(run_mneme(arguments).err, testing::AllOf(HasSubstr("info"), HasSubstr("zebra")));
  arguments.emplace_back("--quiet");
  const ProgramResult result = run_mneme(arguments);
  expect_done(result);
  EXPECT_EQ(result.err, "");
}

TEST_F(GenerateMemory, PaperProtocolNeedsRows) {
  train(memory_with("continuous_ltm", MNEME_PLUGIN_DIR, "basis = 8"), "word");
  expect_refusal(
      run_mneme({"generate", file("run"), "--prompt", "one", "--protocol", "released"}), 2,
      {"--protocol released: no tier has an integer option \"rows\"",
       "leave it out and give its other values: --segment 1 --top-p 0.95 --seed 42 --detokenize"});
}
#endif

TEST_F(GenerateMemory, NoMemoryStartsAfreshAfterEverySegment) {
  train("", "char");
  const ProgramResult result =
      run_mneme({"generate", file("run"), "--prompt", "one", "--tokens", "6", "--threads", "1"});
  expect_done(result);
  EXPECT_THAT(result.err, HasSubstr("no memory: after every 8 tokens"));
}

}  // namespace
}  // namespace mneme::test
