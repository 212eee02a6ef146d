// What lies beside the weights of a folder: files that a run keeps and gives back, adapters, keys
// that are passed over, windows.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "host/base/file/file.hpp"
#include "host/data/tokenizer/tokenizer.hpp"
#include "host/data/vocabulary/vocabulary.hpp"
#include "host/run/run_folder.hpp"
#include "host/weights/pretrained/end_of_text.hpp"
#include "host/weights/pretrained/export_folder.hpp"
#include "host/weights/pretrained/folder_record.hpp"
#include "host/weights/pretrained/import_folder.hpp"
#include "tests/base/temporary_folder.hpp"
#include "tests/data/tokenizer/pieces/piece_builder.hpp"
#include "tests/weights/folder_support.hpp"

namespace mneme::weights {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class FolderBeside : public testing::Test {
 protected:
  void SetUp() override { test::write_folder(source_, test::small_llama()); }
  void import(const std::vector<std::string>& ignored = {}) const {
    fs::remove_all(run_);
    static_cast<void>(import_folder(source_, {.run = run_, .ignored = ignored}));
  }
  std::string import_error(const std::vector<std::string>& ignored = {}) const {
    return test::error_of([&] { import(ignored); });
  }
  FolderExportReport export_to(const fs::path& out, const std::string& family = "") const {
    const run::Checkpoint checkpoint =
        run::Checkpoint::open(run::RunFolder::open(run_).checkpoint());
    return export_folder(checkpoint, out, family);
  }
  void change_config(const Json& changes) const {
    Json config = Json::parse(read_file(source_ / "config.json"));
    for (const auto& [key, value] : changes.items()) config[key] = value;
    test::write_bytes(source_ / "config.json", config.dump());
  }
  void write(const std::string& name, const std::string& bytes) const {
    test::write_bytes(source_ / name, bytes);
  }

  test::TemporaryFolder folder_;
  fs::path source_ = folder_ / "model";
  fs::path run_ = folder_ / "run";
  fs::path out_ = folder_ / "out";
};

// A byte-level tokenizer of a token for each letter; models have ten ids.
std::string tokenizer_of(const std::string& letters) {
  Json json = Json::parse(R"({"version": "1.0", "added_tokens": [], "normalizer": null,
    "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true,
                      "use_regex": true},
    "post_processor": null, "decoder": {"type": "ByteLevel"},
    "model": {"type": "BPE", "vocab": {}, "merges": []}})");
  for (const char letter : letters) {
    json["model"]["vocab"][std::string(1, letter)] = json["model"]["vocab"].size();
  }
  return json.dump(1);
}

TEST_F(FolderBeside, TheRunKeepsTheFilesOfTheTokenizer) {
  write("tokenizer.json", tokenizer_of("abc"));
  write("tokenizer_config.json", R"({"eos_token": "c", "chat_template": "{{ messages }}"})");
  write("special_tokens_map.json", R"({"eos_token": "c"})");
  write("vocab.json", R"({"not": "read"})");
  write("merges.txt", "#version: 0.2\n");
  write("tokenizer.model", std::string("\x0a\xff\x00\x80", 4));  // binary
  write("chat_template.jinja", "{{ messages | length }}\n");
  write("generation_config.json", "{\"eos_token_id\": 2}\n");
  const std::map<std::string, std::string> files = test::files_of(source_);
  import();
  fs::remove_all(source_);
  const FolderExportReport report = export_to(out_);
  EXPECT_EQ(test::files_of(out_), files);
  EXPECT_EQ(report.files.size(), files.size());
}

TEST_F(FolderBeside, ATokenizerModelAloneIsTheVocabularyOfTheRun) {
  const std::string model = test::PieceModel::of({"a", "b"}).bytes();
  write("tokenizer.model", model);
  import();
  fs::remove_all(source_);
  const data::Vocabulary vocabulary = data::Vocabulary::load(run_ / "vocabulary.json");
  ASSERT_NE(vocabulary.tokenizer(), nullptr);
  EXPECT_EQ(vocabulary.tokenizer()->encode("ab").size(), 3U);
  static_cast<void>(export_to(out_));
  EXPECT_EQ(read_file(out_ / "tokenizer.model"), model);
}

