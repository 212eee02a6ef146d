#include "host/data/prepare/shards.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <tuple>
#include <vector>

#include "host/base/file/checksum.hpp"
#include "host/base/file/file.hpp"
#include "host/data/dataset.hpp"
#include "host/data/prepare/prepare.hpp"
#include "host/data/prepare/prepared.hpp"
#include "tests/data/data_files.hpp"

namespace mneme::data {
namespace {

namespace fs = std::filesystem;
using config::Reset;
using testing::ElementsAre;
using testing::IsEmpty;

std::vector<std::string> sorted_names_in(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

PrepareOptions sharded_words_of(const fs::path& train, std::int64_t shard_tokens) {
  PrepareOptions options;
  options.files[0] = {train};
  options.vocabulary = VocabularyKind::kWord;
  options.shard_tokens = shard_tokens;
  return options;
}

Dataset dataset_of(const fs::path& folder, Reset reset = Reset::kNever) {
  config::DataConfig config;
  config.prepared = folder;
  config.reset = reset;
  return Dataset(config);
}

TEST(Shards, AreListedInOrderWithTheirChecksums) {
  const TestFolder folder;
  const auto train = folder.write("train.txt", "a b a\nc\nb b b\n");  // ten tokens
  const fs::path out = folder.path() / "out";
  PrepareOptions options = sharded_words_of(train, 4);
  options.files[1] = {folder.write("valid.txt", "a\n")};
  const Json json = prepare(options, out);
  EXPECT_EQ(json, Json::parse(read_file(out / "data.json")));
  EXPECT_THAT(sorted_names_in(out),
              ElementsAre("data.json", "train-0001.safetensors", "train-0002.safetensors",
                          "train-0003.safetensors", "valid-0001.safetensors", "vocabulary.json"));
  EXPECT_EQ(json["revision"], 2);
  EXPECT_EQ(json["settings"]["shard_tokens"], 4);
  const Json& entry = json["splits"]["train"];
  EXPECT_FALSE(entry.contains("file"));
  std::vector<std::string> names;
  std::vector<std::int64_t> tokens;
  for (const Json& shard : entry["shards"]) {
    names.push_back(shard["file"]);
    tokens.push_back(shard["tokens"]);
    EXPECT_EQ(shard["sha256"], sha256_file(out / names.back()));
  }
  EXPECT_THAT(names, ElementsAre("train-0001.safetensors", "train-0002.safetensors",
                                 "train-0003.safetensors"));
  EXPECT_THAT(tokens, ElementsAre(4, 4, 2));
  EXPECT_EQ(json["splits"]["valid"]["shards"].size(), 1U);

  // All else is what one file a split has.
  options.shard_tokens = 0;
  Json whole = prepare(options, folder.path() / "whole");
  EXPECT_EQ(whole["revision"], 1);
  EXPECT_EQ(whole["splits"]["train"]["file"], "train.safetensors");
  for (const char* split : {"train", "valid"}) {
    Json sharded_entry = json["splits"][split];
    sharded_entry.erase("shards");
    whole["splits"][split].erase("file");
    EXPECT_EQ(sharded_entry, whole["splits"][split]);
  }
}

// Its files are those of versions without shards, byte by byte.
TEST(Shards, LeaveAFolderWithoutThemAsItIs) {
  const TestFolder folder;
  const fs::path out = folder.path() / "out";
  const Json json = prepare(sharded_words_of(folder.write("train.txt", "a b a\nc\n"), 0), out);
  EXPECT_EQ(sha256_file(out / "train.safetensors"),
            "ebc5a89635581adc551789cd0e77b513f4deda3c3b555d21fd81ffa730b27c2d");
  const std::string expected = str(
      R"({"format":"mneme.prepared","revision":1,"vocabulary":{"kind":"word","size":5,)",
      R"("sha256":"4a947cbc5df534358d648f0cf2cfb94384dbc686d6bf2604abe480918cf99c4b"},)",
      R"("settings":{"preparation":"none","documents":"file","min_count":1,"vocabulary_size":0,)",
      R"("add_eos":true},"splits":{"train":{"file":"train.safetensors",)",
      R"("sha256":"ebc5a89635581adc551789cd0e77b513f4deda3c3b555d21fd81ffa730b27c2d",)",
      R"("bytes_per_token":1,"tokens":6,"documents":1,"lines":2,"words":4,"bytes":8,)",
      R"("characters":8,"unknown":0,"unknown_share":0.0,"sources":[{"path":)",
      Json((folder.path() / "train.txt").string()).dump(), R"(,"bytes":8,)",
      R"("sha256":"29b443d49230a599d12013127b13ff69a8d92bd63fb968f7b6be217a0e3bdc40"}]}}})");
  EXPECT_EQ(json.dump(), expected);
  EXPECT_EQ(read_file(out / "data.json"), Json::parse(expected).dump(2) + "\n");
}

// A text whose vocabulary has that many words, of documents with 1 to 900 words.
std::string text_of_words(int words) {
  std::string text;
  int left = 1;
  for (std::int64_t i = 0; i < 75'000; ++i) {
    text += str("w", (i * 7919) % words, i % 11 == 10 ? "\n" : " ");
    if (--left > 0) continue;
    text += "\n#\n";
    left = static_cast<int>(1 + (i * 31) % 900);
  }
  return text;
}

// Every way of cutting a corpus into lanes, with segments of 37 tokens.
std::vector<TokenSegment> cut_segments(const fs::path& folder, Reset reset, std::int64_t lanes) {
  const auto stream = dataset_of(folder, reset)
                          .make_stream(Split::kTrain, {.lanes = lanes, .segment = 37, .epochs = 1});
  return read_all(*stream);
}

class ShardedStreams : public testing::TestWithParam<std::tuple<int, std::int64_t>> {};

// Neither 37 nor the documents' lengths divide the shards' sizes, nor the reverse.
TEST_P(ShardedStreams, EqualThoseOfOneFile) {
  const auto [words, shard_tokens] = GetParam();
  const TestFolder folder;
  PrepareOptions options = sharded_words_of(folder.write("t.txt", text_of_words(words)), 0);
  options.documents = {.unit = config::Documents::kMark, .mark = "#"};
  static_cast<void>(prepare(options, folder.path() / "whole"));
  options.shard_tokens = shard_tokens;
  const Json info = prepare(options, folder.path() / "shards");
  EXPECT_EQ(info["splits"]["train"]["bytes_per_token"], words == 100 ? 1 : words == 1000 ? 2 : 4);
  EXPECT_GT(info["splits"]["train"]["shards"].size(), 1U);

  Json whole = dataset_of(folder.path() / "whole").describe();
  Json sharded = dataset_of(folder.path() / "shards").describe();
  for (Json* const one : {&whole, &sharded}) {
    one->erase("prepared");
    (*one)["train"].erase("files");
  }
  EXPECT_EQ(sharded, whole);  // counts and checksums
  const auto corpus = dataset_of(folder.path() / "shards").corpus(Split::kTrain);
  const auto expected = dataset_of(folder.path() / "whole").corpus(Split::kTrain);
  EXPECT_EQ(corpus->documents, expected->documents);
  EXPECT_EQ(ids_of(corpus->tokens), ids_of(expected->tokens));
  for (std::int64_t i = 0; i < corpus->size(); ++i) {
    ASSERT_EQ(corpus->tokens[i], expected->tokens[i]) << i;
  }
  for (const Reset reset : {Reset::kNever, Reset::kSegment, Reset::kDocument}) {
    for (const std::int64_t lanes : {1, 3}) {
      const auto a = cut_segments(folder.path() / "shards", reset, lanes);
      const auto b = cut_segments(folder.path() / "whole", reset, lanes);
      ASSERT_EQ(a.size(), b.size());
      for (std::size_t i = 0; i < a.size(); ++i) expect_equal(a[i], b[i]);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(WidthsAndSizes, ShardedStreams,
                         testing::Values(std::tuple(100, 40'009), std::tuple(100, 409),
                                         std::tuple(1000, 997), std::tuple(1000, 81'000),
                                         std::tuple(70'000, 10'007)));

// A place in one form is a place in the other: a run may go on after its data were moved.
TEST(Shards, ContinueAStreamOfOneFile) {
  const TestFolder folder;
  PrepareOptions options = sharded_words_of(folder.write("t.txt", text_of_words(100)), 0);
  static_cast<void>(prepare(options, folder.path() / "whole"));
  options.shard_tokens = 7001;
  static_cast<void>(prepare(options, folder.path() / "shards"));
  const auto make = [&](const char* name) {
    return dataset_of(folder.path() / name)
        .make_stream(Split::kTrain, {.lanes = 5, .segment = 64, .is_training = true});
  };
  const auto whole = make("whole");
  const auto shards = make("shards");
  static_cast<void>(read_all(*whole, 150));
  shards->seek(whole->position());
  const auto a = read_all(*shards, 200);  // into the next epoch
  const auto b = read_all(*whole, 200);
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) expect_equal(a[i], b[i]);
}

TEST(Shards, AreReadWhereLinksLead) {
  const TestFolder folder;
  const TestFolder other_disk;
  const auto text = folder.write("t.txt", "abcdefgh");
  PrepareOptions options;
  options.files[0] = {text};
  options.shard_tokens = 3;
  const fs::path out = folder.path() / "out";
  static_cast<void>(prepare(options, out));
  const fs::path shard = out / "train-0002.safetensors";
  fs::rename(shard, other_disk.path() / "anything");
  fs::create_symlink(other_disk.path() / "anything", shard);
  const Corpus corpus = PreparedFolder::open(out).corpus(Split::kTrain);
  EXPECT_THAT(ids_of(corpus.tokens), ElementsAre('a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'));
  EXPECT_THAT(corpus.files, ElementsAre(out / "data.json"));
  EXPECT_EQ(corpus.sha256, Json::parse(read_file(out / "data.json"))["splits"]["train"]["sha256"]);
}

// A shard that the text fills is the last one.
TEST(Shards, AreNeverEmpty) {
  const TestFolder folder;
  PrepareOptions options;
  options.files[0] = {folder.write("t.txt", "abcdef")};
  options.shard_tokens = 3;
  const Json json = prepare(options, folder.path() / "two");
  EXPECT_EQ(json["splits"]["train"]["shards"].size(), 2U);
  options.shard_tokens = 6;
  const Json one = prepare(options, folder.path() / "one");
  EXPECT_EQ(one["splits"]["train"]["shards"].size(), 1U);
  EXPECT_EQ(PreparedFolder::open(folder.path() / "one").corpus(Split::kTrain).size(), 6);
}

TEST(Shards, AreGoneAfterAnInterrupt) {
  const TestFolder folder;
  PrepareOptions options;
  options.files[0] = {folder.write("t.txt", std::string(10'000, 'x'))};
  options.shard_tokens = 3000;
  std::vector<std::int64_t> seen;
  options.on_tokens = [&](std::int64_t tokens) {
    seen.push_back(tokens);
    if (tokens == 6000) throw 5;
  };
  EXPECT_THROW(static_cast<void>(prepare(options, folder.path() / "out")), int);
  EXPECT_THAT(seen, ElementsAre(3000, 6000));
  EXPECT_THAT(sorted_names_in(folder.path()), ElementsAre("t.txt"));
}

TEST(Shards, AreGoneAfterAnError) {
  const TestFolder folder;
  const auto bad = folder.write("t.txt", "a b c d e f g \xff\n");
  expect_error(ErrorKind::kUsage, {"t.txt:1:15: the text is not UTF-8"}, [&] {
    static_cast<void>(prepare(sharded_words_of(bad, 2), folder.path() / "out"));
  });
  EXPECT_THAT(sorted_names_in(folder.path()), ElementsAre("t.txt"));
}

TEST(Shards, AreRefusedWhenTheyAreTooMany) {
  const TestFolder folder;
  PrepareOptions options;
  options.files[0] = {folder.write("t.txt", std::string(kMaxShards + 1, 'x'))};
  options.shard_tokens = 1;
  expect_error(ErrorKind::kUsage,
               {"--shard-tokens: the ids of train need more than 1000 files", "got 1"},
               [&] { static_cast<void>(prepare(options, folder.path() / "out")); });
  EXPECT_THAT(sorted_names_in(folder.path()), ElementsAre("t.txt"));
}

}  // namespace
}  // namespace mneme::data
