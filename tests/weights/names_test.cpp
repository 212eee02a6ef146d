#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "host/base/error.hpp"
#include "host/tensor/torch.hpp"
#include "host/weights/official_weights.hpp"
#include "tests/backbone/support.hpp"

namespace mneme::backbone {
namespace {

// The parameter that an official name means in the model; nullptr when there is none.
const Parameter* find_official(const Model& model, const config::ModelConfig& config,
                               const std::string& official) {
  const auto found = std::ranges::find_if(model.parameters(), [&](const Parameter& parameter) {
    const std::vector<std::string> names = weights::official_names(parameter.name, config);
    return std::ranges::find(names, official) != names.end();
  });
  return found == model.parameters().end() ? nullptr : &*found;
}

TEST(Names, TellSettingsThatTheOfficialCodeLacks) {
  config::ModelConfig c = small_config();
  EXPECT_TRUE(weights::unofficial_settings(c).empty());
  c.norm = config::Norm::kSandwich;
  c.window = {8, 0};
  c.norm_unit_offset = true;
  c.score_width = 24;
  c.logit_softcap = 30.0;
  c.value_residual = true;
  EXPECT_EQ(weights::unofficial_settings(c),
            (std::vector<std::string>{"model.norm: expected \"post\" or \"pre\", got \"sandwich\"",
                                      "model.window: expected 0, got [8, 0]",
                                      "model.norm_unit_offset: expected false, got true",
                                      "model.score_width: expected 0, got 24",
                                      "model.logit_softcap: expected 0, got 30.0",
                                      "model.value_residual: expected false, got true"}));
}

TEST(Names, MapsOfficialNames) {
  EXPECT_EQ(weights::name_of_official("word_emb.emb_layers.2.weight"), "embedding.2.weight");
  EXPECT_EQ(weights::name_of_official("word_emb.emb_projs.0"), "embedding.0.projection");
  EXPECT_EQ(weights::name_of_official("layers.11.dec_attn.qkv_net.weight"),
            "layers.11.attention.qkv.weight");
  EXPECT_EQ(weights::name_of_official("layers.0.pos_ff.CoreNet.3.bias"), "layers.0.ff.out.bias");
  EXPECT_EQ(weights::name_of_official("layers.1.dec_attn.r_w_bias"),
            "layers.1.attention.content_bias");
  EXPECT_EQ(weights::name_of_official("r_r_bias"), "attention.position_bias");
  EXPECT_EQ(weights::name_of_official("crit.cluster_bias"), "softmax.cluster.bias");
  EXPECT_EQ(weights::name_of_official("crit.out_projs.1"), "softmax.1.projection");
  for (const char* name : {"pos_emb.inv_freq", "layers.x.dec_attn.o_net.weight",
                           "layers..pos_ff.layer_norm.bias", "word_emb.emb_projs.", "other"}) {
    EXPECT_EQ(weights::name_of_official(name), "") << name;
  }
}

TEST(Names, TiedNamesGiveTheTensorThatIsThere) {
  config::ModelConfig c = small_config();
  c.embedding = 8;
  c.adaptive = config::AdaptiveConfig{{4}, 2, 8, {false, true}};
  const auto model = make_model(c, small_setup());
  const auto name = [&](const char* official) {
    const Parameter* p = find_official(*model, c, official);
    return p == nullptr ? std::string() : p->name;
  };
  EXPECT_EQ(name("crit.out_layers.1.weight"), "embedding.1.weight");
  EXPECT_EQ(name("crit.out_projs.0"), "softmax.0.projection");
  EXPECT_EQ(name("crit.out_projs.1"), "embedding.1.projection");
  EXPECT_EQ(name("crit.out_projs.7"), "");
  c.adaptive->div = 1;
  c.adaptive->tie_projection = {false, true};
  const auto one_table = make_model(c, small_setup());
  EXPECT_EQ(find_official(*one_table, c, "crit.out_projs.1")->name, "embedding.0.projection");
  c.tie_embedding = false;
  const auto untied = make_model(c, small_setup());
  EXPECT_EQ(find_official(*untied, c, "crit.out_layers.0.weight")->name, "softmax.0.weight");
}

TEST(Names, ListsEveryOfficialNameOfAParameter) {
  using Names = std::vector<std::string>;
  config::ModelConfig c = small_config();
  EXPECT_EQ(weights::official_names("embedding.0.weight", c),
            (Names{"word_emb.emb_layers.0.weight", "crit.out_layers.0.weight"}));
  EXPECT_EQ(weights::official_names("attention.content_bias", c), Names{"r_w_bias"});
  EXPECT_EQ(weights::official_names("layers.1.ff.out.bias", c),
            Names{"layers.1.pos_ff.CoreNet.3.bias"});
  EXPECT_EQ(weights::official_names("position.embedding", c), Names{});
  c.adaptive = config::AdaptiveConfig{{4, 8}, 1, 8, {false, true, true}};
  EXPECT_EQ(weights::official_names("embedding.0.projection", c),
            (Names{"word_emb.emb_projs.0", "crit.out_projs.1", "crit.out_projs.2"}));
  EXPECT_EQ(weights::official_names("softmax.0.projection", c), Names{"crit.out_projs.0"});
  c.adaptive->div = 2;
  c.tie_embedding = false;
  EXPECT_EQ(weights::official_names("embedding.2.projection", c),
            (Names{"word_emb.emb_projs.2", "crit.out_projs.2"}));
  EXPECT_EQ(weights::official_names("embedding.1.weight", c),
            Names{"word_emb.emb_layers.1.weight"});
  EXPECT_EQ(weights::official_names("softmax.1.weight", c), Names{"crit.out_layers.1.weight"});
}

class LoadOfficial : public testing::Test {
 protected:
  void SetUp() override {
    path_ = std::filesystem::temp_directory_path() /
            (std::string("mneme_names_") + std::to_string(::getpid()) + ".safetensors");
  }
  void TearDown() override { std::filesystem::remove(path_); }

