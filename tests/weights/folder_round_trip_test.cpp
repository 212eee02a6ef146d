// Model folders into runs and out again: the same bytes, and every message on the way.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "host/base/file/file.hpp"
#include "host/run/run_folder.hpp"
#include "host/weights/pretrained/export_folder.hpp"
#include "host/weights/pretrained/family/family_config.hpp"
#include "host/weights/pretrained/import_folder.hpp"
#include "host/weights/pretrained/model_folder.hpp"
#include "tests/base/temporary_folder.hpp"
#include "tests/weights/folder_support.hpp"

namespace mneme::weights {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;

class FolderRoundTrip : public testing::Test {
 protected:
  FolderImportReport import(const std::string& experiment = "",
                            const std::vector<config::Override>& overrides = {}) const {
    FolderImportOptions options{.run = run_, .overrides = overrides};
    if (!experiment.empty()) options.experiment = folder_.write("experiment.toml", experiment);
    return import_folder(source_, options);
  }
  std::string import_error(const std::string& experiment = "",
                           const std::vector<config::Override>& overrides = {}) const {
    const std::string error =
        test::error_of([&] { static_cast<void>(import(experiment, overrides)); });
    for (const auto& entry : fs::directory_iterator(folder_.path())) {
      EXPECT_THAT(entry.path().filename().string(), Not(HasSubstr("run"))) << error;
    }
    return error;
  }
  run::Checkpoint checkpoint() const {
    return run::Checkpoint::open(run::RunFolder::open(run_).checkpoint());
  }
  FolderExportReport export_to(const fs::path& out, const std::string& family = "") const {
    return export_folder(checkpoint(), out, family);
  }
  // Imports the folder and expects an export of the same files.
  void expect_same_bytes() {
    fs::remove_all(run_);
    fs::remove_all(out_);
    static_cast<void>(import());
    const FolderExportReport report = export_to(out_);
    EXPECT_TRUE(report.is_as_imported);
    EXPECT_EQ(test::files_of(out_), test::files_of(source_));
    EXPECT_EQ(report.files.size(), test::files_of(source_).size());
  }