TEST_F(FolderBeside, TheRecordNamesTheFileOfAChatTemplate) {
  const auto found = [&] {
    import();
    return FolderRecord::find(run_)->chat_template();
  };
  write("tokenizer.json", tokenizer_of("abc"));
  EXPECT_EQ(found(), "");
  write("tokenizer_config.json", R"({"eos_token": "c", "chat_template": null})");
  EXPECT_EQ(found(), "");
  write("tokenizer_config.json", R"({"chat_template": "{{ messages }}"})");
  EXPECT_EQ(found(), "tokenizer_config.json");
  fs::create_directory(source_ / "additional_chat_templates");
  write("additional_chat_templates/tools.jinja", "tools");
  EXPECT_EQ(found(), "additional_chat_templates/tools.jinja");
  write("chat_template.jinja", "{{ messages }}");
  EXPECT_EQ(found(), "chat_template.jinja");
}

TEST_F(FolderBeside, TheRunKeepsTemplatesInAFolderAndNothingElse) {
  fs::create_directory(source_ / "additional_chat_templates");
  write("additional_chat_templates/tools.jinja", "tools");
  write("additional_chat_templates/x.txt", "x");
  write("README.md", "about");
  import();
  static_cast<void>(export_to(out_));
  EXPECT_EQ(read_file(out_ / "additional_chat_templates/tools.jinja"), "tools");
  EXPECT_FALSE(fs::exists(out_ / "additional_chat_templates/x.txt"));
  EXPECT_FALSE(fs::exists(out_ / "README.md"));
}

TEST_F(FolderBeside, ALinkToNothingBesideTheWeightsIsRefused) {
  for (const char* name : {"special_tokens_map.json", "chat_template.jinja",
                           "additional_chat_templates", "additional_chat_templates/tools.jinja"}) {
    fs::create_directories((source_ / name).parent_path());
    fs::create_symlink("nowhere", source_ / name);
    EXPECT_THAT(import_error(), HasSubstr(str(name,
                                              ": cannot open: got a symbolic link to nowhere, "
                                              "which is not there")));
    fs::remove(source_ / name);
  }
}

// transformers writes them; JSON has them not.
TEST_F(FolderBeside, NumbersThatJsonHasNotAreRead) {
  const std::string config = read_file(source_ / "config.json");
  write("config.json", "{\"initializer_range\": Infinity, " + config.substr(1));
  write("generation_config.json", R"({"temperature": 1e999, "eos_token_id": 2})");
  write("tokenizer.json", tokenizer_of("abc"));
  write("tokenizer_config.json", R"({"model_max_length": Infinity, "chat_template": "{{ x }}"})");
  import();
  const FolderRecord record = FolderRecord::find(run_).value();
  EXPECT_EQ(record.chat_template_text(), "{{ x }}");
  EXPECT_THAT(end_of_text(record, "run").ids, ElementsAre(2));
  static_cast<void>(export_to(out_));
  EXPECT_EQ(test::files_of(out_), test::files_of(source_));
  write("config.json", "{\"best_loss\": NaN, " + config.substr(1));
  EXPECT_THAT(import_error(), AllOf(HasSubstr("best_loss: \"NaN\": no key of the family"),
                                    HasSubstr("passed over with --ignore best_loss")));
  import({"best_loss"});
  const std::string theta = "10000.0";
  std::string without_turns = config;
  write("config.json", without_turns.replace(config.find(theta), theta.size(), "Infinity"));
  EXPECT_THAT(import_error(), HasSubstr("rope_theta: expected a number above 0, got \"Infinity\""));
}

