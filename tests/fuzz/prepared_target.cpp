// data.json of a prepared folder whose splits are a file (train) and three shards (test).
#include <nlohmann/json.hpp>

#include "host/base/text.hpp"
#include "host/data/prepare/prepared.hpp"
#include "host/data/prepare/shards.hpp"
#include "tests/fuzz/files.hpp"
#include "tests/fuzz/target.hpp"

namespace mneme::fuzz {
namespace {

namespace fs = std::filesystem;

constexpr const char* kInfo = "data.json";
constexpr std::string_view kIds = "abcdefgh";

// Writes the files that data.json describes and returns the entry of a split.
Json write_split(const fs::path& folder, const std::string& split, std::int64_t shard_tokens) {
  data::SplitWriter writer(folder, split, 256, shard_tokens);
  for (const char byte : kIds) writer.push(byte);
  Json entry = writer.finish({0, 5});
  entry["tokens"] = kIds.size();
  for (const char* count : {"bytes", "characters", "lines", "words", "unknown"}) entry[count] = 1;
  return entry;
}

// All files of the folder. They are made once, because their writers wait for the disk.
const Files& folder_files() {
  static const Files kFiles = [] {
    const fs::path& folder = empty_folder();
    const data::Vocabulary vocabulary = data::Vocabulary::bytes();
    vocabulary.save(folder / "vocabulary.json");
    const Json info = {
        {"format", data::kPreparedFormat},
        {"revision", data::kShardedRevision},
        {"vocabulary", {{"sha256", vocabulary.sha256()}}},
        {"splits",
         {{"train", write_split(folder, "train", 0)}, {"test", write_split(folder, "test", 3)}}}};
    Files files;
    for (const auto& entry : fs::directory_iterator(folder)) {
      files.texts[entry.path().filename().string()] = bytes_of(entry.path());
    }
    files.texts[kInfo] = info.dump();
    return files;
  }();
  return kFiles;
}

bool read_prepared(std::string_view input) {
  Files files = folder_files();
  files.texts[kInfo] = input;
  const fs::path& folder = empty_folder();
  write_files(folder, files,
              {kInfo, "vocabulary.json", "train.safetensors", "test-0001.safetensors",
               "test-0002.safetensors", "test-0003.safetensors"});
  return accepts([&] {
    const data::PreparedFolder prepared = data::PreparedFolder::open(folder);
    for (const data::Split split : data::kSplits) {
      if (!prepared.has(split)) continue;
      const data::Corpus corpus = prepared.corpus(split);
      require(corpus.size() == static_cast<std::int64_t>(kIds.size()), "a split has all its ids");
      for (std::int64_t i = 0; i < corpus.size(); ++i) {
        require(corpus.tokens[i] == kIds[static_cast<std::size_t>(i)], "they are in order");
      }
    }
  });
}

std::vector<std::string> prepared_seeds() { return {folder_files().texts.at(kInfo)}; }

std::vector<std::string> prepared_extremes() {
  const std::string text = prepared_seeds().front();
  const std::size_t list = text.find("\"shards\":[") + 10;
  std::string entries;
  for (int i = 0; i < 20'000; ++i) {
    entries += R"({"file":"test-0001.safetensors","tokens":0,"sha256":""},)";
  }
  return {repeated("[", 200'000), text.substr(0, list) + repeated("[", 200'000),
          text.substr(0, list) + entries + text.substr(list)};
}

}  // namespace

Target prepared_target() { return {"prepared", read_prepared, prepared_seeds, prepared_extremes}; }

}  // namespace mneme::fuzz