  test::TemporaryFolder folder_;
  fs::path source_ = folder_ / "model";
  fs::path run_ = folder_ / "run";
  fs::path out_ = folder_ / "out";
};

TEST_F(FolderRoundTrip, OneFileOfEachFamily) {
  for (const test::SmallModel& model :
       {test::small_llama(), test::small_qwen2(), test::small_qwen3(), test::small_gemma2(),
        test::small_gemma3(), test::small_gpt2(), test::small_gpt2_without_prefix()}) {
    SCOPED_TRACE(model.config.dump());
    test::write_folder(source_, model);
    test::write_bytes(source_ / "generation_config.json", "{\"eos_token_id\": 2}\n");
    expect_same_bytes();
  }
}

TEST_F(FolderRoundTrip, NarrowTypesAndAnyOrder) {
  for (const DType dtype : {DType::BF16, DType::F16}) {
    test::SmallModel model = test::small_llama(dtype);
    std::ranges::reverse(model.tensors);
    model.at("model.norm.weight") = test::numbered("model.norm.weight", {8});  // F32 beside them
    test::write_folder(source_, model);
    test::write_bytes(source_ / "model.safetensors",
                      test::file_bytes(model.tensors, R"({"format":"pt","made by":"a test"})"));
    expect_same_bytes();
  }
}

TEST_F(FolderRoundTrip, Shards) {
  test::write_sharded(source_, test::small_llama(DType::BF16, /*is_tied=*/true), 4);
  expect_same_bytes();
  EXPECT_EQ(test::files_of(source_).size(), 7U);
}

TEST_F(FolderRoundTrip, TiedWithBothNamesOrTheHeadAlone) {
  test::SmallModel model = test::small_llama(DType::F32, /*is_tied=*/true);
  test::RawTensor head = model.at("model.embed_tokens.weight");
  head.name = "lm_head.weight";
  model.tensors.push_back(head);
  test::write_folder(source_, model);
  expect_same_bytes();
  model.remove("model.embed_tokens.weight");
  test::write_folder(source_, model);
  expect_same_bytes();
}

TEST_F(FolderRoundTrip, TiedWithTheSameNumbersInTwoTypes) {
  for (const DType dtype : {DType::F64, DType::F16, DType::BF16}) {
    test::SmallModel model = test::small_llama(DType::F32, /*is_tied=*/true);
    test::RawTensor head = test::numbered("model.embed_tokens.weight", {10, 8}, dtype);
    head.name = "lm_head.weight";
    model.tensors.push_back(head);
    test::write_folder(source_, model);
    expect_same_bytes();
    model.tensors.back() = test::numbered("lm_head.weight", {10, 8}, dtype);
    test::write_folder(source_, model);
    fs::remove_all(run_);
    EXPECT_THAT(import_error(),
                HasSubstr("lm_head.weight: differs from model.embed_tokens.weight"));
  }
}

TEST_F(FolderRoundTrip, AShardInAFolderOfItsOwn) {
  test::write_sharded(source_, test::small_llama(), 8);
  const std::string last = "model-00003-of-00003.safetensors";
  fs::create_directory(source_ / "more");
  fs::rename(source_ / last, source_ / "more" / last);
  Json index = Json::parse(read_file(source_ / kIndexName));
  Json& map = index["weight_map"];
  for (auto entry = map.begin(); entry != map.end(); ++entry) {
    if (*entry == Json(last)) *entry = "more/" + last;
  }
  test::write_bytes(source_ / kIndexName, index.dump());
  static_cast<void>(import());
  static_cast<void>(export_to(out_));
  for (const std::string& name : {std::string(kIndexName), "more/" + last}) {
    EXPECT_EQ(read_file(out_ / name), read_file(source_ / name));
  }
}

TEST_F(FolderRoundTrip, BuffersThatOldVersionsWrote) {
  test::SmallModel model = test::small_llama();
  model.tensors.push_back(test::numbered("model.layers.0.self_attn.rotary_emb.inv_freq", {2}));
  model.tensors.push_back(test::numbered("model.layers.1.self_attn.rotary_emb.inv_freq", {2}));
  test::write_folder(source_, model);
  expect_same_bytes();
  model = test::small_gpt2();
  model.tensors.push_back(test::causal_mask_tensor("transformer.h.1.attn.bias", 6));
  model.tensors.push_back(test::numbered("transformer.h.1.attn.masked_bias", {}));
  test::write_folder(source_, model);
  expect_same_bytes();
}

TEST_F(FolderRoundTrip, PutsNumbersWhereTheyBelong) {
  const test::SmallModel model = test::small_gpt2();
  test::write_folder(source_, model);
  const FolderImportReport report = import();
  EXPECT_EQ(report.family, "gpt2");
  EXPECT_EQ(report.memory_parameters, 0);
  const run::Checkpoint made = checkpoint();
  const TensorView& ours =
      made.file().at("model.layers.1.attention.qkv.weight", DType::F32, {24, 8});
  const std::string theirs =
      test::small_gpt2().at("transformer.h.1.attn.c_attn.weight").bytes;  // [8, 24]
  for (std::size_t row = 0; row < 24; ++row) {
    for (std::size_t column = 0; column < 8; ++column) {
      const std::string a(reinterpret_cast<const char*>(ours.data) + 4 * (row * 8 + column), 4);
      EXPECT_EQ(a, theirs.substr(4 * (column * 24 + row), 4)) << row << ' ' << column;
    }
  }
  const Json info = Json::parse(read_file(run_ / "run.json"));
  EXPECT_EQ(info.at("initial_weights").at("file"), (source_ / "model.safetensors").string());
  EXPECT_EQ(run::RunFolder::open(run_).experiment().model.positions, 6);
}

// Updates that were not trained leave the folder's bytes.
TEST_F(FolderRoundTrip, LowRankUpdatesThatWereNotTrained) {
  test::write_folder(source_, test::small_llama());
  static_cast<void>(import("", {{.key = "model.lora_rank", .value = "2"}}));
  static_cast<void>(export_to(out_));
  EXPECT_EQ(test::files_of(out_), test::files_of(source_));
}

TEST_F(FolderRoundTrip, StacksQueriesKeysAndValues) {
  const test::SmallModel model = test::small_llama();
  test::write_folder(source_, model);
  static_cast<void>(import());
  const run::Checkpoint made = checkpoint();
  const auto bytes = [&](const std::string& name) {
    const TensorView& view = made.file().at(name);
    return std::string(reinterpret_cast<const char*>(view.data), view.bytes);
  };
  const auto theirs = [&](const std::string& name) {
    return test::small_llama().at("model.layers.1." + name + ".weight").bytes;
  };
  EXPECT_EQ(bytes("model.layers.1.attention.qkv.weight"),
            theirs("self_attn.q_proj") + theirs("self_attn.k_proj") + theirs("self_attn.v_proj"));
  EXPECT_EQ(bytes("model.layers.1.ff.in.weight"), theirs("mlp.gate_proj") + theirs("mlp.up_proj"));
}

TEST_F(FolderRoundTrip, TakesTheRestFromAnExperiment) {
  test::write_folder(source_, test::small_llama(DType::F64));
  const FolderImportReport report = import(R"([model]
width = 8
dropout = 0.25
[model.rotary]
base = 10000
[data]
task = "tokens"
train = "ids.safetensors"
[train]
segment = 4
lanes = 1
steps = 7
precision = "f64"
)",
                                           {{.key = "train.steps", .value = "9"}});
  EXPECT_FALSE(report.is_rounded);
  const config::Experiment experiment = run::RunFolder::open(run_).experiment();
  EXPECT_EQ(experiment.model.dropout, 0.25);
  EXPECT_EQ(experiment.model.ff, 12);
  EXPECT_EQ(experiment.train.steps, 9);
  EXPECT_EQ(experiment.data.vocabulary_size, 10);
  static_cast<void>(export_to(out_));
  EXPECT_EQ(test::files_of(out_), test::files_of(source_));
}

