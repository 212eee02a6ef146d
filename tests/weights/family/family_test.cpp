// The files of families: what they must hold, and what is wrong with others.
#include "host/weights/pretrained/family/family.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/base/temporary_folder.hpp"

namespace mneme::weights {
namespace {

using ::testing::HasSubstr;

TEST(Family, EveryFileOfTheProgramIsRead) {
  EXPECT_EQ(family_list(), "gemma, gemma2, gemma3_text, gpt2, llama, mistral, qwen2, qwen3");
  for (const Family& family : families()) {
    EXPECT_FALSE(family.architectures.empty()) << family.model_type;
    EXPECT_NE(family.find_key("vocab_size"), nullptr) << family.model_type;
    EXPECT_FALSE(family.parts_of("embedding.0.weight").empty()) << family.model_type;
    for (const KeyRule& rule : family.keys) {
      EXPECT_FALSE(family.unused.contains(rule.key)) << family.model_type << ' ' << rule.key;
      const bool is_found = rule.same_as.empty() || family.find_key(rule.same_as) != nullptr;
      EXPECT_TRUE(is_found) << rule.key;
    }
  }
}

TEST(Family, CutsAParameterIntoTensors) {
  const std::vector<FamilyPart> parts =
      find_family("llama")->parts_of("layers.12.attention.qkv.weight");
  ASSERT_EQ(parts.size(), 3U);
  EXPECT_EQ(parts[0].name, "model.layers.12.self_attn.q_proj.weight");
  EXPECT_EQ(parts[0].rows, "query");
  EXPECT_EQ(parts[2].name, "model.layers.12.self_attn.v_proj.weight");
  EXPECT_EQ(parts[2].rows, "key");
  EXPECT_TRUE(find_family("gpt2")->parts_of("layers.0.ff.in.weight").at(0).is_transposed);
  EXPECT_TRUE(find_family("llama")->parts_of("position.embedding").empty());
}

TEST(Family, TellsConstantsFromParameters) {
  const Family& gpt2 = *find_family("gpt2");
  EXPECT_EQ(gpt2.constant_kind("transformer.h.3.attn.bias"), "causal_mask");
  EXPECT_EQ(gpt2.constant_kind("transformer.h.3.attn.masked_bias"), "kept");
  EXPECT_EQ(gpt2.constant_kind("transformer.h.3.attn.c_attn.bias"), "");
}

TEST(Family, AFamilyReplacesWhatItsBaseSays) {
  const Family& qwen2 = *find_family("qwen2");
  EXPECT_EQ(qwen2.find_key("sliding_window"), nullptr);
  EXPECT_TRUE(qwen2.unused.contains("attention_bias"));
  EXPECT_FALSE(qwen2.find_key("head_dim")->may_be_null);
  EXPECT_EQ(find_family("qwen3")->find_key("head_dim")->fallback, 128);
  EXPECT_TRUE(find_family("mistral")->find_key("attention_bias")->sets.empty());
}

TEST(Family, ReportsEveryWrongLine) {
  const std::string error = test::error_of([] {
    static_cast<void>(parse_family("mine", R"(model_type = "mine"
colour = 1
[keys]
width = 3
depth = { sets = ["model.layers"], hue = 1 }
[tensors]
"layers.{layer}.x" = "h.x"
"embedding.0.weight" = { rows = "half" }
[constants]
"h.x" = "secret"
)"));
  });
  EXPECT_THAT(error, HasSubstr("mine:2:"));
  EXPECT_THAT(error, HasSubstr("colour"));
  EXPECT_THAT(error, HasSubstr("keys.width: expected a table"));
  EXPECT_THAT(error, HasSubstr("hue"));
  EXPECT_THAT(error, HasSubstr("expected {layer} as often as in the parameter's name"));
  EXPECT_THAT(error,
              HasSubstr("tensors.\"embedding.0.weight\".name: missing: expected a tensor's name"));
  EXPECT_THAT(error, HasSubstr("\"query\" | \"key\" | \"ff\""));
  EXPECT_THAT(error, HasSubstr("\"causal_mask\" | \"kept\""));
}

}  // namespace
}  // namespace mneme::weights
