// The files of a model folder: what is missing, damaged, or does not fit together.
#include "host/weights/pretrained/model_folder.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "host/base/file/checksum.hpp"
#include "host/base/file/file.hpp"
#include "tests/base/temporary_folder.hpp"
#include "tests/weights/folder_support.hpp"

namespace mneme::weights {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class ModelFolderTest : public testing::Test {
 protected:
  std::string error() const {
    return test::error_of([&] { static_cast<void>(ModelFolder::open(path_)); });
  }
  // The index with changes made by `change`.
  template <typename Change>
  void change_index(const Change& change) const {
    Json index = Json::parse(read_file(path_ / kIndexName));
    change(index);
    test::write_bytes(path_ / kIndexName, index.dump());
  }

  test::TemporaryFolder folder_;
  fs::path path_ = folder_ / "model";
};

TEST_F(ModelFolderTest, ReadsOneFileAndShards) {
  const test::SmallModel model = test::small_llama();
  test::write_folder(path_, model);
  const ModelFolder single = ModelFolder::open(path_);
  EXPECT_EQ(single.names().size(), model.tensors.size());
  EXPECT_EQ(single.main_file(), path_ / "model.safetensors");
  EXPECT_EQ(digest_of(single), sha256_file(path_ / "model.safetensors"));
  const fs::path sharded_path = folder_ / "sharded";
  test::write_sharded(sharded_path, model, 5);
  const ModelFolder sharded = ModelFolder::open(sharded_path);
  EXPECT_EQ(sharded.names(), single.names());
  EXPECT_EQ(sharded.files().size(), 5U);
  EXPECT_EQ(sharded.main_file(), sharded_path / kIndexName);
  EXPECT_EQ(sharded.find("model.norm.weight")->shape, std::vector<std::int64_t>{8});
  EXPECT_EQ(sharded.find("nothing"), nullptr);
  EXPECT_EQ(digest_of(sharded).size(), 64U);
}

TEST_F(ModelFolderTest, ReleasedPagesAreReadAgain) {
  test::SmallModel model = test::small_llama();
  model.tensors = {test::numbered("big", {64, 1024})};
  test::write_folder(path_, model);
  const ModelFolder folder = ModelFolder::open(path_);
  const TensorView& view = *folder.find("big");
  release(view);
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(view.data), view.bytes),
            model.tensors[0].bytes);
}