TEST_F(FolderRoundTrip, CompletesARunWithoutAnExperiment) {
  test::write_folder(source_, test::small_gpt2());
  static_cast<void>(
      import("", {{.key = "train.lr", .value = "0.5"}, {.key = "model.dropout", .value = "0.0"}}));
  const config::Experiment experiment = run::RunFolder::open(run_).experiment();
  EXPECT_EQ(experiment.data.task, config::Task::kTokens);
  EXPECT_EQ(experiment.data.vocabulary_size, 10);
  EXPECT_EQ(experiment.train.segment, 6);  // as many as there are positions
  EXPECT_EQ(experiment.train.lr, 0.5);
  EXPECT_EQ(experiment.model.dropout, 0.0);
  EXPECT_EQ(experiment.model.attention_dropout, 0.1);
  fs::remove_all(run_);
  EXPECT_THAT(import_error("", {{.key = "data.task", .value = "text"}}), HasSubstr("data.train"));
}

TEST_F(FolderRoundTrip, RefusesSettingsThatContradictTheFolder) {
  test::write_folder(source_, test::small_llama());
  const std::string error = import_error(
      "[model]\nwidth = 16\nbackbone = \"gpt2\"\ndropout = 0.5\n[model.adaptive]\ncutoffs = [3]\n"
      "[data]\ntask = \"motif\"\n[train]\nsteps = 1\n",
      {{.key = "model.rotary.base", .value = "500.0"}});
  EXPECT_THAT(error, HasSubstr("config.json: it decides settings that the experiment gives "
                               "otherwise:"));
  EXPECT_THAT(error, HasSubstr("experiment.toml:2:9: model.width: expected 8, got 16"));
  EXPECT_THAT(error, HasSubstr("model.backbone: expected \"decoder\", got \"gpt2\""));
  EXPECT_THAT(error, HasSubstr("--set model.rotary.base: expected 10000.0, got 500.0"));
  EXPECT_THAT(error, HasSubstr("model.adaptive: expected no such table"));
  EXPECT_THAT(error, Not(HasSubstr("dropout")));
}