TEST_F(FolderBeside, AnotherTokenizerOfTheRunIsWrittenInPlaceOfTheFolders) {
  write("tokenizer.json", tokenizer_of("abc"));
  write("chat_template.jinja", "of the folder's tokenizer");
  const fs::path other = folder_.write("mine.json", tokenizer_of("abcd"));
  static_cast<void>(import_folder(
      source_,
      {.run = run_,
       .overrides = {{.key = "data.vocabulary", .value = "\"tokenizer\""},
                     {.key = "data.vocabulary_file", .value = "\"" + other.string() + "\""},
                     {.key = "data.train", .value = "\"x.txt\""}}}));
  for (const char* family : {"", "llama"}) {
    fs::remove_all(out_);
    static_cast<void>(export_to(out_, family));
    EXPECT_EQ(read_file(out_ / "tokenizer.json"), tokenizer_of("abcd"));
    EXPECT_FALSE(fs::exists(out_ / "chat_template.jinja"));
  }
}

TEST_F(FolderBeside, ARecordNamesNoFileOutsideTheFolder) {
  import();
  const fs::path path = run_ / "pretrained.json";
  const Json record = Json::parse(read_file(path));
  const auto error = [&](const char* key, const Json& value) {
    Json changed = record;
    changed[key] = value;
    test::write_bytes(path, changed.dump());
    return test::error_of([&] { static_cast<void>(export_to(out_)); });
  };
  for (const char* name : {"../x", "/tmp/x", "a/../../x", ""}) {
    EXPECT_THAT(error("beside", {{name, "x"}}), HasSubstr("expected names inside the folder"));
  }
  EXPECT_THAT(error("beside", 1), HasSubstr("beside: the record of the imported folder cannot be "
                                            "read: expected an object"));
  EXPECT_THAT(error("beside", {{"a", 1}}), HasSubstr("expected texts"));
  EXPECT_THAT(error("beside", {{"a", {{"hex", "0g"}}}}), HasSubstr("expected hexadecimal digits"));
  EXPECT_THAT(error("ignored", {1}),
              HasSubstr("ignored: the record of the imported folder cannot be "
                        "read: expected a list of strings"));
  EXPECT_FALSE(fs::exists(out_));
  Json older = record;  // without these keys
  older.erase("beside");
  older.erase("ignored");
  test::write_bytes(path, older.dump());
  static_cast<void>(export_to(out_));
}

TEST_F(FolderBeside, IgnoredKeysAreRecorded) {
  change_config({{"flavour", "sweet"}, {"partial_rotary_factor", 0.5}});
  EXPECT_THAT(import_error(), AllOf(HasSubstr("flavour: \"sweet\": no key"),
                                    HasSubstr("passed over with --ignore flavour")));
  EXPECT_THAT(import_error({"flavor"}),
              HasSubstr("--ignore flavor: there is no such key in " +
                        (source_ / "config.json").string() + " (did you mean \"flavour\"?)"));
  EXPECT_FALSE(fs::exists(run_));
  import({"flavour", "partial_rotary_factor"});
  const Json record = Json::parse(read_file(run_ / "pretrained.json"));
  EXPECT_EQ(record.at("ignored"), Json({"flavour", "partial_rotary_factor"}));
  EXPECT_THAT(read_file(run_ / "log.txt"),
              HasSubstr("passed over, because --ignore names it: flavour, partial_rotary_factor"));
  static_cast<void>(export_to(out_));
  EXPECT_EQ(test::files_of(out_), test::files_of(source_));
}

TEST_F(FolderBeside, IgnoredTensorsMayBeNamedByAPattern) {
  test::SmallModel model = test::small_llama();
  for (const char* name : {"vision.0.weight", "vision.1.weight"})
    model.tensors.push_back(test::numbered(name, {2}));
  test::write_folder(source_, model);
  EXPECT_THAT(import_error(), HasSubstr("vision.0.weight: unexpected"));
  EXPECT_THAT(import_error({"visual.*"}), HasSubstr("--ignore 'visual.*': there is no such key"));
  EXPECT_THAT(import_error({"vision.*", "model.norm.*"}),
              HasSubstr("model.norm.weight: a parameter of the model cannot be passed over"));
  EXPECT_FALSE(fs::exists(run_));
  import({"vision.*"});
  EXPECT_EQ(Json::parse(read_file(run_ / "pretrained.json")).at("ignored"),
            Json({"vision.0.weight", "vision.1.weight"}));
}

