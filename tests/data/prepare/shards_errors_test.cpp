#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "host/base/file/checksum.hpp"
#include "host/base/file/file.hpp"
#include "host/data/corpus/id_file.hpp"
#include "host/data/prepare/prepare.hpp"
#include "host/data/prepare/prepared.hpp"
#include "tests/data/data_files.hpp"

namespace mneme::data {
namespace {

namespace fs = std::filesystem;

// A folder with three shards of three, three and two bytes that were damaged or mixed up.
class ShardDamage : public testing::Test {
 protected:
  void SetUp() override { prepare_bytes("abcdefgh", out_); }
  void prepare_bytes(const std::string& text, const fs::path& folder) const {
    PrepareOptions options;
    options.files[0] = {folder_.write("train.txt", text)};
    options.shard_tokens = 3;
    static_cast<void>(prepare(options, folder));
  }
  void refuse(const std::vector<std::string>& parts) const {
    expect_error(ErrorKind::kUsage, parts,
                 [&] { static_cast<void>(PreparedFolder::open(out_).corpus(Split::kTrain)); });
  }
  [[nodiscard]] fs::path shard(int number) const {
    return out_ / str("train-000", number, ".safetensors");
  }
  void change(const fs::path& file, const std::function<void(std::string&)>& edit) const {
    std::string text = read_file(file);
    edit(text);
    std::ofstream(file, std::ios::binary) << text;
  }
  // Edits the entry of the split in data.json as it was written.
  void change_entry(const std::function<void(Json&)>& edit) {
    if (info_.is_null()) info_ = Json::parse(read_file(out_ / "data.json"));
    Json info = info_;
    edit(info["splits"]["train"]);
    std::ofstream(out_ / "data.json") << info.dump();
  }
  // Writes a shard of these bytes in place of another one.
  void replace(int number, const std::string& bytes, std::int64_t vocabulary = 256) const {
    fs::remove(shard(number));
    IdFileWriter writer(shard(number), vocabulary);
    for (const char byte : bytes) writer.push(byte);
    writer.finish();
  }

  TestFolder folder_;
  fs::path out_ = folder_.path() / "out";
  Json info_;
};

TEST_F(ShardDamage, OfAMissingShard) {
  fs::remove(shard(2));
  refuse({"data.prepared: ", "train-0002.safetensors", "a part of the data is missing",
          "expected shard 2 of 3 of train", "got no such file", "symbolic link"});
}

TEST_F(ShardDamage, OfADiskThatIsNotMounted) {
  fs::remove(shard(3));
  fs::create_symlink("/mnt/absent_disk/train-0003.safetensors", shard(3));
  refuse({"data.prepared: ", "out/train-0003.safetensors", "expected shard 3 of 3 of train",
          "got a symbolic link to /mnt/absent_disk/train-0003.safetensors, which is not there",
          "mount the disk"});
}

TEST_F(ShardDamage, OfAFolderInItsPlace) {
  fs::remove(shard(1));
  fs::create_directory(shard(1));
  refuse({"train-0001.safetensors", "expected shard 1 of 3 of train", "got a folder"});
}

TEST_F(ShardDamage, OfAShorterShard) {
  replace(2, "de");
  refuse({"train-0002.safetensors: shard 2 of 3 of train is damaged or belongs to another",
          "expected 3 ids, as data.json says, got 2", "put this folder's own shard"});
  change(shard(2), [](std::string& text) { text.pop_back(); });
  refuse({"train-0002.safetensors", "outside the file", "prepare the data again"});
}

TEST_F(ShardDamage, OfALongerShard) {
  replace(2, "defg");
  refuse({"shard 2 of 3 of train", "expected 3 ids, as data.json says, got 4"});
  replace(2, "def");
  change(shard(2), [](std::string& text) { text += "x"; });
  refuse({"train-0002.safetensors", "prepare the data again"});
}

TEST_F(ShardDamage, OfAnotherPreparation) {
  prepare_bytes("abcdxfgh", folder_.path() / "other");
  fs::copy_file(folder_.path() / "other/train-0002.safetensors", shard(2),
                fs::copy_options::overwrite_existing);
  refuse({"train-0002.safetensors: shard 2 of 3 of train is damaged or belongs to another",
          "expected sha256 ", "got " + sha256_file(shard(2))});
}

TEST_F(ShardDamage, OfAnotherOrder) {
  fs::rename(shard(1), out_ / "kept");
  fs::rename(shard(2), shard(1));
  fs::rename(out_ / "kept", shard(2));
  refuse({"train-0001.safetensors: shard 1 of 3 of train is damaged", "expected sha256 "});
}

TEST_F(ShardDamage, OfAnotherVocabulary) {
  replace(1, "abc", 1000);
  refuse({"train-0001.safetensors", "the ids do not belong to the vocabulary",
          "expected 1 bytes an id, got 2"});
}

TEST_F(ShardDamage, OfTheDocuments) {
  replace(3, "gh");
  refuse({"train-0003.safetensors: tensor documents", "[d] of I64", "got none"});
  fs::remove(shard(3));
  IdFileWriter writer(shard(3), 256);
  writer.push('g');
  writer.push('h');
  writer.finish({0, 8});
  refuse({"train-0003.safetensors: tensor documents[1]", "expected from 1 to 7, got 8"});
}

TEST_F(ShardDamage, OfTheListsSums) {
  change_entry([](Json& entry) { entry["tokens"] = 9; });
  refuse({"data.json: train: shards", "the tokens of the shards do not add up",
          "expected 9, the tokens of the split, got 8"});
  change_entry([](Json& entry) { entry["tokens"] = 7; });
  refuse(
      {"the tokens of the shards do not add up", "expected 7, the tokens of the split, got more"});
  change_entry([](Json& entry) { entry["shards"][1]["tokens"] = INT64_MAX; });
  refuse({"the tokens of the shards do not add up", "got more"});
  change_entry([](Json& entry) { entry["shards"].erase(1); });
  refuse({"the tokens of the shards do not add up", "got 5"});
  const std::string zeros(64, '0');
  change_entry([&](Json& entry) { entry["sha256"] = zeros; });
  refuse({"data.json: train: sha256", "the checksum is not that of the shards", "got " + zeros});
}

TEST_F(ShardDamage, OfTheList) {
  change_entry([](Json& entry) { entry["shards"] = 3; });
  refuse({"data.json: train: shards", "damaged", "expected a list of files, got 3"});
  change_entry([](Json& entry) { entry["shards"] = Json::array(); });
  refuse({"expected a list of files, got []"});
  change_entry([](Json& entry) { entry["shards"][2] = 3; });
  refuse({"data.json: train: shards[2]", "the key \"file\"", "got none"});
  change_entry([](Json& entry) { entry["shards"][0]["tokens"] = -1; });
  refuse({"data.json: train: shards[0]: tokens", "expected a count, got -1"});
  change_entry([](Json& entry) { entry["shards"][0].erase("sha256"); });
  refuse({"data.json: train: shards[0]", "the key \"sha256\""});
  change_entry([](Json& entry) { entry["shards"][1]["file"] = "../train-0002.safetensors"; });
  refuse({"data.json: train: shards[1]: file", "expected the name of a file of the folder",
          "got ../train-0002.safetensors"});
}

}  // namespace
}  // namespace mneme::data