TEST_F(FolderRoundTrip, RefusesAVocabularyOfAnotherSize) {
  test::write_folder(source_, test::small_llama());
  EXPECT_THAT(import_error("[data]\ntask = \"motif\"\nalphabet = 16\n[train]\nsteps = 1\n"),
              AllOf(HasSubstr("config.json: vocab_size: the data's vocabulary does not fit the "
                              "model: expected 10 ids, got 16 ids"),
                    Not(HasSubstr("no error"))));
}

TEST_F(FolderRoundTrip, ListsTensorsThatDoNotFit) {
  test::SmallModel model = test::small_llama();
  model.remove("model.layers.1.mlp.up_proj.weight");
  model.at("model.norm.weight") = test::numbered("model.norm.weight", {9});
  model.at("lm_head.weight").dtype = DType::I32;
  model.tensors.push_back(test::numbered("model.layers.2.mlp.up_proj.weight", {12, 8}));
  test::write_folder(source_, model);
  const std::string error = import_error();
  EXPECT_THAT(error, HasSubstr("the tensors are not those of the model that config.json "
                               "describes:"));
  EXPECT_THAT(error, HasSubstr("model.layers.1.mlp.up_proj.weight: missing: expected [12, 8]"));
  EXPECT_THAT(error, HasSubstr("model.norm.weight: wrong shape: expected [8], got [9]"));
  EXPECT_THAT(error, HasSubstr("lm_head.weight: wrong dtype: expected F32, BF16, F16 or F64, got "
                               "I32"));
  EXPECT_THAT(error, HasSubstr("model.layers.2.mlp.up_proj.weight: unexpected: the model has no "
                               "such parameter: [12, 8]"));
}

TEST_F(FolderRoundTrip, NamesAWrapperInPlaceOfAllTensors) {
  for (const char* front : {"_orig_mod.", "module.", "base_model.model."}) {
    for (const test::SmallModel& small :
         {test::small_llama(), test::small_llama(DType::F32, /*is_tied=*/true)}) {
      test::SmallModel model = small;
      for (test::RawTensor& tensor : model.tensors) tensor.name = front + tensor.name;
      test::write_folder(source_, model);
      EXPECT_THAT(import_error(),
                  AllOf(HasSubstr(str("model: all names of tensors begin with \"", front,
                                      "\": expected model.embed_tokens.weight, got ", front,
                                      "model.embed_tokens.weight; save the model inside of")),
                        Not(HasSubstr("missing"))));
    }
  }
  test::SmallModel model = test::small_llama();
  model.at("model.layers.1.self_attn.q_proj.weight").name =
      "model.layers.1.self_attn.q_proj.base_layer.weight";
  test::write_folder(source_, model);
  EXPECT_THAT(import_error(),
              HasSubstr("q_proj.base_layer.weight: these are the weights of a model "
                        "with an adapter (peft); save it after merge_and_unload"));
}

TEST_F(FolderRoundTrip, RefusesTiesThatTheTensorsDoNotHave) {
  test::SmallModel model = test::small_llama();
  model.config["tie_word_embeddings"] = true;
  test::write_folder(source_, model);
  EXPECT_THAT(import_error(), HasSubstr("lm_head.weight: differs from model.embed_tokens.weight, "
                                        "to which tie_word_embeddings ties it"));
  model = test::small_llama();
  model.remove("lm_head.weight");
  test::write_folder(source_, model);
  EXPECT_THAT(import_error(), HasSubstr("lm_head.weight: missing: expected [10, 8], because "
                                        "tie_word_embeddings is false"));
}

TEST_F(FolderRoundTrip, RefusesAMaskThatIsNotCausal) {
  test::SmallModel model = test::small_gpt2_without_prefix();
  model.at("h.1.attn.bias") = test::numbered("h.1.attn.bias", {1, 1, 6, 6});
  test::write_folder(source_, model);
  EXPECT_THAT(import_error(), HasSubstr("h.1.attn.bias: expected the mask of a causal model"));
}

