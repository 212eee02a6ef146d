// The keys of [model] that describe a decoder: what a backbone's name stands for, what is written,
// and what does not go together.
#include <gmock/gmock.h>

#include <string>

#include "host/config/experiment.hpp"
#include "tests/base/wordings.hpp"
#include "tests/config/experiment_texts.hpp"

namespace mneme::config {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

ModelConfig model_of(const std::string& keys) { return parse("[model]\n" + keys + kMotif).model; }

TEST(ModelKeys, ABackboneStandsForDefaults) {
  EXPECT_EQ(model_of("backbone = \"xl\"\n"), ModelConfig{});
  const ModelConfig gpt2 = model_of("backbone = \"gpt2\"\nwidth = 96\n");
  EXPECT_EQ(gpt2.position, PositionScheme::kLearned);
  EXPECT_EQ(gpt2.norm, Norm::kPre);
  EXPECT_EQ(gpt2.norm_kind, NormKind::kLayer);
  EXPECT_EQ(gpt2.feed_forward, FeedForward::kGeluTanh);
  EXPECT_EQ(gpt2.ff, 384);
  EXPECT_TRUE(gpt2.qkv_bias && gpt2.output_bias && gpt2.ff_bias && gpt2.final_norm);
  EXPECT_TRUE(gpt2.tie_embedding);
  EXPECT_FALSE(gpt2.softmax_bias);
  EXPECT_EQ(gpt2.embedding_scale, EmbeddingScale::kNone);
  EXPECT_EQ(gpt2.init, Init::kGpt2);
  EXPECT_EQ(gpt2.dropout, 0.1);
  EXPECT_EQ(gpt2.attention_dropout, 0.1);
  const ModelConfig decoder = model_of("backbone = \"decoder\"\nwidth = 96\n");
  EXPECT_EQ(decoder.position, PositionScheme::kRotary);
  EXPECT_EQ(decoder.norm_kind, NormKind::kRms);
  EXPECT_EQ(decoder.feed_forward, FeedForward::kSwiglu);
  EXPECT_EQ(decoder.ff, 256);
  EXPECT_FALSE(decoder.qkv_bias || decoder.output_bias || decoder.ff_bias || decoder.softmax_bias);
  EXPECT_TRUE(decoder.final_norm);
  EXPECT_EQ(decoder.dropout, 0.0);
  EXPECT_EQ(decoder.key_heads(), decoder.heads);
  // 8/3 of 100 is 266.7.
  EXPECT_EQ(model_of("backbone = \"decoder\"\nwidth = 100\nheads = 5\n").ff, 288);
}

TEST(ModelKeys, EveryOneIsReadAndWritten) {
  const ModelConfig m = model_of(
      "backbone = \"decoder\"\nwindow = 4096\nheads = 6\nkv_heads = 2\nwidth = 48\nhead_width = "
      "10\n"
      "feed_forward = \"gelu\"\nposition = \"rotary\"\nmemory_position = \"fixed\"\n"
      "norm_kind = \"layer\"\nnorm_epsilon = 1e-6\nfinal_norm = false\nqk_norm = true\n"
      "scale_by_layer = true\nqkv_bias = true\noutput_bias = true\nff_bias = true\n"
      "softmax_bias = true\ninit = \"article\"\nattention_kernel = \"flash\"\n"
      "row_kernels = \"operations\"\n[model.rotary]\nbase = 500.0\n"
      "scaling = \"yarn\"\nfactor = 4.0\noriginal_positions = 64\nlow_factor = 2.0\n"
      "high_factor = 8.0\nbeta_fast = 16.0\nbeta_slow = 2.0\nattention_factor = 1.5\n"
      "truncate = false\nlocal_base = 100.0\n");
  EXPECT_EQ(m.window, std::vector<std::int64_t>{4096});
  EXPECT_EQ(m.key_heads(), 2);
  EXPECT_EQ(m.head_width, 10);
  EXPECT_EQ(m.feed_forward, FeedForward::kGelu);
  EXPECT_EQ(m.ff, 192);
  EXPECT_EQ(m.memory_position, MemoryPosition::kFixed);
  EXPECT_EQ(m.norm_kind, NormKind::kLayer);
  EXPECT_EQ(m.norm_epsilon, 1e-6);
  EXPECT_FALSE(m.final_norm);
  EXPECT_TRUE(m.qk_norm && m.scale_by_layer && m.qkv_bias && m.output_bias && m.ff_bias);
  EXPECT_TRUE(m.softmax_bias);
  EXPECT_EQ(m.init, Init::kArticle);
  EXPECT_EQ(m.attention_kernel, AttentionKernel::kFlash);
  EXPECT_EQ(m.row_kernels, RowKernels::kOperations);
  const RotaryConfig rotary{.base = 500.0,
                            .scaling = RotaryScaling::kYarn,
                            .factor = 4.0,
                            .original_positions = 64,
                            .low_factor = 2.0,
                            .high_factor = 8.0,
                            .beta_fast = 16.0,
                            .beta_slow = 2.0,
                            .attention_factor = 1.5,
                            .truncate = false,
                            .local_base = 100.0};
  EXPECT_EQ(m.rotary, rotary);
  Experiment experiment = parse(kMotif);
  experiment.model = m;
  EXPECT_EQ(parse(to_toml(experiment)).model, m);
  experiment.model = model_of(
      "backbone = \"decoder\"\nwidth = 100\nheads = 5\nnorm = \"sandwich\"\nfeed_forward = "
      "\"geglu\"\nnorm_unit_offset = true\nscore_width = 12\nattention_softcap = 50.0\n"
      "logit_softcap = 30.0\nvalue_residual = true\n");
  EXPECT_EQ(experiment.model.norm, Norm::kSandwich);
  EXPECT_EQ(experiment.model.feed_forward, FeedForward::kGeglu);
  EXPECT_EQ(experiment.model.ff, 288);
  EXPECT_TRUE(experiment.model.norm_unit_offset);
  EXPECT_EQ(experiment.model.score_width, 12);
  EXPECT_EQ(experiment.model.attention_softcap, 50.0);
  EXPECT_EQ(experiment.model.logit_softcap, 30.0);
  EXPECT_TRUE(experiment.model.value_residual);
  EXPECT_EQ(parse(to_toml(experiment)).model, experiment.model);
  EXPECT_EQ(model_of("backbone = \"decoder\"\nhead_width = 24\nscore_width = 24\n").score_width, 0);
  experiment.model = model_of("backbone = \"gpt2\"\npositions = 40\n");
  EXPECT_EQ(experiment.model.positions, 40);
  EXPECT_EQ(parse(to_toml(experiment)).model, experiment.model);
}

// Checkpoints hold hashes of the written text: one of a model that has none of the parts must stay
// what earlier programs wrote.
TEST(ModelKeys, AreNotWrittenForTransformerXl) {
  const std::string text = to_toml(parse(kMotif));
  for (const char* key : {"kv_heads", "norm_kind", "feed_forward", "rotary", "softmax_bias"}) {
    EXPECT_THAT(text, Not(HasSubstr(key)));
  }
  const std::string decoder =
      to_toml(parse(std::string("[model]\nbackbone = \"decoder\"\n") + kMotif));
  for (const char* key :
       {"window", "norm_unit_offset", "score_width", "softcap", "local_base", "value_residual"}) {
    EXPECT_THAT(decoder, Not(HasSubstr(key)));
  }
  EXPECT_THAT(decoder, Not(HasSubstr("attention_kernel")));
  EXPECT_THAT(decoder, Not(HasSubstr("row_kernels")));
  EXPECT_THAT(decoder, Not(HasSubstr("truncate")));
  EXPECT_THAT(to_toml(parse(std::string("[model]\nfinal_norm = true\n") + kMotif)),
              HasSubstr("norm_kind = \"layer\""));
}

TEST(ModelKeys, WindowsAreRepeatedOverTheLayers) {
  using Windows = std::vector<std::int64_t>;
  const auto windows = [](const std::string& value) {
    const ModelConfig m = model_of("layers = 5\nwindow = " + value + "\n");
    Experiment experiment = parse(kMotif);
    experiment.model = m;
    EXPECT_EQ(parse(to_toml(experiment)).model, m);
    Windows all;
    for (std::int64_t i = 0; i < 5; ++i) all.push_back(m.window_of(i));
    return std::pair(m.window, all);
  };
  EXPECT_EQ(windows("0"), std::pair(Windows{}, Windows(5)));
  EXPECT_EQ(windows("[0, 0]"), std::pair(Windows{}, Windows(5)));
  EXPECT_EQ(windows("[8, 8]"), std::pair(Windows{8}, Windows(5, 8)));
  EXPECT_EQ(windows("[8, 0]"), std::pair(Windows({8, 0}), Windows({8, 0, 8, 0, 8})));
  EXPECT_EQ(windows("[8, 0, 8]"), std::pair(Windows({8, 0, 8}), Windows({8, 0, 8, 8, 0})));
  EXPECT_EQ(windows("[8, 0, 8, 0]"), std::pair(Windows({8, 0}), Windows({8, 0, 8, 0, 8})));
  EXPECT_EQ(windows("[0, 4, 4, 4, 4]"),
            std::pair(Windows({0, 4, 4, 4, 4}), Windows({0, 4, 4, 4, 4})));
}

TEST(TrainKeys, SayWhetherStepsAreRecorded) {
  const Experiment experiment = parse(kMotif + "replay = \"on\"\nreplay_check = 0\n");
  EXPECT_EQ(experiment.train.replay, Replay::kOn);
  EXPECT_EQ(experiment.train.replay_check, 0);
  EXPECT_EQ(parse(to_toml(experiment)).train, experiment.train);
  EXPECT_THAT(to_toml(parse(kMotif)), Not(HasSubstr("replay")));
  EXPECT_EQ(train_error("steps = 1\nreplay = \"always\"\nreplay_check = -1\n"),
            "2: e.toml:5:10: train.replay: expected \"auto\" | \"on\" | \"off\", got \"always\"\n"
            "e.toml:6:16: train.replay_check: expected an integer in [0, 1000000000], got -1");
}

TEST(GenerateKeys, SayWhetherStepsAreRecorded) {
  const Experiment experiment = parse(kMotif + "[generate]\nreplay = \"on\"\n");
  EXPECT_EQ(experiment.generate.replay, Replay::kOn);
  EXPECT_EQ(experiment.train.replay, Replay::kAuto);
  EXPECT_EQ(parse(to_toml(experiment)).generate, experiment.generate);
}

TEST(ModelKeys, ThatDoNotGoTogetherAreRefused) {
  test::expect_problems(model_error, "e.toml",
                        test::read_wording_file("tests/config/messages/model_keys/together.txt"));
}

}  // namespace
}  // namespace mneme::config