TEST_F(ModelFolderTest, RefusesWhatIsNoModelFolder) {
  EXPECT_THAT(error(), HasSubstr("this is no model folder: expected a folder with config.json"));
  test::write_bytes(path_, "");
  EXPECT_THAT(error(), HasSubstr("got a file"));
  fs::remove(path_);
  fs::create_directory(path_);
  EXPECT_THAT(error(), HasSubstr("got a folder without"));
  test::write_bytes(path_ / "config.json", "{\"model_type\": ");
  EXPECT_THAT(error(), HasSubstr("config.json: this is no JSON, or only a part of it"));
  test::write_bytes(path_ / "config.json",  // deeper than what prints and destroys it can go
                    "{\"a\": " + std::string(100'000, '[') + std::string(100'000, ']') + "}");
  EXPECT_THAT(error(), HasSubstr("config.json: this is no JSON, or only a part of it"));
  for (const char* name : {"config.json", "generation_config.json"}) {
    const auto said = [&](const std::string& bytes) {
      test::write_bytes(path_ / "config.json", "{}");
      test::write_bytes(path_ / name, bytes);
      return error();
    };
    EXPECT_THAT(said("[1]"), HasSubstr(str(name, ": this holds no JSON object; correct it")));
    EXPECT_THAT(said(""), HasSubstr(str(name, ": the file is empty; correct it")));
    EXPECT_THAT(said("{\n  \"eos_token_id\": 2,\n}"),
                HasSubstr(str(name,
                              ": this is no JSON, or only a part of it: parse error at line 3, "
                              "column 1: ")));
    EXPECT_THAT(said("{\"best\": NaN, \"x\": 1e999} // mine"),
                HasSubstr("only a part of it: parse error at line 1, column "));
    EXPECT_THAT(said("{\"best\": NaN, \"x\": -1e999}"), HasSubstr("there are no weights"));
  }
}

TEST_F(ModelFolderTest, NamesWhatLiesInPlaceOfTheWeights) {
  fs::create_directory(path_);
  test::write_bytes(path_ / "config.json", "{}");
  EXPECT_THAT(error(), HasSubstr("there are no weights: expected model.safetensors, or "
                                 "model.safetensors.index.json with its shards, got neither"));
  test::write_bytes(path_ / "consolidated.00.pth", "");
  test::write_bytes(path_ / "model.fp16.safetensors", "");
  test::write_bytes(path_ / "tf_model.h5", "");
  EXPECT_THAT(error(), HasSubstr("got model.fp16.safetensors, consolidated.00.pth, tf_model.h5; "
                                 "rename a safetensors file that holds the whole model to "
                                 "model.safetensors, or "));
  test::write_bytes(path_ / "pytorch_model.bin", "");
  EXPECT_THAT(error(), HasSubstr("got pytorch_model.bin; scripts/pytorch_to_safetensors.py "
                                 "pytorch_model.bin model.safetensors converts them"));
  fs::rename(path_ / "pytorch_model.bin", path_ / "pytorch_model-00001-of-00002.bin");
  test::write_bytes(path_ / "pytorch_model-00002-of-00002.bin", "");
  EXPECT_THAT(error(), HasSubstr("; scripts/pytorch_to_safetensors.py pytorch_model-*.bin "
                                 "model.safetensors converts them"));
}

TEST_F(ModelFolderTest, NamesModelsInAFolderThatIsNone) {
  const fs::path cached = path_ / "snapshots" / "0a1b";
  test::write_folder(cached, test::small_llama());
  EXPECT_THAT(error(), HasSubstr("got a folder without; name a model in it: " + cached.string()));
  test::write_bytes(path_ / "m.Q4_0.gguf", "");
  EXPECT_THAT(error(), HasSubstr("name a model in it: " + (path_ / "m.Q4_0.gguf").string() + ", " +
                                 cached.string()));
  fs::remove_all(path_ / "snapshots");
  test::write_bytes(path_ / "config.json", "{}");
  EXPECT_THAT(error(), HasSubstr("got neither; name a model in it: " + path_.string()));
}

// As the Hub's cache has them, where a file was not fetched.
TEST_F(ModelFolderTest, NamesTheTargetOfALinkToNothing) {
  for (const char* name : {"config.json", "generation_config.json", "model.safetensors",
                           "adapter_config.json", "model-00002-of-00003.safetensors"}) {
    fs::remove_all(path_);
    test::write_sharded(path_, test::small_llama(), 8);
    fs::remove(path_ / name);
    fs::create_symlink("../blobs/5e", path_ / name);
    EXPECT_THAT(error(), HasSubstr(str((path_ / name).string(),
                                       ": cannot open: got a symbolic link "
                                       "to ../blobs/5e, which is not there")));
  }
  fs::remove_all(path_);
  fs::create_symlink("nowhere", path_);
  EXPECT_THAT(error(), HasSubstr("model: cannot open: got a symbolic link to nowhere"));
}

TEST_F(ModelFolderTest, NamesAPackedFileInPlaceOfAMissingOne) {
  const auto packed = [&](const std::string& name) {
    return AllOf(HasSubstr(name + ": the file is not there: got a packed file beside it; unpack "),
                 HasSubstr("gunzip -k " + (path_ / name).string() + ".gz"));
  };
  test::write_sharded(path_, test::small_llama(), 8);
  for (const char* name :
       {"config.json", "model-00002-of-00003.safetensors", "model.safetensors.index.json"}) {
    fs::rename(path_ / name, path_ / str(name, ".gz"));
    EXPECT_THAT(error(), packed(name));
    fs::rename(path_ / str(name, ".gz"), path_ / name);
  }
  fs::remove(path_ / kIndexName);
  test::write_bytes(path_ / "model.safetensors.gz", "");
  EXPECT_THAT(error(), packed("model.safetensors"));
  fs::remove_all(path_);
  test::write_bytes(folder_ / "model.tar", "");
  EXPECT_THAT(error(), AllOf(HasSubstr("this is no model folder: expected a folder with"),
                             HasSubstr("got a packed file beside it; unpack it: tar -xf ")));
  test::write_bytes(path_, "\x1F\x8B\x08...");
  EXPECT_THAT(error(), HasSubstr("or a GGUF file, got data packed by gzip; unpack it: gzip -dc "));
}

TEST_F(ModelFolderTest, NamesAnAdapter) {
  fs::create_directory(path_);
  test::write_bytes(path_ / "adapter_config.json", "{}");
  test::write_bytes(path_ / "adapter_model.safetensors", "");
  EXPECT_THAT(error(), AllOf(HasSubstr("this is an adapter, adapter_config.json, "
                                       "adapter_model.safetensors, and not a model"),
                             HasSubstr("merge_and_unload")));
}

TEST_F(ModelFolderTest, NamesADamagedFile) {
  test::write_folder(path_, test::small_llama());
  fs::resize_file(path_ / "model.safetensors", fs::file_size(path_ / "model.safetensors") - 4);
  EXPECT_THAT(error(), HasSubstr((path_ / "model.safetensors").string()));
}

TEST_F(ModelFolderTest, NamesAMissingOrDamagedShard) {
  test::write_sharded(path_, test::small_llama(), 8);
  const fs::path second = path_ / "model-00002-of-00003.safetensors";
  const std::string bytes = read_file(second);
  test::write_bytes(second, bytes.substr(0, bytes.size() - 10));
  EXPECT_THAT(error(), HasSubstr(second.string()));
  fs::remove(second);
  EXPECT_THAT(error(), HasSubstr(second.string() + ": the shard is missing; "
                                                   "model.safetensors.index.json names it for "));
}

TEST_F(ModelFolderTest, ComparesTheIndexWithTheShards) {
  test::write_sharded(path_, test::small_llama(), 8);
  const std::string first = "model-00001-of-00003.safetensors";
  change_index([&](Json& index) { index["weight_map"]["extra"] = first; });
  EXPECT_THAT(error(), AllOf(HasSubstr(first), HasSubstr("tensor \"extra\" is missing, which")));
  change_index([&](Json& index) { index["weight_map"].erase("extra"); });
  change_index([&](Json& index) { index["metadata"]["total_size"] = 12; });
  const std::vector<std::string> notes = ModelFolder::open(path_).notes();
  ASSERT_EQ(notes.size(), 1U);
  EXPECT_THAT(notes.front(),
              HasSubstr("metadata.total_size = 12 is passed over: the shards' tensors have "));
  change_index([&](Json& index) { index["metadata"]["total_size"] = "much"; });
  EXPECT_EQ(ModelFolder::open(path_).notes().size(), 1U);
  change_index([&](Json& index) { index["metadata"].erase("total_size"); });
  EXPECT_EQ(ModelFolder::open(path_).notes().size(), 0U);
  change_index([&](Json& index) { index["weight_map"].erase("model.norm.weight"); });
  EXPECT_THAT(error(), HasSubstr("tensor \"model.norm.weight\": expected a tensor that "
                                 "model.safetensors.index.json names, got it here"));
}

TEST_F(ModelFolderTest, NamesShardsThatTheIndexDoesNot) {
  test::write_sharded(path_, test::small_llama(), 8);
  const std::string last = "model-00003-of-00003.safetensors";
  change_index([&](Json& index) {
    std::vector<std::string> its_tensors;
    for (const auto& [tensor, shard] : index["weight_map"].items()) {
      if (shard == Json(last)) its_tensors.push_back(tensor);
    }
    for (const std::string& tensor : its_tensors) index["weight_map"].erase(tensor);
    index["metadata"].erase("total_size");
  });
  EXPECT_THAT(
      ModelFolder::open(path_).notes(),
      testing::ElementsAre(HasSubstr("model.safetensors.index.json: it names no tensor of " + last +
                                     ", which lies in the folder")));
  fs::remove(path_ / kIndexName);
  EXPECT_THAT(error(), AllOf(HasSubstr("the index of the shards is missing: expected "
                                       "model.safetensors.index.json"),
                             HasSubstr("got model-00001-of-00003.safetensors, "), HasSubstr(last)));
}

TEST_F(ModelFolderTest, RefusesATensorInTwoShards) {
  test::SmallModel model = test::small_llama();
  test::write_sharded(path_, model, 8);
  const fs::path last = path_ / "model-00003-of-00003.safetensors";
  test::write_bytes(last, test::file_bytes({model.tensors.end() - 6, model.tensors.end()}));
  EXPECT_THAT(error(), AllOf(HasSubstr(last.string()), HasSubstr("alone, got it here and in ")));
}

TEST_F(ModelFolderTest, RefusesABrokenIndex) {
  test::write_sharded(path_, test::small_llama(), 8);
  const std::string text = read_file(path_ / kIndexName);
  test::write_bytes(path_ / kIndexName, text.substr(0, text.size() / 2));
  EXPECT_THAT(error(), HasSubstr("model.safetensors.index.json: this is no JSON, or only a part"));
  test::write_bytes(path_ / kIndexName, "{\"weight_map\": []}");
  EXPECT_THAT(error(), HasSubstr("this is no index: expected an object weight_map"));
  test::write_bytes(path_ / kIndexName, "{}");
  EXPECT_THAT(error(), HasSubstr("got no such key"));
  test::write_bytes(path_ / kIndexName, R"({"weight_map": {"a": "../x.safetensors"}})");
  EXPECT_THAT(error(), HasSubstr("weight_map: a: expected the name of a file of the folder"));
}

}  // namespace
}  // namespace mneme::weights