TEST_F(FolderRoundTrip, RefusesFoldersThatAreTaken) {
  test::write_folder(source_, test::small_llama());
  static_cast<void>(import());
  EXPECT_THAT(test::error_of([&] { static_cast<void>(import()); }),
              HasSubstr("the run's folder is taken"));
  EXPECT_THAT(test::error_of([&] { static_cast<void>(export_to(source_)); }),
              AllOf(HasSubstr("the folder is taken"), HasSubstr("--to")));
}

TEST_F(FolderRoundTrip, WritesAFamilyAnew) {
  test::write_sharded(source_, test::small_qwen3(), 3);
  static_cast<void>(import());
  const FolderExportReport report = export_to(out_, "qwen3");
  EXPECT_FALSE(report.is_as_imported);
  EXPECT_EQ(report.files, (std::vector<std::string>{"config.json", "model.safetensors"}));
  const SafetensorsFile file = SafetensorsFile::open(out_ / "model.safetensors");
  for (const test::RawTensor& tensor : test::small_qwen3().tensors) {
    const TensorView& view = file.at(tensor.name, tensor.dtype, tensor.shape);
    EXPECT_EQ(std::string(reinterpret_cast<const char*>(view.data), view.bytes), tensor.bytes)
        << tensor.name;
  }
  EXPECT_EQ(file.metadata_at("format"), "pt");
  EXPECT_THAT(test::error_of([&] { static_cast<void>(export_to(folder_ / "x", "llama")); }),
              HasSubstr("model.qk_norm: expected false, got true"));
  EXPECT_THAT(test::error_of([&] { static_cast<void>(export_to(folder_ / "x", "bert")); }),
              HasSubstr("--family: expected gemma, gemma2, gemma3_text, gpt2, llama, mistral, "
                        "qwen2, qwen3, got bert"));
  EXPECT_FALSE(fs::exists(folder_ / "x"));
}

TEST_F(FolderRoundTrip, RefusesARecordThatIsMissingDamagedOrOfAnotherModel) {
  test::write_folder(source_, test::small_llama());
  static_cast<void>(import());
  const fs::path path = run_ / "pretrained.json";
  const std::string text = read_file(path);
  const auto error = [&](const std::string& changed) {
    test::write_bytes(path, changed);
    return test::error_of([&] { static_cast<void>(export_to(out_)); });
  };
  const auto with = [&](const std::string& key, const Json& value) {
    Json json = Json::parse(text);
    json[key] = value;
    return json.dump();
  };
  EXPECT_THAT(error(text.substr(0, 50)), HasSubstr("pretrained.json: format"));
  EXPECT_THAT(error(with("revision", 2)), HasSubstr("pretrained.json: revision: the record of the "
                                                    "imported folder cannot be read: expected 1"));
  EXPECT_THAT(error(with("family", 2)), HasSubstr("family: the record"));
  EXPECT_THAT(error(with("family", "x")), HasSubstr("the family is not known"));
  EXPECT_THAT(error(with("files", Json::array())), HasSubstr("expected a list of files"));
  EXPECT_THAT(error(with("kept", 1)), HasSubstr("kept: the record"));
  EXPECT_THAT(error(with("files", {{{"name", "a"}, {"header", "{\"x\":{}}"}}})),
              HasSubstr("a: x: the recorded header cannot be read"));
  EXPECT_THAT(error(with("files", {{{"name", "../a"}, {"header", ""}}})),
              HasSubstr("expected names inside the folder"));
  Json config = Json::parse(text).at("config");
  Json changed = Json::parse(config.get<std::string>());
  changed["rope_theta"] = 500.0;
  EXPECT_THAT(error(with("config", changed.dump())),
              AllOf(HasSubstr("the model is not the imported one any more:"),
                    HasSubstr("model.rotary.base: expected 500.0, got 10000.0"),
                    HasSubstr("--family llama")));
  fs::remove(path);
  EXPECT_THAT(test::error_of([&] { static_cast<void>(export_to(out_)); }),
              HasSubstr("its weights are not from a Hugging Face model folder; name the family"));
  EXPECT_FALSE(fs::exists(out_));
}

}  // namespace
}  // namespace mneme::weights
