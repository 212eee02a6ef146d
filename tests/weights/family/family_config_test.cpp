// config.json of each family: defaults, both spellings of rotary positions, and what is refused.
#include "host/weights/pretrained/family/family_config.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "tests/base/temporary_folder.hpp"
#include "tests/weights/folder_support.hpp"

namespace mneme::weights {
namespace {

using config::RotaryScaling;
using ::testing::HasSubstr;
using ::testing::Not;

FolderModel read(const Json& config) {
  return read_config(family_of(config, "config.json"), config, "config.json");
}

// The message of reading small_<family>'s config with these members; null removes a member.
std::string refusal(const test::SmallModel& model, const Json& changes) {
  Json config = model.config;
  for (const auto& [key, value] : changes.items()) config[key] = value;
  return test::error_of([&] { static_cast<void>(read(config)); });
}

config::RotaryConfig rotary_of(const Json& changes) {
  Json config = test::small_llama().config;
  config.erase("rope_theta");
  for (const auto& [key, value] : changes.items()) config[key] = value;
  return read(config).model.rotary;
}

TEST(FamilyConfig, ReadsLlama) {
  const FolderModel read_model = read(test::small_llama().config);
  const config::ModelConfig& model = read_model.model;
  EXPECT_EQ(read_model.vocabulary, 10);
  EXPECT_EQ(model.layers, 2);
  EXPECT_EQ(model.heads, 2);
  EXPECT_EQ(model.key_heads(), 1);
  EXPECT_EQ(model.head_width, 4);
  EXPECT_EQ(model.width, 8);
  EXPECT_EQ(model.ff, 12);
  EXPECT_EQ(model.position, config::PositionScheme::kRotary);
  EXPECT_EQ(model.norm, config::Norm::kPre);
  EXPECT_EQ(model.norm_kind, config::NormKind::kRms);
  EXPECT_EQ(model.norm_epsilon, 1e-5);
  EXPECT_EQ(model.feed_forward, config::FeedForward::kSwiglu);
  EXPECT_TRUE(model.final_norm);
  EXPECT_FALSE(model.qkv_bias || model.output_bias || model.ff_bias || model.softmax_bias);
  EXPECT_FALSE(model.tie_embedding);
  EXPECT_EQ(model.embedding_scale, config::EmbeddingScale::kNone);
  EXPECT_EQ(model.dropout, 0.0);
}

TEST(FamilyConfig, ReadsLlamasBiases) {
  Json config = test::small_llama().config;
  config["attention_bias"] = true;
  EXPECT_TRUE(read(config).model.qkv_bias && read(config).model.output_bias);
  EXPECT_FALSE(read(config).model.ff_bias);
  config["mlp_bias"] = true;
  EXPECT_TRUE(read(config).model.ff_bias);
}

TEST(FamilyConfig, ReadsGpt2) {
  const config::ModelConfig model = read(test::small_gpt2().config).model;
  EXPECT_EQ(model.positions, 6);
  EXPECT_EQ(model.ff, 32);
  EXPECT_EQ(model.position, config::PositionScheme::kLearned);
  EXPECT_EQ(model.feed_forward, config::FeedForward::kGeluTanh);
  EXPECT_TRUE(model.qkv_bias && model.output_bias && model.ff_bias && model.tie_embedding);
  EXPECT_EQ(model.dropout, 0.1);
  Json config = test::small_gpt2().config;
  config["n_inner"] = 20;
  config["activation_function"] = "gelu";
  config["resid_pdrop"] = 0.0;
  const FolderModel other = read(config);
  EXPECT_EQ(other.model.ff, 20);
  EXPECT_EQ(other.model.feed_forward, config::FeedForward::kGelu);
  ASSERT_EQ(other.warnings.size(), 1U);
  EXPECT_THAT(other.warnings[0], HasSubstr("embd_pdrop = 0.1 is not used"));
}

TEST(FamilyConfig, AbsentKeysMeanWhatTheFamilySays) {
  const FolderModel gpt2 = read({{"model_type", "gpt2"}});
  EXPECT_EQ(gpt2.vocabulary, 50257);
  EXPECT_EQ(gpt2.model.width, 768);
  EXPECT_EQ(gpt2.model.positions, 1024);
  Json config = test::small_qwen3().config;
  config.erase("head_dim");
  EXPECT_EQ(read(config).model.head_width, 128);
  config = test::small_llama().config;
  config.erase("num_key_value_heads");
  EXPECT_EQ(read(config).model.key_heads(), 2);
  config["attention_dropout"] = nullptr;
  EXPECT_EQ(read(config).model.attention_dropout, 0.0);
  config["model_type"] = "mistral";
  config["architectures"] = nullptr;
  config["sliding_window"] = nullptr;
  config["num_attention_heads"] = 16;
  config["head_dim"] = 2;
  EXPECT_EQ(read(config).model.key_heads(), 8);
  config["num_key_value_heads"] = nullptr;
  EXPECT_EQ(read(config).model.key_heads(), 16);
  EXPECT_THAT(read(config).model.window, testing::IsEmpty());
  config.erase("sliding_window");
  EXPECT_THAT(read(config).model.window, testing::ElementsAre(4096));
}

TEST(FamilyConfig, ReadsTheQwens) {
  const config::ModelConfig qwen2 = read(test::small_qwen2().config).model;
  EXPECT_TRUE(qwen2.qkv_bias && qwen2.tie_embedding);
  EXPECT_FALSE(qwen2.output_bias || qwen2.qk_norm);
  const config::ModelConfig qwen3 = read(test::small_qwen3().config).model;
  EXPECT_TRUE(qwen3.qk_norm);
  EXPECT_EQ(qwen3.head_width, 6);
  EXPECT_FALSE(qwen3.qkv_bias);
  Json config = test::small_qwen2().config;
  config["layer_types"] = {"full_attention", "full_attention"};
  EXPECT_EQ(read(config).model, qwen2);
}

TEST(FamilyConfig, BothSpellingsOfRotaryPositionsMeanTheSame) {
  EXPECT_EQ(rotary_of(Json::object()).base, 10000.0);
  EXPECT_EQ(rotary_of({{"rope_theta", 500}}).base, 500.0);
  EXPECT_EQ(rotary_of({{"rope_parameters", {{"rope_theta", 500.0}, {"rope_type", "default"}}}}),
            rotary_of({{"rope_theta", 500.0}}));
  const Json linear = {{"type", "linear"}, {"factor", 2.5}};
  const config::RotaryConfig old = rotary_of({{"rope_theta", 500.0}, {"rope_scaling", linear}});
  EXPECT_EQ(old.scaling, RotaryScaling::kLinear);
  EXPECT_EQ(old.factor, 2.5);
  EXPECT_EQ(rotary_of({{"rope_parameters",
                        {{"rope_type", "linear"}, {"factor", 2.5}, {"rope_theta", 500.0}}}}),
            old);
}

TEST(FamilyConfig, ReadsLlama3AndYarn) {
  const config::RotaryConfig llama3 = rotary_of({{"rope_scaling",
                                                  {{"rope_type", "llama3"},
                                                   {"factor", 8.0},
                                                   {"low_freq_factor", 1.0},
                                                   {"high_freq_factor", 4.0},
                                                   {"original_max_position_embeddings", 8192}}}});
  EXPECT_EQ(llama3.scaling, RotaryScaling::kLlama3);
  EXPECT_EQ(llama3.original_positions, 8192);
  EXPECT_EQ(llama3.high_factor, 4.0);
  const Json yarn = {{"rope_type", "yarn"}, {"factor", 4.0}};
  EXPECT_EQ(rotary_of({{"rope_scaling", yarn}}).original_positions, 64);  // max_position_embeddings
  EXPECT_EQ(rotary_of({{"rope_scaling", yarn}}).attention_factor, 0.0);
  EXPECT_EQ(rotary_of({{"rope_scaling", yarn}}).beta_fast, 32.0);
  Json scaled = yarn;
  scaled["mscale"] = 2.0;
  scaled["mscale_all_dim"] = 1.0;
  EXPECT_DOUBLE_EQ(rotary_of({{"rope_scaling", scaled}}).attention_factor,
                   (0.2 * std::log(4.0) + 1.0) / (0.1 * std::log(4.0) + 1.0));
  scaled["attention_factor"] = 1.25;
  EXPECT_EQ(rotary_of({{"rope_scaling", scaled}}).attention_factor, 1.25);
  scaled = {{"rope_type", "yarn"}, {"factor", nullptr}, {"original_max_position_embeddings", 16}};
  EXPECT_EQ(rotary_of({{"rope_scaling", scaled}}).factor, 4.0);  // of 64 and 16 positions
}

TEST(FamilyConfig, RefusesOtherRotaryPositions) {
  const auto refused = [](const Json& changes) { return refusal(test::small_llama(), changes); };
  EXPECT_THAT(refused({{"rope_scaling", {{"type", "mrope"}, {"factor", 2.0}}}}),
              HasSubstr("rope_scaling.type: expected \"default\" | \"linear\" | \"dynamic\" | "
                        "\"llama3\" | \"yarn\", got \"mrope\""));
  EXPECT_THAT(refused({{"max_position_embeddings", "many"},
                       {"rope_scaling", {{"type", "dynamic"}, {"factor", 2.0}}}}),
              HasSubstr("max_position_embeddings: expected an integer of at least 1, which "
                        "rope_scaling.rope_type = \"dynamic\" needs"));
  EXPECT_THAT(refused({{"rope_parameters", {{"rope_type", "longrope"}}}}),
              HasSubstr("rope_parameters.rope_type: expected"));
  EXPECT_THAT(refused({{"rope_scaling", {{"type", "yarn"}, {"rope_type", "linear"}}}}),
              HasSubstr("rope_scaling.type: expected \"linear\" as in rope_scaling.rope_type"));
  EXPECT_THAT(refused({{"rope_scaling", {{"rope_type", "llama3"}, {"factor", 0.5}}}}),
              AllOf(HasSubstr("rope_scaling.factor: expected a number of at least 1, got 0.5"),
                    HasSubstr("rope_scaling.low_freq_factor: missing"),
                    HasSubstr("rope_scaling.high_freq_factor: missing")));
  EXPECT_THAT(refused({{"rope_scaling", {{"rope_type", "linear"}, {"factor", 2}, {"spin", 3}}}}),
              HasSubstr("rope_scaling.spin: 3: not a key of rope_type \"linear\""));
  EXPECT_THAT(refused({{"rope_scaling", {{"rope_type", "yarn"}, {"factor", 2}, {"truncate", 1}}}}),
              HasSubstr("rope_scaling.truncate: expected a boolean, got 1"));
  EXPECT_THAT(refused({{"rope_scaling", {{"rope_type", "yarn"}}}}),
              HasSubstr("rope_scaling.factor: missing: rope_scaling.rope_type needs it"));
  EXPECT_THAT(refused({{"max_position_embeddings", nullptr},
                       {"rope_scaling",
                        {{"rope_type", "yarn"},
                         {"factor", nullptr},
                         {"original_max_position_embeddings", 16}}}}),
              HasSubstr("rope_scaling.factor: expected a number, or null with "
                        "max_position_embeddings, got null"));
  EXPECT_THAT(refused({{"rope_parameters", {{"full_attention", {{"rope_theta", 1.0}}}}}}),
              HasSubstr("rope_parameters.full_attention: expected one set of parameters"));
  EXPECT_THAT(refused({{"rope_parameters", {{"rope_theta", 5.0}}}}),
              HasSubstr("rope_parameters.rope_theta: expected 10000.0 as in rope_theta, got 5.0"));
  EXPECT_THAT(refused({{"rope_theta", "big"}}),
              HasSubstr("rope_theta: expected a number above 0, got \"big\""));
  EXPECT_THAT(refused({{"rope_scaling", 3}}), HasSubstr("rope_scaling: expected an object, got 3"));
  EXPECT_THAT(refused({{"rope_scaling", {{"rope_type", "linear"}, {"factor", 2}}},
                       {"rope_parameters", {{"rope_type", "linear"}, {"factor", 3}}}}),
              HasSubstr("differs from rope_parameters"));
  EXPECT_THAT(
      refused({{"original_max_position_embeddings", 32},
               {"rope_scaling",
                {{"rope_type", "yarn"}, {"factor", 2}, {"original_max_position_embeddings", 16}}}}),
      HasSubstr("expected 32 as in original_max_position_embeddings, got 16"));
}

TEST(FamilyConfig, ListsEverythingThatIsNotUnderstood) {
  const std::string error = refusal(test::small_llama(), {{"hidden_act", "relu"},
                                                          {"num_attention_heads", "two"},
                                                          {"mlp_bias", 1},
                                                          {"partial_rotary_factor", 0.5},
                                                          {"quantization_config", {{"bits", 4}}},
                                                          {"hiden_size", 9},
                                                          {"add_cross_attention", true},
                                                          {"num_hidden_layers", 0}});
  for (const char* line :
       {"config.json: the model cannot be read:\n",
        "hidden_act: expected \"silu\" or \"swish\", got \"relu\"",
        "num_attention_heads: expected an integer, got \"two\"",
        "mlp_bias: expected a boolean, got 1",
        "partial_rotary_factor: expected 1.0 or null, got 0.5",
        "quantization_config: expected null, got {\"bits\":4}",
        "hiden_size: 9: no key of the family \"llama\" that is understood (did "
        "you mean \"hidden_size\"?)",
        "passed over with --ignore hiden_size", "add_cross_attention: expected false, got true",
        "num_hidden_layers: expected an integer in [1, 1048576], got 0"}) {
    EXPECT_THAT(error, HasSubstr(line));
  }
}

TEST(FamilyConfig, RefusesByFamily) {
  EXPECT_THAT(
      refusal(test::small_gpt2(),
              {{"scale_attn_weights", false}, {"activation_function", "silu"}, {"hidden_size", 9}}),
      AllOf(HasSubstr("scale_attn_weights: expected true, got false"),
            HasSubstr("activation_function: expected \"gelu_new\" or"),
            HasSubstr("hidden_size: expected 8 as in n_embd, got 9")));
  EXPECT_THAT(refusal(test::small_qwen3(), {{"head_dim", nullptr}}),
              HasSubstr("head_dim: expected an integer, got null"));
  EXPECT_THAT(refusal(test::small_llama(), {{"num_key_value_heads", 3}}),
              HasSubstr("cannot be read:\n  num_key_value_heads: expected a divisor of "
                        "num_attention_heads, 2, got 3"));
  EXPECT_THAT(refusal(test::small_llama(), {{"num_attention_heads", 3}, {"head_dim", nullptr}}),
              HasSubstr("  head_dim: missing: expected a number, because hidden_size 8 is not a "
                        "multiple of num_attention_heads 3\n"));
  Json config = test::small_llama().config;
  config.erase("intermediate_size");
  EXPECT_THAT(test::error_of([&] { static_cast<void>(read(config)); }),
              HasSubstr("intermediate_size: missing: expected an integer"));
}

// A key that no part of the library reads cannot change a number where its name or its value says
// so.
TEST(FamilyConfig, PassesOverWhatIsNoSettingInUse) {
  for (const test::SmallModel& small :
       {test::small_llama(), test::small_qwen2(), test::small_qwen3(), test::small_gpt2()}) {
    const FolderModel plain = read(small.config);
    EXPECT_THAT(plain.passed_over, testing::IsEmpty());
    Json config = small.config;
    config["_model_name_or_path"] = "someone/something";
    config["_remark"] = {{"by", "me"}};
    config["final_softcap"] = nullptr;
    config["uses_magic"] = false;
    config["extra_heads"] = 0;
    config["extra_scale"] = 0.0;
    config["adapters"] = Json::array();
    config["extras"] = Json::object();
    config["flavour"] = "";
    config["notes"] = "known to say nothing of the model, so without a message";
    const FolderModel model = read(config);
    EXPECT_EQ(model.model, plain.model);
    EXPECT_THAT(model.passed_over,
                testing::UnorderedElementsAre("_model_name_or_path", "_remark", "final_softcap",
                                              "uses_magic", "extra_heads", "extra_scale",
                                              "adapters", "extras", "flavour"));
    for (const Json& value : {Json(true), Json(2), Json("on"), Json{1}}) {
      config["uses_magic"] = value;
      EXPECT_THAT(test::error_of([&] { static_cast<void>(read(config)); }),
                  AllOf(HasSubstr("uses_magic: "), HasSubstr("--ignore uses_magic"),
                        HasSubstr("(passed over: _model_name_or_path, _remark")));
    }
  }
  EXPECT_THAT(refusal(test::small_llama(), {{"is_causal", false}}),
              HasSubstr("is_causal: expected true, got false"));
}

TEST(FamilyConfig, PassesOverKeysOfOtherKindsOfRotaryPositions) {
  Json config = test::small_llama().config;
  config["rope_scaling"] = {
      {"rope_type", "default"}, {"factor", 1.0}, {"_by", "hand"}, {"mrope_section", {1, 1, 2}}};
  const FolderModel model = read(config);
  EXPECT_EQ(model.model.rotary, read(test::small_llama().config).model.rotary);
  EXPECT_THAT(model.passed_over,
              testing::UnorderedElementsAre("rope_scaling.factor", "rope_scaling._by",
                                            "rope_scaling.mrope_section"));
}

TEST(FamilyConfig, PassesOverKeysOfOtherFamilies) {
  Json config = test::small_llama().config;
  config["use_bidirectional_attention"] = true;
  config["layer_types"] = nullptr;
  const FolderModel model = read(config);
  EXPECT_EQ(model.model, read(test::small_llama().config).model);
  EXPECT_THAT(model.passed_over, testing::ElementsAre("use_bidirectional_attention"));
}

TEST(FamilyConfig, IgnoredKeysAreNotRead) {
  Json config = test::small_llama().config;
  const FolderModel plain = read(config);
  config["run"] = "r17";
  config["partial_rotary_factor"] = 0.5;
  config["quantization_config"] = {{"bits", 4}};
  config["rope_scaling"] = {{"rope_type", "linear"}, {"factor", 2.0}, {"spin", 3}};
  EXPECT_THAT(refusal(test::small_llama(), config), HasSubstr("rope_scaling.spin: 3: not a key"));
  const IgnoredKeys ignored = {"run", "partial_rotary_factor", "quantization_config",
                               "rope_scaling.spin"};
  for (const std::string& key : ignored) EXPECT_TRUE(has_key(config, key)) << key;
  EXPECT_FALSE(has_key(config, "rope_scaling.twist"));
  EXPECT_FALSE(has_key(config, "twist"));
  const Family& family = *find_family("llama");
  FolderModel model = read_config(family, config, "config.json", ignored);
  EXPECT_EQ(model.model.rotary.factor, 2.0);
  model.model.rotary = plain.model.rotary;
  EXPECT_EQ(model.model, plain.model);
  EXPECT_THAT(test::error_of([&] {
                static_cast<void>(read_config(family, config, "c", {"run", "hidden_size"}));
              }),
              HasSubstr("hidden_size: missing: expected an integer"));
}

TEST(FamilyConfig, ReadsDynamicPositionsAndYarnWithoutRounding) {
  const Json dynamic = {{"type", "dynamic"}, {"factor", 4.0}};
  const config::RotaryConfig rotary = rotary_of({{"rope_scaling", dynamic}});
  EXPECT_EQ(rotary.scaling, RotaryScaling::kDynamic);
  EXPECT_EQ(rotary.original_positions, 64);  // max_position_embeddings
  Json shorter = dynamic;
  shorter["original_max_position_embeddings"] = 16;
  EXPECT_EQ(rotary_of({{"rope_scaling", shorter}}).original_positions, 16);
  const Json yarn = {{"rope_type", "yarn"}, {"factor", 4.0}};
  EXPECT_TRUE(rotary_of({{"rope_parameters", yarn}}).truncate);
  for (const Json& value : {Json(false), Json()}) {  // null is false for the library
    Json exact = yarn;
    exact["truncate"] = value;
    EXPECT_FALSE(rotary_of({{"rope_parameters", exact}}).truncate);
  }
  for (const Json& scaling :
       {dynamic, Json{{"rope_type", "yarn"}, {"factor", 4.0}, {"truncate", false}}}) {
    Json config = test::small_llama().config;
    config["rope_scaling"] = scaling;
    const FolderModel model = read(config);
    EXPECT_EQ(read(write_config(*find_family("llama"), model.model, 10)).model, model.model);
  }
}

TEST(FamilyConfig, RefusesUnknownFamiliesAndOtherModels) {
  EXPECT_THAT(refusal(test::small_llama(), {{"model_type", "mamba"}}),
              HasSubstr("config.json: model_type: the family is not known: expected gemma, gemma2, "
                        "gemma3_text, gpt2, llama, mistral, qwen2, qwen3, got \"mamba\""));
  EXPECT_THAT(test::error_of([] { static_cast<void>(read(Json::object())); }),
              HasSubstr("got no such key"));
  for (const Json& wrong :
       {Json{"LlamaForTokenClassification"}, Json("LlamaForTokenClassification"), Json(1),
        Json{"LlamaModel", "LlamaForTokenClassification"}}) {
    EXPECT_THAT(
        refusal(test::small_llama(), {{"architectures", wrong}}),
        HasSubstr("only language models are read: expected LlamaForCausalLM or LlamaModel"));
  }
  for (const Json& right : {Json("LlamaForCausalLM"), Json{"LLaMAForCausalLM"}, Json::array()}) {
    EXPECT_EQ(refusal(test::small_llama(), {{"architectures", right}}), "no error");
  }
}

TEST(FamilyConfig, WritesAConfigThatMeansTheSameModel) {
  for (const test::SmallModel& small :
       {test::small_llama(), test::small_qwen2(), test::small_qwen3(), test::small_gpt2()}) {
    const FolderModel model = read(small.config);
    const Family& family = family_of(small.config, "config.json");
    const Json written = write_config(family, model.model, model.vocabulary);
    EXPECT_EQ(read(written).model, model.model) << written.dump(2);
    EXPECT_EQ(read(written).vocabulary, 10);
  }
  Json config = test::small_llama().config;
  config["rope_scaling"] = {{"rope_type", "yarn"}, {"factor", 4.0}, {"beta_fast", 16.0}};
  const FolderModel yarn = read(config);
  const Json with_yarn = write_config(*find_family("llama"), yarn.model, 10);
  EXPECT_EQ(read(with_yarn).model, yarn.model);
  EXPECT_EQ(with_yarn.at("max_position_embeddings"),
            std::llround(yarn.model.rotary.factor *
                         static_cast<double>(yarn.model.rotary.original_positions)));
  const Json mistral =
      write_config(*find_family("mistral"), read(test::small_llama().config).model, 10);
  EXPECT_TRUE(mistral.at("sliding_window").is_null());
}

TEST(FamilyConfig, ListsWhatAFamilyCannotExpress) {
  const std::string error = test::error_of([] {
    static_cast<void>(
        write_config(*find_family("llama"), read(test::small_gpt2().config).model, 10));
  });
  EXPECT_THAT(error, HasSubstr("--family llama: the family has no such model:"));
  EXPECT_THAT(error, HasSubstr("model.position: expected \"rotary\", got \"learned\""));
  EXPECT_THAT(error, HasSubstr("model.norm_kind: expected \"rms\", got \"layer\""));
  EXPECT_THAT(error, HasSubstr("model.feed_forward: expected \"swiglu\", got \"gelu_tanh\""));
  EXPECT_THAT(error, Not(HasSubstr("model.width")));
}

}  // namespace
}  // namespace mneme::weights