TEST_F(FolderBeside, PassedOverKeysAreSaid) {
  change_config({{"_remark", "mine"}, {"sliding_window", 12}});
  import();
  EXPECT_THAT(read_file(run_ / "log.txt"),
              HasSubstr("config.json: passed over, because models of this family have no such "
                        "setting: _remark, sliding_window"));
}

TEST_F(FolderBeside, AnAdapterIsRefusedUnlessItIsIgnored) {
  write("adapter_config.json", "{}");
  write("adapter_model.safetensors", "");
  EXPECT_THAT(import_error(), AllOf(HasSubstr("adapter_config.json: an adapter lies in the folder, "
                                              "which is not applied"),
                                    HasSubstr("--ignore adapter_config.json")));
  import({"adapter_config.json"});
  fs::remove(source_ / "adapter_config.json");
  EXPECT_THAT(import_error(), HasSubstr("--ignore adapter_model.safetensors"));
  EXPECT_THAT(import_error({"adapter_config.json"}), HasSubstr("there is no such key"));
}

TEST_F(FolderBeside, BuffersOfRotaryPositionsAreKept) {
  const auto expect_kept = [&](test::SmallModel model, const std::vector<std::string>& names) {
    for (const std::string& name : names) model.tensors.push_back(test::numbered(name, {2}));
    if (model.config["model_type"] != "llama") {
      model.tensors.push_back(test::numbered("model.embed_tokens.embed_scale", {}));
    }
    test::write_folder(source_, model);
    import();
    fs::remove_all(out_);
    static_cast<void>(export_to(out_));
    EXPECT_EQ(test::files_of(out_), test::files_of(source_)) << model.config["model_type"];
  };
  std::vector<std::string> names;
  for (const char* place : {"model", "model.layers.1.self_attn"}) {
    for (const char* buffer : {"inv_freq", "original_inv_freq", "cos_cached", "sin_cached"}) {
      names.push_back(str(place, ".rotary_emb.", buffer));
    }
  }
  expect_kept(test::small_llama(), names);
  expect_kept(test::small_gemma2(), names);
  for (const char* buffer : {"inv_freq", "original_inv_freq"}) {
    names.push_back(str("model.rotary_emb_local.", buffer));
    names.push_back(str("model.rotary_emb.full_attention_", buffer));
    names.push_back(str("model.rotary_emb.sliding_attention_", buffer));
  }
  expect_kept(test::small_gemma3(), names);
}

// Constants that are too large to keep, and tensors that the model does not need.
TEST_F(FolderBeside, TensorsThatArePassedOverAreLeftOutOfAnExport) {
  const test::SmallModel plain = test::small_llama();
  test::SmallModel model = plain;
  model.tensors.insert(model.tensors.begin() + 3,
                       test::numbered("model.layers.0.self_attn.rotary_emb.cos_cached", {20000}));
  model.tensors.push_back(test::numbered("v_head.weight", {1, 8}));
  test::write_folder(source_, model);
  EXPECT_THAT(import_error(), AllOf(HasSubstr("v_head.weight: unexpected"),
                                    HasSubstr("passed over with --ignore NAME")));
  EXPECT_THAT(import_error({"v_head.weight", "model.norm.weight"}),
              HasSubstr("model.norm.weight: a parameter of the model cannot be passed over"));
  import({"v_head.weight"});
  EXPECT_THAT(
      read_file(run_ / "log.txt"),
      HasSubstr("left out of an export: model.layers.0.self_attn.rotary_emb.cos_cached and 1 "
                "more"));
  static_cast<void>(export_to(out_));
  const auto same_tensors = [&](const fs::path& path) {
    const SafetensorsFile file = SafetensorsFile::open(path);
    for (const std::string& name : file.names()) {
      const TensorView& view = file.at(name);
      EXPECT_EQ(std::string(reinterpret_cast<const char*>(view.data), view.bytes),
                test::SmallModel(plain).at(name).bytes);
    }
    return file.names().size();
  };
  EXPECT_EQ(same_tensors(out_ / "model.safetensors"), plain.tensors.size());
  test::TemporaryFolder sharded;
  fs::remove_all(source_);
  test::write_sharded(source_, model, 9);
  fs::remove_all(out_);
  import({"v_head.weight"});
  static_cast<void>(export_to(out_));
  EXPECT_EQ(same_tensors(out_ / "model-00001-of-00003.safetensors"), 8U);
  EXPECT_EQ(same_tensors(out_ / "model-00003-of-00003.safetensors"), 4U);
  const Json index = Json::parse(read_file(out_ / "model.safetensors.index.json"));
  EXPECT_EQ(index.at("weight_map").size(), plain.tensors.size());
  EXPECT_THAT(ModelFolder::open(out_).notes(), IsEmpty());  // on total_size
  static_cast<void>(import_folder(out_, {.run = folder_ / "again"}));
}

