// Sliding windows of config.json, layer by layer, and the way back.
#include "host/weights/pretrained/family/window_keys.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "host/weights/pretrained/family/family_config.hpp"
#include "tests/base/temporary_folder.hpp"
#include "tests/weights/folder_support.hpp"

namespace mneme::weights {
namespace {

using ::testing::HasSubstr;

FolderModel model_of_config(const Json& config) {
  return read_config(family_of(config, "config.json"), config, "config.json");
}

// The message of reading the model's config with these members.
std::string window_refusal(const test::SmallModel& model, const Json& changes) {
  Json config = model.config;
  for (const auto& [key, value] : changes.items()) config[key] = value;
  return test::error_of([&] { static_cast<void>(model_of_config(config)); });
}

TEST(WindowKeys, SayWhichLayersHaveAWindow) {
  const auto window_of = [](const test::SmallModel& small, const Json& changes) {
    Json config = small.config;
    for (const auto& [key, value] : changes.items()) config[key] = value;
    const FolderModel model = model_of_config(config);
    EXPECT_THAT(model.warnings, testing::IsEmpty());
    return model.model.window;
  };
  using Windows = std::vector<std::int64_t>;
  const Json on = {{"use_sliding_window", true}, {"sliding_window", 12}};
  const auto with = [](Json changes, const char* key, const Json& value) {
    changes[key] = value;
    return changes;
  };
  for (const test::SmallModel& qwen : {test::small_qwen2(), test::small_qwen3()}) {
    EXPECT_EQ(window_of(qwen, on), Windows());  // of layers from 28 on
    EXPECT_EQ(window_of(qwen, with(on, "max_window_layers", 2)), Windows());
    EXPECT_EQ(window_of(qwen, with(on, "max_window_layers", 1)), Windows({0, 12}));
    EXPECT_EQ(window_of(qwen, with(on, "max_window_layers", -1)), Windows({12}));
    const Json full = {"full_attention", "full_attention"};
    const Json mixed = {"full_attention", "sliding_attention"};
    EXPECT_EQ(window_of(qwen, with(with(on, "max_window_layers", 0), "layer_types", full)),
              Windows());
    EXPECT_EQ(window_of(qwen, with(on, "layer_types", mixed)), Windows({0, 12}));
    EXPECT_EQ(window_of(qwen, {{"sliding_window", "wide"}, {"use_sliding_window", nullptr}}),
              Windows());
    EXPECT_THAT(window_refusal(qwen, with(on, "layer_types", Json::array({"full_attention"}))),
                HasSubstr("layer_types: expected a type for each layer, 2, got 1"));
    EXPECT_THAT(
        window_refusal(qwen, {{"layer_types", mixed}}),
        HasSubstr("layer_types: expected no \"sliding_attention\" where there is no window"));
    EXPECT_THAT(window_refusal(qwen, {{"layer_types", {"chunked_attention"}}}),
                HasSubstr("layer_types: expected a list of \"full_attention\" and "
                          "\"sliding_attention\", or null"));
    EXPECT_THAT(window_refusal(qwen, {{"use_sliding_window", 1}}),
                HasSubstr("use_sliding_window: expected a boolean or null, got 1"));
    EXPECT_THAT(window_refusal(qwen, with(on, "max_window_layers", "all")),
                HasSubstr("max_window_layers: expected an integer, got \"all\""));
    EXPECT_THAT(window_refusal(qwen, with(with(on, "max_window_layers", 0), "sliding_window", 0)),
                HasSubstr("sliding_window: expected an integer in [1, 1000000000] or null, got 0"));
  }
}

TEST(WindowKeys, AreThoseOfTheFamilyThatReadsThem) {
  using Windows = std::vector<std::int64_t>;
  // The library reads no window for Llama.
  Json llama = test::small_llama().config;
  llama["sliding_window"] = 12;
  llama["layer_types"] = {"sliding_attention"};
  EXPECT_EQ(model_of_config(llama).model.window, Windows());
  EXPECT_THAT(model_of_config(llama).passed_over,
              testing::ElementsAre("sliding_window", "layer_types"));
  llama["model_type"] = "mistral";
  llama["architectures"] = nullptr;
  llama["num_key_value_heads"] = 1;
  const auto with_types = [&](const Json& types) {
    Json config = llama;
    config["layer_types"] = types;
    return config;
  };
  const char* const full = "full_attention";
  const char* const slides = "sliding_attention";
  for (const auto& [types, windows] : std::vector<std::pair<Json, Windows>>{
           {{full, full}, {}}, {{full, slides}, {0, 12}}, {{slides, full}, {12, 0}}}) {
    const FolderModel model = model_of_config(with_types(types));
    EXPECT_EQ(model.model.window, windows);
    EXPECT_THAT(model.passed_over, testing::IsEmpty());
    const Json config = write_config(*find_family("mistral"), model.model, 10);
    EXPECT_EQ(model_of_config(config).model, model.model);
    EXPECT_EQ(config.contains("layer_types"), !windows.empty());
  }
  EXPECT_THAT(test::error_of([&] { static_cast<void>(model_of_config(llama)); }),
              HasSubstr("layer_types: expected a type for each layer, 2, got 1"));
  llama["layer_types"] = nullptr;
  const FolderModel mistral = model_of_config(llama);
  EXPECT_EQ(mistral.model.window, Windows({12}));
  EXPECT_EQ(mistral.model.longest_context(), 0);
  EXPECT_EQ(read_config(*find_family("mistral"), llama, "c", {"sliding_window"}).model.window,
            Windows());
  const auto written = [&](const char* family, const config::ModelConfig& model) {
    return write_config(*find_family(family), model, 10);
  };
  EXPECT_EQ(model_of_config(written("mistral", mistral.model)).model, mistral.model);
  config::ModelConfig qwen = model_of_config(test::small_qwen2().config).model;
  for (const Windows& windows : {Windows{12}, Windows{0, 12}, Windows{12, 0}}) {
    qwen.window = windows;
    const Json config = written("qwen2", qwen);
    EXPECT_EQ(model_of_config(config).model, qwen);
    EXPECT_EQ(config.contains("layer_types"), windows.back() == 0);
  }
  qwen.window = {8, 12};
  EXPECT_THAT(test::error_of([&] { static_cast<void>(written("qwen2", qwen)); }),
              HasSubstr("model.window: expected 12, got [8, 12]"));
  EXPECT_THAT(test::error_of([&] {
                static_cast<void>(write_config(*find_family("llama"), mistral.model, 10));
              }),
              HasSubstr("model.window: expected nothing, got 12"));
}

}  // namespace
}  // namespace mneme::weights
