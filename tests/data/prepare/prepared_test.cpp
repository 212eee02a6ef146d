#include "host/data/prepare/prepared.hpp"

#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "host/base/file/file.hpp"
#include "host/data/dataset.hpp"
#include "host/data/prepare/prepare.hpp"
#include "tests/data/data_files.hpp"

namespace mneme::data {
namespace {

namespace fs = std::filesystem;

PrepareOptions prepared_words_of(const fs::path& train) {
  PrepareOptions options;
  options.files[0] = {train};
  options.vocabulary = VocabularyKind::kWord;
  return options;
}

// Prepared data that were damaged or mixed up afterwards.
class PreparedDamage : public testing::Test {
 protected:
  void SetUp() override {
    const auto train = folder_.write("train.txt", "a b a\nc\n");
    static_cast<void>(prepare(prepared_words_of(train), out_));
  }
  void refuse(const std::vector<std::string>& parts) const {
    config::DataConfig config;
    config.prepared = out_;
    expect_error(ErrorKind::kUsage, parts, [&] { Dataset{config}; });
  }
  void change(const std::string& name, const std::function<void(std::string&)>& edit) const {
    std::string text = read_file(out_ / name);
    edit(text);
    std::ofstream(out_ / name, std::ios::binary) << text;
  }
  void change_info(const std::function<void(Json&)>& edit) const {
    change("data.json", [&](std::string& text) {
      Json json = Json::parse(text);
      edit(json);
      text = json.dump();
    });
  }

  TestFolder folder_;
  fs::path out_ = folder_.path() / "out";
};

TEST_F(PreparedDamage, OfAFlippedId) {
  change("train.safetensors", [](std::string& text) { text[512] ^= 1; });
  refuse({"train.safetensors", "damaged or was changed", "expected sha256", "mneme data prepare"});
}

TEST_F(PreparedDamage, OfATruncatedFile) {
  change("train.safetensors", [](std::string& text) { text.resize(text.size() - 3); });
  refuse({"train.safetensors", "outside the file", "prepare the data again"});
  change("train.safetensors", [](std::string& text) { text.resize(4); });
  refuse({"train.safetensors", "not a safetensors file"});
  fs::remove(out_ / "train.safetensors");
  refuse({"data.prepared", "train.safetensors", "no such file"});
  fs::create_symlink("/mnt/absent_disk/ids", out_ / "train.safetensors");
  refuse({"data.prepared", "expected the ids of train",
          "a symbolic link to /mnt/absent_disk/ids, "
          "which is not there",
          "mount the disk that it leads to"});
}

TEST_F(PreparedDamage, OfDocumentsThatDoNotAscend) {
  change("train.safetensors", [](std::string& text) { text[text.size() - 8] = 2; });
  refuse({"train.safetensors: tensor documents[0]", "expected 0, got 2"});
}

TEST_F(PreparedDamage, OfOtherTensors) {
  const std::vector<float> numbers = {1.0F};
  SafetensorsWriter writer;
  writer.add("tokens", DType::F32, {1}, numbers.data());
  writer.write(out_ / "train.safetensors");
  refuse({"train.safetensors: tensor tokens", "U8, U16 or I32", "F32[1]"});
  const std::vector<std::uint8_t> ids = {1};
  SafetensorsWriter alone;
  alone.add("tokens", DType::U8, {1}, ids.data());
  alone.write(out_ / "train.safetensors");
  refuse({"tensor documents", "[d] of I64", "got none"});
}

TEST_F(PreparedDamage, OfAnotherVocabulary) {
  const std::vector<NamedText> other = {{"t", "x y\n"}};
  Vocabulary::words(other).save(out_ / "vocabulary.json");
  refuse({"vocabulary.json", "not the one that the data were prepared with", "expected sha256",
          "got a word vocabulary of 4 symbols"});
  fs::remove(out_ / "vocabulary.json");
  refuse({"data.prepared", "vocabulary.json", "no such file"});
}

TEST_F(PreparedDamage, OfTheDescription) {
  change_info([](Json& json) { json["revision"] = 3; });
  refuse({"data.json", "another revision", "expected 1 or 2, got 3"});
  change_info([](Json& json) { json["format"] = "other"; });
  refuse({"data.json", "another format", "expected mneme.prepared, got other"});
  change_info([](Json& json) {
    json["format"] = kPreparedFormat;
    json["revision"] = 1;
    json["splits"]["train"]["words"] = "many";
  });
  refuse({"data.json: train: words", "a count", "\"many\""});
  change_info([](Json& json) { json["splits"]["train"].erase("sha256"); });
  refuse({"data.json: train", "the key \"sha256\"", "got none"});
  change_info([](Json& json) { json["splits"] = 3; });
  refuse({"data.json", "splits as an object", "got 3"});
  change("data.json", [](std::string& text) { text.resize(9); });
  refuse({"data.json", "damaged", "a JSON object"});
  fs::remove(out_ / "data.json");
  refuse({"data.prepared: ", "no prepared data", "a folder without data.json"});
  fs::remove_all(out_);
  refuse({"data.prepared: ", "no such folder"});
}

TEST_F(PreparedDamage, OfARunsVocabulary) {
  config::DataConfig config;
  config.prepared = out_;
  const std::vector<NamedText> other = {{"t", "x y z q\n"}};
  expect_error(ErrorKind::kUsage,
               {"data.prepared: ", "another vocabulary than the run's",
                "expected the word vocabulary of 6 symbols", "got a word vocabulary of 5 symbols",
                "--vocabulary-file RUN/vocabulary.json"},
               [&] { Dataset(config, {.vocabulary = Vocabulary::words(other)}); });
  const std::vector<NamedText> same = {{"t", "a b a\nc\n"}};
  EXPECT_NO_THROW(Dataset(config, {.vocabulary = Vocabulary::words(same)}));
}

}  // namespace
}  // namespace mneme::data
