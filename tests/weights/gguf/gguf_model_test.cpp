// GGUF files as model folders, and as runs.
#include "host/weights/gguf/gguf_model.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <map>
#include <numbers>
#include <vector>

#include "host/base/file/file.hpp"
#include "host/data/tokenizer/tokenizer.hpp"
#include "host/run/run_folder.hpp"
#include "host/weights/pretrained/export_folder.hpp"
#include "host/weights/pretrained/family/family_config.hpp"
#include "host/weights/pretrained/folder_record.hpp"
#include "host/weights/pretrained/import_folder.hpp"
#include "tests/base/temporary_folder.hpp"
#include "tests/weights/gguf/gguf_support.hpp"

namespace mneme::weights {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class GgufModelTest : public testing::Test {
 protected:
  [[nodiscard]] GgufModel open(const test::GgufBuilder& file) const {
    return GgufModel::open(folder_.write("m.gguf", file.bytes()));
  }
  [[nodiscard]] std::string error(const test::GgufBuilder& file) const {
    return test::error_of([&] { static_cast<void>(open(file)); });
  }
  // The settings of a config.json.
  static FolderModel model_of(const Json& config) {
    return read_config(family_of(config, "config"), config, "config");
  }
  // The tokenizer of the file; it must be read.
  [[nodiscard]] data::Tokenizer tokenizer(const test::GgufBuilder& file) const {
    data::TokenizerFiles files;
    const GgufModel model = open(file);
    for (const auto& [name, text] : model.texts()) {
      if (is_tokenizer_file(name)) files.texts.emplace(name, text);
    }
    return data::Tokenizer(std::move(files));
  }