TEST_F(FolderBeside, AWindowIsASettingOfTheRun) {
  change_config({{"model_type", "mistral"}, {"architectures", nullptr}, {"sliding_window", 12}});
  import();
  const config::Experiment experiment = run::RunFolder::open(run_).experiment();
  EXPECT_THAT(experiment.model.window, ElementsAre(12));
  EXPECT_EQ(experiment.train.segment, 128);
  static_cast<void>(export_to(out_));
  EXPECT_EQ(test::files_of(out_), test::files_of(source_));
  import({"sliding_window"});
  EXPECT_THAT(run::RunFolder::open(run_).experiment().model.window, IsEmpty());
}

TEST_F(FolderBeside, AScalingWithABoundBoundsTheSegmentsOfARunWithoutAnExperiment) {
  change_config({{"max_position_embeddings", 12},
                 {"rope_scaling", {{"rope_type", "dynamic"}, {"factor", 4.0}}}});
  import();
  const config::Experiment experiment = run::RunFolder::open(run_).experiment();
  EXPECT_EQ(experiment.train.segment, 12);
  EXPECT_EQ(experiment.eval.segment, 12);
  EXPECT_THAT(read_file(run_ / "log.txt"),
              HasSubstr("\"dynamic\" are the plain ones in contexts of at most 12 tokens"));
}

TEST(EndOfText, IsThatOfGenerationConfigElseOfConfig) {
  FolderRecord record{.config = R"({"eos_token_id": 3})"};
  const auto ids = [&](const std::string& generation) {
    record.generation_config = generation;
    return end_of_text(record, "run");
  };
  EXPECT_THAT(ids("").ids, ElementsAre(3));
  EXPECT_EQ(ids("").source, "config.json");
  EXPECT_THAT(ids(R"({"do_sample": true})").ids, ElementsAre(3));
  EXPECT_THAT(ids(R"({"eos_token_id": [5, 0]})").ids, ElementsAre(5, 0));
  EXPECT_EQ(ids(R"({"eos_token_id": 4})").source, "generation_config.json");
  EXPECT_THAT(ids(R"({"eos_token_id": null})").ids, IsEmpty());
  EXPECT_THAT(ids(R"({"eos_token_id": []})").ids, IsEmpty());
  EXPECT_THAT(ids(R"({"eos_token_id": [1, -1, 9999999999]})").ids, ElementsAre(1));  // never drawn
  record.config = "{}";
  EXPECT_THAT(ids("").ids, IsEmpty());
  for (const char* wrong : {R"("</s>")", "[1, [2]]", "2.5", "true"}) {
    const std::string error =
        test::error_of([&] { static_cast<void>(ids(str("{\"eos_token_id\": ", wrong, '}'))); });
    EXPECT_THAT(error,
                AllOf(HasSubstr("run: generation_config.json: eos_token_id: this names no end "
                                "of a text: expected an id, a list of ids, or null"),
                      HasSubstr("--ignore-eos")));
  }
}

}  // namespace
}  // namespace mneme::weights
