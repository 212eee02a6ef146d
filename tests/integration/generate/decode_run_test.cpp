// Training on a task with an answer and decoding it, through the real binary.
#include <nlohmann/json.hpp>

#include "host/base/file/file.hpp"
#include "host/base/text.hpp"
#include "tests/cli/program.hpp"

namespace mneme::test {
namespace {

using ::testing::HasSubstr;

class DecodeRun : public CliTest {
 protected:
  // 4 of 4 symbols, sorted; learned in a few seconds.
  static std::string digits(const std::string& duration) {
    return "[model]\nlayers = 2\nheads = 2\nhead_width = 16\nwidth = 32\nff = 32\ndropout = 0.0\n"
           "init = \"article\"\nuntie_position_bias = true\ntie_embedding = false\n"
           "embedding_scale = \"none\"\n[data]\ntask = \"digit_sorting\"\nlength = 4\n"
           "alphabet = 4\ntrain_sequences = 1600\nvalid_sequences = 50\ntest_sequences = 230\n"
           "[eval]\nlanes = 100\n[train]\nlanes = 64\nlr = 4e-3\nlr_min = 1e-4\nschedule = "
           "\"linear\"\nclip = 0.0\n"
           "segment = 7\n" +
           duration;
  }
  std::string train(const std::string& text) {
    expect_done(
        run_mneme({"train", experiment(text), "--run", file("run"), "--quiet", "--threads", "1"}));
    return file("run");
  }
  std::string none() { return folder_.write("none.toml", "[memory]\n").string(); }
};

#ifdef MNEME_HAS_XL_CACHE
TEST_F(DecodeRun, LearnsAndDecodesAlikeWithAndWithoutMemory) {
  const std::string run = train(digits("epochs = 24\n"));
  const std::string cache =
      folder_.write("cache.toml", memory_with("xl_cache", MNEME_PLUGIN_DIR, "rows = 7")).string();
  const ProgramResult result =
      run_mneme({"decode", run, "--split", "test", "--memory", none(), "--memory", cache, "--json",
                 file("decode.json"), "--quiet", "--threads", "1"},
                {.environment = {"COLUMNS=120"}});
  expect_done(result);
  EXPECT_THAT(result.out, HasSubstr("times as fast"));
  const Json json = Json::parse(read_file(folder_ / "decode.json"));
  const Json& memories = json.at("memories");
  ASSERT_EQ(memories.size(), 2U);
  EXPECT_EQ(memories[0].at("predictions"), memories[1].at("predictions"));
  for (const Json& memory : memories) {
    EXPECT_EQ(memory.at("predictions_that_differ"), 0);
    // 230 sequences in batches of 100: the last one is ragged.
    EXPECT_EQ(memory.at("result").at("sequences"), 230);
    EXPECT_EQ(memory.at("predictions").size(), 920U);
    // Chance: 1 of 35 multisets at best; the sequences tested are not those trained on.
    EXPECT_GT(memory.at("result").at("sequence_accuracy"), 0.9);
    EXPECT_GT(memory.at("times_as_fast"), 0.0);
    EXPECT_GT(memory.at("speed").at("mfu").get<double>(), 0.0);
  }
  EXPECT_EQ(memories[0].at("result").at("fed_tokens"), 230 * (4 + 5 + 6 + 7));
  EXPECT_EQ(memories[1].at("result").at("fed_tokens"), 230 * 7);
}
#endif

TEST_F(DecodeRun, DecodesAsTrainedAndTheFirstBatchesOnly) {
  const std::string run = train(digits("steps = 2\n"));
  const ProgramResult result =
      run_mneme({"decode", run, "--set", "eval.steps=2", "--set", "eval.lanes=20", "--quiet",
                 "--threads", "1", "--json", file("decode.json")});
  expect_done(result);
  const Json json = Json::parse(read_file(folder_ / "decode.json"));
  const Json memory = json.at("memories").at(0);
  EXPECT_EQ(memory.at("name"), "as trained");
  EXPECT_EQ(memory.at("result").at("sequences"), 40);
  const auto all = json.at("split_sequences").get<std::int64_t>();
  EXPECT_GT(all, 40);
  EXPECT_THAT(result.out, HasSubstr(str("40 of ", all)));
}

#ifdef MNEME_HAS_XL_CACHE
// 34 inputs in segments of 14, 16 and 4 tokens: a step is one batch of answers.
TEST_F(DecodeRun, TrainsOnTheSegmentThatHoldsTheAnswer) {
  const std::string text =
      "[model]\nlayers = 1\nheads = 2\nhead_width = 8\nwidth = 16\nff = 16\n[data]\n"
      "task = \"sorting\"\nlength = 30\nalphabet = 4\ntrain_sequences = 22\n"
      "valid_sequences = 10\ntest_sequences = 10\n[train]\nlanes = 8\nsegment = 16\n"
      "epochs = 2\n" +
      memory_with("xl_cache", MNEME_PLUGIN_DIR, "rows = 40");
  const ProgramResult result =
      run_mneme({"train", experiment(text), "--run", file("run"), "--quiet", "--threads", "1",
                 "--json", file("train.json")});
  expect_done(result);
  const Json trained = Json::parse(read_file(folder_ / "train.json"));
  EXPECT_EQ(trained.at("steps"), 2 * 3);
  EXPECT_EQ(trained.at("evaluations").at(0).at("result").at("tokens"), 10 * 4);
  expect_done(
      run_mneme({"decode", file("run"), "--quiet", "--threads", "1", "--json", file("d.json")}));
  const Json decoded = Json::parse(read_file(folder_ / "d.json")).at("memories").at(0);
  EXPECT_EQ(decoded.at("result").at("fed_tokens"), 10 * 34);
}
#endif

TEST_F(DecodeRun, RefusesTasksWithoutAnAnswer) {
  expect_done(
      run_mneme({"train", experiment(tiny()), "--run", file("run"), "--quiet", "--threads", "1"}));
  expect_refusal(
      run_mneme({"decode", file("run")}), 2,
      {"decode", "no answer", "\"sorting\" | \"digit_sorting\"", "data.task = \"motif\""});
}

TEST_F(DecodeRun, RefusesDecodeWithScoring) {
  expect_refusal(run_mneme({"eval", file("run"), "--decode", "--tokens", "a.safetensors", "--dump",
                            "b.safetensors"}),
                 2, {"--decode", "--tokens"});
}

}  // namespace
}  // namespace mneme::test