  test::TemporaryFolder folder_;
  test::GgufBuilder file_ = test::gguf_of(test::small_llama());
};

TEST_F(GgufModelTest, HasTheContentOfTheFolder) {
  test::SmallModel biased = test::small_llama();
  biased.config["attention_bias"] = true;
  for (int layer = 0; layer < 2; ++layer) {
    for (const auto& [part, rows] :
         std::vector<std::pair<const char*, int>>{{"q", 8}, {"k", 4}, {"v", 4}, {"o", 8}}) {
      biased.tensors.push_back(
          test::numbered(str("model.layers.", layer, ".self_attn.", part, "_proj.bias"), {rows}));
    }
  }
  for (const test::SmallModel& model :
       {test::small_llama(), test::small_llama(DType::F32, /*is_tied=*/true), biased,
        test::small_qwen2(), test::small_qwen3()}) {
    SCOPED_TRACE(model.config.dump());
    const GgufModel gguf = open(test::gguf_of(model));
    const FolderModel ours = model_of(gguf.config()), theirs = model_of(model.config);
    EXPECT_THAT(differing_settings(theirs.model, ours.model), ::testing::IsEmpty());
    EXPECT_EQ(ours.vocabulary, theirs.vocabulary);
    EXPECT_TRUE(gguf.texts().empty() && gguf.notes().empty());
    ASSERT_EQ(gguf.tensors().size(), model.tensors.size());
    for (std::size_t i = 0; i < model.tensors.size(); ++i) {
      EXPECT_EQ(gguf.tensors()[i].name, model.tensors[i].name);
      EXPECT_EQ(gguf.tensors()[i].shape, model.tensors[i].shape);
      const std::vector<float> numbers = gguf.numbers(model.tensors[i].name);
      ASSERT_EQ(numbers.size() * sizeof(float), model.tensors[i].bytes.size());
      EXPECT_EQ(
          std::memcmp(numbers.data(), model.tensors[i].bytes.data(), model.tensors[i].bytes.size()),
          0)
          << model.tensors[i].name;
    }
  }
}

TEST_F(GgufModelTest, ReadsRotaryScaling) {
  file_.text("llama.rope.scaling.type", "linear");
  file_.real("llama.rope.scaling.factor", 4.0F);
  EXPECT_EQ(open(file_).config()["rope_scaling"], (Json{{"rope_type", "linear"}, {"factor", 4.0}}));
  file_.text("llama.rope.scaling.type", "yarn");
  file_.integer("llama.rope.scaling.original_context_length", 16);
  file_.real("llama.rope.scaling.yarn_beta_fast", 16.0F);
  config::RotaryConfig rotary = model_of(open(file_).config()).model.rotary;
  EXPECT_EQ(rotary.scaling, config::RotaryScaling::kYarn);
  EXPECT_EQ(rotary.factor, 4.0);
  EXPECT_EQ(rotary.original_positions, 16);
  EXPECT_EQ(rotary.beta_fast, 16.0);
  EXPECT_EQ(rotary.attention_factor, 0.0);  // of the factor
  file_.real("llama.rope.scaling.attn_factor", 2.0F);
  EXPECT_DOUBLE_EQ(model_of(open(file_).config()).model.rotary.attention_factor,
                   2.0 * (0.1 * std::log(4.0) + 1.0));
  file_.text("llama.rope.scaling.type", "longrope");
  EXPECT_THAT(error(file_),
              HasSubstr("llama.rope.scaling.type: the rotary scaling is not read: expected "
                        "\"none\" | \"linear\" | \"yarn\", got \"longrope\""));
}

TEST_F(GgufModelTest, KnowsTheFactorsOfLlama3) {
  // [convert_hf_to_gguf.py of llama.cpp], for a head of 4 with base 10000.
  const auto factor = [](double wavelength) {
    if (wavelength < 8192.0 / 4.0) return 1.0;
    if (wavelength > 8192.0) return 32.0;
    const double smooth = (8192.0 / wavelength - 1.0) / 3.0;
    return 1.0 / ((1.0 - smooth) / 32.0 + smooth);
  };
  test::SmallModel model = test::small_llama();
  model.config["rope_theta"] = 4'000'000.0;
  test::GgufBuilder file = test::gguf_of(model);
  const auto set = [&](double first, double second) {
    if (file.tensors.back().name == "rope_freqs.weight") file.tensors.pop_back();
    file.tensors.push_back(
        {"rope_freqs.weight",
         0,
         {2},
         test::raw(static_cast<float>(first)) + test::raw(static_cast<float>(second))});
  };
  set(factor(2.0 * std::numbers::pi), factor(2.0 * std::numbers::pi * 2000.0));
  const Json scaling = open(file).config()["rope_scaling"];
  EXPECT_EQ(scaling["rope_type"], "llama3");
  EXPECT_EQ(scaling["factor"], 32.0);
  EXPECT_EQ(model_of(open(file).config()).model.rotary.scaling, config::RotaryScaling::kLlama3);
  set(1.0, 1.0);
  EXPECT_FALSE(open(file).config().contains("rope_scaling"));
  set(2.0, 32.0);
  EXPECT_THAT(error(file),
              HasSubstr("rope_freqs.weight: the rotary factors are not those of Llama 3, at 0: "
                        "expected 1.0, got 2.0"));
}

TEST_F(GgufModelTest, NamesWhatIsNotRead) {
  const auto with = [&](const auto& change) {
    test::GgufBuilder file = file_;
    change(file);
    return error(file);
  };
  EXPECT_THAT(
      with([](auto& file) { file.text("general.architecture", "gemma"); }),
      HasSubstr(
          "general.architecture: the architecture is not read: expected \"llama\" | \"qwen2\" | "
          "\"qwen3\", got \"gemma\""));
  EXPECT_THAT(with([](auto& file) { file.remove("llama.block_count"); }),
              HasSubstr("llama.block_count: the model: expected such a key, got none"));
  EXPECT_THAT(
      with([](auto& file) { file.integer("llama.rope.dimension_count", 2); }),
      HasSubstr("llama.rope.dimension_count: the width of heads: expected 4, that of keys"));
  EXPECT_THAT(with([](auto& file) { file.tensors.erase(file.tensors.begin() + 1); }),
              HasSubstr("token_embd.weight: the embedding: expected [ids, width], got none"));
  EXPECT_THAT(with([](auto& file) {
                file.tensors.push_back({"model.norm.weight", 0, {8}, std::string(32, '\0')});
              }),
              HasSubstr("one of each, got another that is model.norm.weight"));
  // A key that the architecture does not have here is left to the family, which names it.
  file_.integer("llama.expert_count", 8);
  EXPECT_THAT(test::error_of([&] { static_cast<void>(model_of(open(file_).config())); }),
              HasSubstr("llama.expert_count: 8: no key of the family"));
  file_.integer("llama.expert_count", 0);
  file_.real("llama.attention.clamp_kqv", 0.0F);
  file_.flag("llama.use_parallel_residual", false);
  static_cast<void>(model_of(open(file_).config()));
}

TEST_F(GgufModelTest, HasTheTokenizerOverBytes) {
  test::add_byte_tokenizer(file_);
  const data::Tokenizer tokens = tokenizer(file_);
  EXPECT_EQ(tokens.size(), 10);
  EXPECT_EQ(tokens.encode("ab ab11<|end|>c"), (std::vector<std::int32_t>{6, 8, 9, 9, 1, 4}));
  EXPECT_EQ(tokens.decode(std::vector<std::int32_t>{6, 8, 1}), "ab ab<|end|>");
  EXPECT_TRUE(tokens.is_special(1));
  EXPECT_TRUE(tokens.beginning().empty());
  file_.flag("tokenizer.ggml.add_bos_token", true);
  EXPECT_EQ(tokenizer(file_).beginning(), std::vector<std::int32_t>{0});
  file_.integer("tokenizer.ggml.eot_token_id", 4);
  const GgufModel model = open(file_);
  const auto& texts = model.texts();
  EXPECT_EQ(Json::parse(texts.at("generation_config.json"))["eos_token_id"], (Json{1, 4}));
  EXPECT_EQ(texts.at("chat_template.jinja"), "{{ messages }}");
  EXPECT_TRUE(model.notes().empty());
  for (const auto& [end, ends] : std::map<std::uint32_t, Json>{{4, {1, 4}}, {5, {1, 4, 5}}}) {
    file_.integer("tokenizer.ggml.eom_token_id", end);
    const std::string text = open(file_).texts().at("generation_config.json");
    EXPECT_EQ(Json::parse(text)["eos_token_id"], ends);
  }
  for (const char* rule : {"default", "gpt-2", "llama-bpe", "qwen2"}) {
    file_.text("tokenizer.ggml.pre", rule);
    EXPECT_EQ(tokenizer(file_).encode("ab ab"), (std::vector<std::int32_t>{6, 8})) << rule;
  }
}

TEST_F(GgufModelTest, HasTheTokenizerOfSentencepiece) {
  const std::string space = "\xE2\x96\x81";
  file_.text("tokenizer.ggml.model", "llama");
  file_.texts("tokenizer.ggml.tokens",
              {"<unk>", "<s>", "<0x0A>", space, "a", "b", "ab", space + "a", "ba", space + "ab"});
  file_.numbers<std::int32_t>("tokenizer.ggml.token_type", test::kGgufI32,
                              {2, 3, 6, 1, 1, 1, 1, 1, 1, 1});
  file_.numbers<float>("tokenizer.ggml.scores", test::kGgufF32,
                       {0.0F, 0.0F, 0.0F, -9.0F, -8.0F, -7.0F, -2.0F, -3.0F, -1.0F, -4.0F});
  file_.integer("tokenizer.ggml.unknown_token_id", 0);
  file_.integer("tokenizer.ggml.bos_token_id", 1);
  const data::Tokenizer tokens = tokenizer(file_);
  EXPECT_EQ(tokens.encode("ab"), (std::vector<std::int32_t>{9}));
  EXPECT_EQ(tokens.encode("aba\nx"),
            (std::vector<std::int32_t>{7, 8, 2, 0}));  // "ba" has the best score
  EXPECT_EQ(tokens.decode(std::vector<std::int32_t>{9, 3, 4}), "ab a");
  EXPECT_EQ(tokens.beginning(), std::vector<std::int32_t>{1});
}

TEST_F(GgufModelTest, LeavesOutATokenizerThatIsNotRead) {
  test::add_byte_tokenizer(file_);
  file_.text("tokenizer.ggml.pre", "tekken");
  const GgufModel model = open(file_);
  EXPECT_TRUE(model.texts().empty());
  EXPECT_THAT(
      model.notes(),
      ::testing::ElementsAre(HasSubstr(
          "tokenizer.ggml.pre: the tokenizer is not read: expected \"default\" | \"gpt-2\"")));
  file_.text("tokenizer.ggml.model", "bert");
  EXPECT_THAT(open(file_).notes(),
              ::testing::ElementsAre(HasSubstr("expected \"gpt2\" | \"llama\", got \"bert\"")));
  // What contradicts itself is an error.
  test::add_byte_tokenizer(file_);
  file_.texts("tokenizer.ggml.tokens", {"a", "a"});
  EXPECT_THAT(error(file_), HasSubstr("tokenizer.ggml.token_type: its length: expected 2"));
}

TEST_F(GgufModelTest, PassesOverIdsWithoutATokenWithANote) {
  test::add_byte_tokenizer(file_);
  file_.flag("tokenizer.ggml.add_bos_token", true);
  for (const char* mark : {"bos", "eos", "eot", "eom", "unknown", "padding"}) {
    file_.integer(str("tokenizer.ggml.", mark, "_token_id"), UINT32_MAX);
  }
  EXPECT_TRUE(open(file_).notes().empty());  // the file says that there are none
  file_.integer("tokenizer.ggml.bos_token_id", 10);
  file_.integer("tokenizer.ggml.eos_token_id", 11);
  file_.integer("tokenizer.ggml.eot_token_id", 4);
  const GgufModel model = open(file_);
  EXPECT_THAT(
      model.notes(),
      ::testing::ElementsAre(
          HasSubstr("m.gguf: tokenizer.ggml.bos_token_id = 10 is passed over: ids are from 0 to 9"),
          HasSubstr("tokenizer.ggml.eos_token_id = 11 is passed over")));
  const auto json = [&](const char* name) { return Json::parse(model.texts().at(name)); };
  EXPECT_EQ(json("generation_config.json"), (Json{{"eos_token_id", 4}}));
  EXPECT_FALSE(json("tokenizer_config.json").contains("bos_token"));
  EXPECT_TRUE(tokenizer(file_).beginning().empty());
}

TEST_F(GgufModelTest, IsCutOrChangedAtEveryByte) {
  test::add_byte_tokenizer(file_);
  const std::string bytes = file_.bytes();
  const std::size_t index = file_.index().size();
  // What is said; a file that is still one gives all of its numbers.
  const auto said = [&](const std::string& changed) {
    const fs::path path = folder_.write("m.gguf", changed);
    return test::error_of([&] {
      const GgufModel model = GgufModel::open(path);
      for (const TensorView& view : model.tensors()) {
        EXPECT_EQ(model.numbers(view.name).size() * sizeof(float), view.bytes);
      }
    });
  };
  for (std::size_t i = 0; i < index; ++i) {
    EXPECT_THAT(said(bytes.substr(0, i)), HasSubstr("m.gguf")) << i;
    for (const unsigned change : {0x01U, 0x80U, 0xFFU}) {
      std::string changed = bytes;
      changed[i] = static_cast<char>(static_cast<unsigned char>(changed[i]) ^ change);
      EXPECT_THAT(said(changed), ::testing::AnyOf("no error", HasSubstr("m.gguf"))) << i;
    }
  }
}

TEST_F(GgufModelTest, BecomesARunAndAFolder) {
  const test::SmallModel small = test::small_llama(DType::BF16);
  test::GgufBuilder file = test::gguf_of(small);
  test::add_byte_tokenizer(file);
  const fs::path source = folder_.write("m.gguf", file.bytes());
  const fs::path run = folder_ / "run", out = folder_ / "out";
  FolderImportOptions options;
  options.run = run;
  const FolderImportReport report = import_folder(source, options);
  EXPECT_EQ(report.family, "llama");
  EXPECT_EQ(report.stored_types, str(small.tensors.size(), " tensors of BF16"));
  const FolderRecord record = FolderRecord::find(run).value();
  EXPECT_EQ(record.stored_types.at("BF16"), static_cast<std::int64_t>(small.tensors.size()));
  EXPECT_EQ(FolderRecord::parse(record.text(), "again").stored_types, record.stored_types);
  EXPECT_EQ(record.chat_template(), "chat_template.jinja");
  const run::RunFolder folder = run::RunFolder::open(run);
  EXPECT_EQ(folder.vocabulary().value().size(), 10);
  const run::Checkpoint checkpoint = run::Checkpoint::open(folder.checkpoint());
  EXPECT_FALSE(export_folder(checkpoint, out).is_as_imported);
  const ModelFolder exported = ModelFolder::open(out);
  for (const test::RawTensor& tensor : test::small_llama(DType::BF16).tensors) {
    const TensorView& view = *exported.find(tensor.name);
    ASSERT_EQ(view.bytes, 2 * tensor.bytes.size());
    for (std::size_t i = 0; i < tensor.bytes.size(); i += 2) {
      EXPECT_EQ(std::memcmp(view.data + 2 * i + 2, tensor.bytes.data() + i, 2), 0) << tensor.name;
    }
  }
  EXPECT_EQ(data::Tokenizer::load(out).encode("ab ab"), (std::vector<std::int32_t>{6, 8}));
  options.run = folder_ / "again";
  static_cast<void>(import_folder(out, options));  // the folder is one
}

}  // namespace
}  // namespace mneme::weights
