// config.json of the Gemmas: what their keys and absent keys mean, what is refused, and the way back.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "host/weights/pretrained/family/family_config.hpp"
#include "tests/base/temporary_folder.hpp"
#include "tests/weights/folder_support.hpp"

namespace mneme::weights {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

FolderModel read_gemma(const test::SmallModel& small, const Json& changes = Json::object()) {
  Json config = small.config;
  for (const auto& [key, value] : changes.items()) config[key] = value;
  return read_config(family_of(config, "config.json"), config, "config.json");
}

std::string gemma_refusal(const test::SmallModel& small, const Json& changes) {
  return test::error_of([&] { static_cast<void>(read_gemma(small, changes)); });
}

TEST(Gemma, KeysBecomeSettings) {
  const config::ModelConfig model = read_gemma(test::small_gemma2()).model;
  EXPECT_EQ(model.norm, config::Norm::kSandwich);
  EXPECT_EQ(model.norm_kind, config::NormKind::kRms);
  EXPECT_TRUE(model.norm_unit_offset && model.tie_embedding);
  EXPECT_FALSE(model.qk_norm || model.qkv_bias);
  EXPECT_EQ(model.feed_forward, config::FeedForward::kGeglu);
  EXPECT_EQ(model.embedding_scale, config::EmbeddingScale::kSqrt);
  EXPECT_EQ(model.score_width, 5);
  EXPECT_EQ(model.attention_softcap, 50.0);
  EXPECT_EQ(model.logit_softcap, 30.0);
  EXPECT_THAT(model.window, ElementsAre(4, 0));
  EXPECT_EQ(model.rotary.local_base, 0.0);
  const config::ModelConfig third = read_gemma(test::small_gemma3()).model;
  EXPECT_TRUE(third.qk_norm);
  EXPECT_EQ(third.attention_softcap, 0.0);
  EXPECT_EQ(third.logit_softcap, 0.0);
  EXPECT_THAT(third.window, ElementsAre(4));  // the sixth layer would have none
  EXPECT_EQ(third.rotary.base, 10000.0);
  EXPECT_EQ(third.rotary.local_base, 100.0);
  const FolderModel capped = read_gemma(test::small_gemma3(), {{"attn_logit_softcapping", 50.0}});
  EXPECT_EQ(capped.model, third);  // the library does not apply it
  EXPECT_THAT(capped.passed_over, ElementsAre("attn_logit_softcapping"));
  const Json null = {{"attn_logit_softcapping", nullptr}};  // as the library writes it
  EXPECT_THAT(read_gemma(test::small_gemma3(), null).passed_over, IsEmpty());
}

TEST(Gemma, AbsentKeysAndNullMeanWhatTheLibrarySays) {
  Json first = test::small_gemma2().config;
  for (const char* key : {"hidden_activation", "query_pre_attn_scalar", "sliding_window",
                          "head_dim", "num_key_value_heads", "rope_theta"}) {
    first.erase(key);
  }
  first["num_attention_heads"] = 16;
  const auto read = [](const Json& config) {
    return read_config(family_of(config, "c"), config, "c").model;
  };
  const config::ModelConfig second = read(first);
  EXPECT_EQ(second.head_width, 256);
  EXPECT_EQ(second.score_width, 0);  // 256 too
  EXPECT_EQ(second.key_heads(), 4);
  EXPECT_THAT(second.window, ElementsAre(4096, 0));
  EXPECT_EQ(second.rotary.base, 10000.0);
  Json third = first;
  third["model_type"] = "gemma3_text";
  third["architectures"] = nullptr;
  EXPECT_EQ(read(third).rotary.base, 1e6);
  EXPECT_EQ(read(third).rotary.local_base, 10000.0);
  first["model_type"] = "gemma";
  first["architectures"] = nullptr;
  first["hidden_act"] = "gelu";  // of old files
  EXPECT_EQ(read(first).feed_forward, config::FeedForward::kGeglu);
  EXPECT_EQ(read(first).norm, config::Norm::kPre);
  EXPECT_EQ(read(first).key_heads(), 16);
  const Json nulls = {{"attn_logit_softcapping", nullptr}, {"final_logit_softcapping", nullptr}};
  const config::ModelConfig plain = read_gemma(test::small_gemma2(), nulls).model;
  EXPECT_EQ(plain.attention_softcap, 0.0);
  EXPECT_EQ(plain.logit_softcap, 0.0);
}

TEST(Gemma, LayersHaveWindowsByPatternOrList) {
  const Json five = {{"num_hidden_layers", 5}};
  const auto with = [&](const char* key, const Json& value) {
    Json changes = five;
    changes[key] = value;
    return changes;
  };
  const test::SmallModel second = test::small_gemma2(), third = test::small_gemma3();
  EXPECT_THAT(read_gemma(second, five).model.window, ElementsAre(4, 0));
  EXPECT_THAT(read_gemma(third, five).model.window, ElementsAre(4));
  EXPECT_THAT(read_gemma(third, with("sliding_window_pattern", 3)).model.window,
              ElementsAre(4, 4, 0));
  EXPECT_THAT(read_gemma(second, with("sliding_window_pattern", 3)).model.window,
              ElementsAre(4, 0));
  const Json types = {"full_attention", "sliding_attention", "full_attention", "full_attention",
                      "sliding_attention"};
  EXPECT_THAT(read_gemma(second, with("layer_types", types)).model.window, ElementsAre(0, 4, 0));
  const config::ModelConfig none = read_gemma(third, with("sliding_window_pattern", 1)).model;
  EXPECT_THAT(none.window, IsEmpty());
  EXPECT_EQ(none.rotary.local_base, 0.0);  // no layer turns by it
  EXPECT_THAT(gemma_refusal(third, with("sliding_window_pattern", 0)),
              HasSubstr("sliding_window_pattern: expected an integer of at least 1, got 0"));
  EXPECT_THAT(gemma_refusal(second, {{"sliding_window", nullptr}}),
              HasSubstr("sliding_window: expected an integer, because layers have a window, got "
                        "null"));
}

TEST(Gemma, RotaryPositionsAreReadInBothSpellings) {
  const Json global = {{"rope_type", "linear"}, {"rope_theta", 500.0}, {"factor", 8.0}};
  const Json local = {{"rope_type", "default"}, {"rope_theta", 100.0}};
  const Json parameters = {{"full_attention", global}, {"sliding_attention", local}};
  test::SmallModel small = test::small_gemma3();
  for (const char* key : {"rope_theta", "rope_local_base_freq"}) small.config.erase(key);
  const auto rotary = [&](const Json& changes) { return read_gemma(small, changes).model.rotary; };
  const config::RotaryConfig read = rotary({{"rope_parameters", parameters}});
  EXPECT_EQ(read.base, 500.0);
  EXPECT_EQ(read.factor, 8.0);
  EXPECT_EQ(read.scaling, config::RotaryScaling::kLinear);
  EXPECT_EQ(read.local_base, 100.0);
  EXPECT_EQ(rotary({{"rope_theta", 500.0},
                    {"rope_local_base_freq", 100.0},
                    {"rope_scaling", {{"rope_type", "linear"}, {"factor", 8.0}}}}),
            read);
  EXPECT_EQ(rotary({{"rope_theta", 10000.0}}).local_base, 0.0);  // the same
  const auto refused = [&](const Json& changes) { return gemma_refusal(small, changes); };
  EXPECT_THAT(refused({{"rope_parameters", global}}),
              HasSubstr("rope_parameters.rope_type: expected an object \"full_attention\" and one "
                        "\"sliding_attention\", got \"linear\""));
  EXPECT_THAT(refused({{"rope_parameters", parameters}, {"rope_scaling", global}}),
              HasSubstr("rope_scaling: expected one of rope_scaling and rope_parameters"));
  EXPECT_THAT(refused({{"rope_parameters", {{"sliding_attention", global}}}}),
              HasSubstr("rope_parameters.sliding_attention.rope_type: expected \"default\", got "
                        "\"linear\""));
  const Json whole = test::small_gemma3().config;
  EXPECT_THAT(
      test::error_of([&] {
        static_cast<void>(read_config(*find_family("gemma3_text"), whole, "c", {"sliding_window"}));
      }),
      HasSubstr("sliding_window: expected the key: layers with a window turn by a base of "
                "their own, rope_local_base_freq, got --ignore sliding_window"));
  EXPECT_THAT(refused({{"rope_local_base_freq", "low"}}),
              HasSubstr("rope_local_base_freq: expected a number above 0, got \"low\""));
}

TEST(Gemma, RefusesWhatIsNotComputed) {
  EXPECT_THAT(gemma_refusal(test::small_gemma2(), {{"hidden_activation", "gelu"},
                                                   {"use_bidirectional_attention", true},
                                                   {"query_pre_attn_scalar", 2.5},
                                                   {"attn_logit_softcapping", "high"}}),
              AllOf(HasSubstr("hidden_activation: expected \"gelu_pytorch_tanh\", got \"gelu\""),
                    HasSubstr("use_bidirectional_attention: expected false or null, got true"),
                    HasSubstr("query_pre_attn_scalar: expected an integer, got 2.5"),
                    HasSubstr("attn_logit_softcapping: expected a number or null, got \"high\"")));
  EXPECT_THAT(gemma_refusal(test::small_gemma3(), {{"model_type", "gemma3"}}),
              HasSubstr("model_type: the family is not known"));
}

TEST(Gemma, AConfigThatIsWrittenMeansTheSameModel) {
  const Json scaled = {{"rope_scaling", {{"rope_type", "linear"}, {"factor", 8.0}}}};
  const Json nulls = {{"attn_logit_softcapping", nullptr}, {"final_logit_softcapping", nullptr}};
  const Json full = {{"layer_types", {"full_attention", "full_attention"}}};
  const Json wide = {{"query_pre_attn_scalar", 4}};
  for (const test::SmallModel& small : {test::small_gemma2(), test::small_gemma3()}) {
    for (const Json& changes : {Json::object(), scaled, nulls, full, wide}) {
      const FolderModel model = read_gemma(small, changes);
      const Family& family = family_of(small.config, "c");
      const Json written = write_config(family, model.model, model.vocabulary);
      EXPECT_EQ(read_config(family, written, "c").model, model.model) << written.dump(2);
    }
  }
  EXPECT_THAT(test::error_of([] {
                static_cast<void>(write_config(*find_family("llama"),
                                               read_gemma(test::small_gemma2()).model, 10));
              }),
              AllOf(HasSubstr("model.norm: expected \"pre\", got \"sandwich\""),
                    HasSubstr("model.norm_unit_offset: expected nothing, got true"),
                    HasSubstr("model.score_width: expected 4, got 5"),
                    HasSubstr("model.attention_softcap: expected nothing, got 50.0")));
}

}  // namespace
}  // namespace mneme::weights