  // The parameters of a small model under official names; `change` may spoil the list.
  void write(const std::vector<std::pair<std::string, at::Tensor>>& tensors) {
    SafetensorsWriter writer;
    for (const auto& [name, tensor] : tensors) {
      const at::Tensor values = tensor.contiguous();
      writer.add_copy(name, DType::F64, values.sizes().vec(), values.const_data_ptr());
    }
    writer.write(path_);
  }

  static std::vector<std::pair<std::string, at::Tensor>> official() {
    std::vector<std::pair<std::string, at::Tensor>> out = {
        {"pos_emb.inv_freq", weights::official_frequencies(small_config().width, at::kDouble)}};
    const auto model = make_model(small_config(), small_setup());
    uint64_t seed = 100;
    std::vector<std::string> names = {"word_emb.emb_layers.0.weight", "crit.out_layers.0.bias",
                                      "r_w_bias", "r_r_bias"};
    for (const char* l : {"layers.0.", "layers.1."}) {
      for (const char* n :
           {"dec_attn.qkv_net.weight", "dec_attn.r_net.weight", "dec_attn.o_net.weight",
            "dec_attn.layer_norm.weight", "dec_attn.layer_norm.bias", "pos_ff.CoreNet.0.weight",
            "pos_ff.CoreNet.0.bias", "pos_ff.CoreNet.3.weight", "pos_ff.CoreNet.3.bias",
            "pos_ff.layer_norm.weight", "pos_ff.layer_norm.bias"}) {
        names.push_back(std::string(l) + n);
      }
    }
    for (const std::string& name : names)
      out.emplace_back(
          name, random_tensor(seed++, find_official(*model, small_config(), name)->tensor.sizes()));
    return out;
  }

  std::string load_error() const {
    return error_of([&] {
      const auto model = make_model(small_config(), small_setup());
      weights::load_official({*model, small_config()}, SafetensorsFile::open(path_));
    });
  }

  std::filesystem::path path_;
};

TEST_F(LoadOfficial, FillsEveryParameter) {
  const auto tensors = official();
  write(tensors);
  const auto model = make_model(small_config(), small_setup());
  weights::load_official({*model, small_config()}, SafetensorsFile::open(path_));
  for (const auto& [name, tensor] : tensors) {
    if (name == "pos_emb.inv_freq") continue;
    EXPECT_TRUE(find_official(*model, small_config(), name)->tensor.equal(tensor)) << name;
  }
}

TEST_F(LoadOfficial, ListsAllThatDoesNotFitAndCopiesNothing) {
  auto tensors = official();
  tensors[0].second = tensors[0].second * 1.1;  // pos_emb.inv_freq
  tensors[2].second = at::ones({7}, at::kDouble);
  tensors.pop_back();
  tensors.emplace_back("r_emb", at::ones({2}, at::kDouble));
  tensors.emplace_back("crit.out_layers.0.weight", tensors[1].second + 1.0);
  write(tensors);
  const auto model = make_model(small_config(), small_setup());
  const at::Tensor before = model->parameters()[0].tensor.clone();
  const std::string message = error_of([&] {
    weights::load_official({*model, small_config()}, SafetensorsFile::open(path_));
  });
  for (const char* line : {"pos_emb.inv_freq: other position frequencies",
                           "crit.out_layers.0.bias: wrong shape: expected [11], got [7]",
                           "layers.1.pos_ff.layer_norm.bias: missing in the file",
                           "r_emb: unexpected: the model has no such parameter",
                           "word_emb.emb_layers.0.weight: differs from crit.out_layers.0.weight"}) {
    EXPECT_NE(message.find(line), std::string::npos) << line << " in\n" << message;
  }
  EXPECT_TRUE(model->parameters()[0].tensor.equal(before));
}

TEST_F(LoadOfficial, RefusesNumbersThatAreNoWeights) {
  const auto tensors = official();
  SafetensorsWriter writer;
  for (const auto& [name, tensor] : tensors) {
    const bool is_whole = name == "r_w_bias" || name == "pos_emb.inv_freq";
    writer.add_copy(name, is_whole ? DType::I64 : DType::F64, tensor.sizes().vec(),
                    tensor.contiguous().const_data_ptr());
  }
  writer.write(path_);
  for (const char* name : {"r_w_bias", "pos_emb.inv_freq"}) {
    EXPECT_NE(load_error().find(std::string(name) +
                                ": wrong dtype: expected F64, F32, F16 or BF16, got I64"),
              std::string::npos)
        << load_error();
  }
}

TEST_F(LoadOfficial, ReadTensorRefusesUnsignedNumbers) {
  const std::vector<std::uint16_t> ids = {1, 2};
  SafetensorsWriter writer;
  writer.add("ids", DType::U16, {2}, ids.data());
  writer.write(path_);
  const std::string message =
      error_of([&] { weights::read_tensor(SafetensorsFile::open(path_), "ids", at::kDouble); });
  EXPECT_NE(message.find("tensor \"ids\": its dtype cannot be read as numbers of a model"),
            std::string::npos)
      << message;
}

TEST_F(LoadOfficial, RefusesAModelThatTheOfficialCodeCannotExpress) {
  write(official());
  config::ModelConfig c = small_config();
  c.position = config::PositionScheme::kLearned;
  const auto model = make_model(c, small_setup());
  const std::string message = error_of([&] {
    weights::load_official({*model, c}, SafetensorsFile::open(path_));
  });
  EXPECT_NE(message.find("position.embedding: official models have no such parameter"),
            std::string::npos)
      << message;
}

TEST_F(LoadOfficial, ReadsOnlyNamesWithThePrefix) {
  auto tensors = official();
  for (auto& [name, tensor] : tensors) name = "module." + name;
  tensors.emplace_back("epoch", at::ones({1}, at::kDouble));
  write(tensors);
  const auto model = make_model(small_config(), small_setup());
  weights::load_official({*model, small_config()}, SafetensorsFile::open(path_), "module.");
  EXPECT_TRUE(find_official(*model, small_config(), "r_w_bias")->tensor.equal(tensors[3].second));
}

}  // namespace
}  // namespace mneme::backbone
