#include "host/data/prepare.hpp"

#include <sys/resource.h>

#include <csignal>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "host/base/file.hpp"
#include "host/base/sha256.hpp"
#include "host/data/dataset.hpp"
#include "host/data/prepared.hpp"
#include "tests/data/data_files.hpp"

namespace mneme::data {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::IsEmpty;

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

PrepareOptions words_of(const fs::path& train, const fs::path& valid = {}) {
  PrepareOptions options;
  options.files[0] = {train};
  if (!valid.empty()) options.files[1] = {valid};
  options.vocabulary = VocabularyKind::kWord;
  return options;
}

TEST(Prepare, WritesWhatADatasetReads) {
  const TestFolder folder;
  const auto train = folder.write("train.txt", "a b a\nc\n");
  const auto valid = folder.write("valid.txt", "a z\n");
  const fs::path out = folder.path() / "out";
  const Json json = prepare(words_of(train, valid), out);
  EXPECT_THAT(names_in(out), ElementsAre("data.json", "train.safetensors", "valid.safetensors",
                                         "vocabulary.json"));
  EXPECT_EQ(json, Json::parse(read_file(out / "data.json")));
  const Json& entry = json["splits"]["valid"];
  EXPECT_EQ(entry["tokens"], 3);
  EXPECT_EQ(entry["words"], 2);
  EXPECT_EQ(entry["lines"], 1);
  EXPECT_EQ(entry["bytes"], 4);
  EXPECT_EQ(entry["unknown"], 1);
  EXPECT_EQ(entry["unknown_share"], 0.5);
  EXPECT_EQ(entry["bytes_per_token"], 1);
  EXPECT_EQ(entry["sources"][0]["path"], valid.string());
  EXPECT_EQ(entry["sources"][0]["sha256"], sha256_file(valid));
  EXPECT_EQ(entry["sha256"], sha256_file(out / "valid.safetensors"));

  config::DataConfig config;
  config.prepared = out;
  const Dataset prepared(config);
  config::DataConfig plain;
  plain.train = train;
  plain.valid = valid;
  plain.vocabulary = config::Vocabulary::kWord;
  const Dataset direct(plain);
  EXPECT_TRUE(*prepared.vocabulary() == *direct.vocabulary());
  EXPECT_EQ(prepared.training_counts(), direct.training_counts());
  EXPECT_FALSE(prepared.has(Split::kTest));
  for (const Split split : {Split::kTrain, Split::kValid}) {
    const auto a = prepared.corpus(split);
    const auto b = direct.corpus(split);
    EXPECT_EQ(ids_of(a->tokens), ids_of(b->tokens));
    EXPECT_EQ(a->tokens.width(), b->tokens.width());
    EXPECT_EQ(a->documents, b->documents);
    EXPECT_EQ(a->words, b->words);
    EXPECT_EQ(a->bytes, b->bytes);
    EXPECT_EQ(a->characters, b->characters);
    EXPECT_EQ(a->lines, b->lines);
    EXPECT_EQ(a->unknown, b->unknown);
  }
  EXPECT_EQ(prepared.describe()["prepared"], out.string());
  EXPECT_EQ(prepared.describe()["train"]["sha256"], sha256_file(out / "train.safetensors"));
}

// Lines and documents across the pieces in which ids are gathered and written, in every width.
TEST(Prepare, EqualsEncodingInMemoryForLongTexts) {
  const TestFolder folder;
  for (const int types : {100, 1000, 70'000}) {
    std::string text;
    for (std::int64_t i = 0; i < 700'000; ++i) {
      text += str("w", (i * 7919) % types, i % 11 == 10 ? "\n" : " ");
      if (i % 5000 == 4999) text += "\n#\n";
    }
    PrepareOptions options = words_of(folder.write("long.txt", text));
    options.documents = {.unit = config::Documents::kMark, .mark = "#"};
    const fs::path out = folder.path() / str("out", types);
    static_cast<void>(prepare(options, out));
    const PreparedFolder prepared = PreparedFolder::open(out);
    const Corpus corpus = prepared.corpus(Split::kTrain);
    const Corpus expected = encode_corpus({}, "data.train", std::vector<NamedText>{{"t", text}},
                                          prepared.vocabulary(), options.documents);
    EXPECT_EQ(corpus.tokens.width(), types == 100 ? 1 : types == 1000 ? 2 : 4);
    EXPECT_EQ(ids_of(corpus.tokens), ids_of(expected.tokens));
    EXPECT_EQ(corpus.documents, expected.documents);
    EXPECT_EQ(corpus.documents.size(), 140U);
  }
}

TEST(Prepare, TakesFoldersAsDocumentsByName) {
  const TestFolder folder;
  fs::create_directory(folder.path() / "books");
  static_cast<void>(folder.write("books/b.txt", "BB"));
  static_cast<void>(folder.write("books/a.txt", "A"));
  PrepareOptions options;
  options.files[0] = {folder.path() / "books", folder.write("c.txt", "C")};
  static_cast<void>(prepare(options, folder.path() / "out"));
  const Corpus corpus = PreparedFolder::open(folder.path() / "out").corpus(Split::kTrain);
  EXPECT_THAT(ids_of(corpus.tokens), ElementsAre('A', 'B', 'B', 'C'));
  EXPECT_THAT(corpus.documents, ElementsAre(0, 1, 3));
}

TEST(Prepare, CutsShares) {
  const TestFolder folder;
  PrepareOptions options;
  options.files[0] = {folder.write("all.txt", "0123456789")};
  options.split = {0.8, 0.0, 0.2};
  const Json json = prepare(options, folder.path() / "out");
  EXPECT_EQ(json["splits"]["train"]["tokens"], 8);
  EXPECT_FALSE(json["splits"].contains("valid"));
  EXPECT_EQ(json["splits"]["test"]["tokens"], 2);
  EXPECT_EQ(json["splits"]["test"]["sources"][0]["bytes"], 10);

  options.files[1] = {folder.write("valid.txt", "x")};
  expect_error(ErrorKind::kUsage, {"--valid", "shares of the training file", "not both"},
               [&] { static_cast<void>(prepare(options, folder.path() / "two")); });
  options.files[1].clear();
  options.files[0].push_back(folder.write("more.txt", "x"));
  expect_error(ErrorKind::kUsage, {"--split", "one training file", "got 2"},
               [&] { static_cast<void>(prepare(options, folder.path() / "two")); });
}

// prep_enwik8.py and data_utils.py: newlines are dropped, ids by falling count over all splits.
TEST(Prepare, FollowsTheEnwik8Preparation) {
  const TestFolder folder;
  PrepareOptions options;
  options.preparation = Preparation::kEnwik8;
  options.files[0] = {folder.write("enwik8", "a\nbb\na\n\xc3\xa9 bbbbbb\nccc")};  // 18, 1, 1 bytes
  const Json json = prepare(options, folder.path() / "out");
  EXPECT_EQ(json["splits"]["train"]["tokens"], 18 - 4);
  EXPECT_EQ(json["splits"]["train"]["bytes"], 18 - 4);
  EXPECT_EQ(json["splits"]["valid"]["tokens"], 1);
  EXPECT_EQ(json["splits"]["test"]["tokens"], 1);
  EXPECT_EQ(json["settings"]["preparation"], "enwik8");
  const PreparedFolder prepared = PreparedFolder::open(folder.path() / "out");
  EXPECT_TRUE(prepared.vocabulary().drops_newlines());
  EXPECT_EQ(prepared.vocabulary().size(), 6);
  EXPECT_EQ(prepared.vocabulary().symbol(0), "b");
}

// prep_text8.py: each split loses the blanks at its ends.
TEST(Prepare, FollowsTheText8Preparation) {
  const TestFolder folder;
  PrepareOptions options;
  options.preparation = Preparation::kText8;
  options.files[0] = {folder.write("text8", " anarchism as baaayz")};
  const Json json = prepare(options, folder.path() / "out");  // 18, 1, 1
  EXPECT_EQ(json["splits"]["train"]["tokens"], 17);
  EXPECT_EQ(json["vocabulary"]["kind"], "char");
  const PreparedFolder prepared = PreparedFolder::open(folder.path() / "out");
  EXPECT_EQ(prepared.vocabulary().symbol(0), "a");
  EXPECT_TRUE(prepared.vocabulary().find("z"));  // of the test split
}

// The published counts; the files come from the user.
TEST(Prepare, GivesThePublishedCountsOfWikitext103) {
  const char* const named = std::getenv("MNEME_DATA");
  const fs::path data = named != nullptr ? fs::path(named) : fs::path(MNEME_SHARED_DATA);
  const fs::path valid = data / "wikitext-103" / "wiki.valid.tokens";
  const fs::path test = data / "wikitext-103" / "wiki.test.tokens";
  if (!fs::exists(valid) || !fs::exists(test)) {
    GTEST_SKIP() << "no " << valid << "; set MNEME_DATA to the folder that holds wikitext-103";
  }
  const TestFolder folder;
  PrepareOptions options;
  options.preparation = Preparation::kWikitext103;
  options.files[0] = {valid};
  options.files[2] = {test};
  const Json json = prepare(options, folder.path() / "out");
  EXPECT_EQ(json["splits"]["train"]["tokens"], 217'646);
  EXPECT_EQ(json["splits"]["train"]["words"], 213'886);
  EXPECT_EQ(json["splits"]["train"]["lines"], 3'760);
  EXPECT_EQ(json["splits"]["train"]["documents"], 60);
  EXPECT_EQ(json["splits"]["train"]["unknown"], 0);
  EXPECT_EQ(json["splits"]["test"]["tokens"], 245'569);
  EXPECT_EQ(json["splits"]["test"]["words"], 241'211);
  EXPECT_EQ(json["splits"]["test"]["documents"], 60);
  EXPECT_EQ(json["vocabulary"]["size"], 18'891);
}

// What must not happen: a part of a folder.
class PrepareFails : public testing::Test {
 protected:
  void expect_nothing_left() const {
    EXPECT_THAT(names_in(folder_.path()), ElementsAre("train.txt"));
  }
  TestFolder folder_;
  fs::path out_ = folder_.path() / "out";
};

TEST_F(PrepareFails, OnInvalidUtf8) {
  const auto train = folder_.write("train.txt", "a b\nc \xff\n");
  expect_error(ErrorKind::kUsage, {"train.txt:2:3: the text is not UTF-8", "byte offset 6"},
               [&] { static_cast<void>(prepare(words_of(train), out_)); });
  expect_nothing_left();
}

TEST_F(PrepareFails, OnAFullDisk) {
  const auto train = folder_.write("train.txt", std::string(9'000'000, 'x'));
  PrepareOptions options;
  options.files[0] = {train};
  // A bound on file sizes stands for the disk's end: the write that crosses it fails.
  rlimit old{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &old), 0);
  const rlimit tight = {.rlim_cur = 2'000'000, .rlim_max = old.rlim_max};
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &tight), 0);
  expect_error(ErrorKind::kRun, {"train.safetensors: cannot write: File too large", "free space"},
               [&] { static_cast<void>(prepare(options, out_)); });
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &old), 0);
  std::signal(SIGXFSZ, handler);
  expect_nothing_left();
}

TEST_F(PrepareFails, WhereNothingCanBeWritten) {
  const auto train = folder_.write("train.txt", "a\n");
  expect_error(ErrorKind::kRun, {"the folder cannot be written", "/proc/mneme/out"},
               [&] { static_cast<void>(prepare(words_of(train), "/proc/mneme/out")); });
  expect_nothing_left();
}

TEST_F(PrepareFails, WhereSomethingIs) {
  const auto train = folder_.write("train.txt", "a\n");
  expect_error(ErrorKind::kUsage, {"the place is taken", "got a folder with files", "--out"},
               [&] { static_cast<void>(prepare(words_of(train), folder_.path())); });
  expect_error(ErrorKind::kUsage, {"the place is taken", "got a file"},
               [&] { static_cast<void>(prepare(words_of(train), train)); });
  fs::create_directory(out_);
  static_cast<void>(prepare(words_of(train), out_.string() + "/"));  // an empty folder may be there
  EXPECT_FALSE(names_in(out_).empty());
}

TEST_F(PrepareFails, WhenItIsInterrupted) {
  const auto train = folder_.write("train.txt", std::string(3'000'000, 'x'));
  PrepareOptions options;
  options.files[0] = {train};
  options.on_tokens = [](std::int64_t tokens) {
    EXPECT_GE(tokens, 1'000'000);
    throw 5;
  };
  EXPECT_THROW(static_cast<void>(prepare(options, out_)), int);
  expect_nothing_left();
}

TEST_F(PrepareFails, OnAVocabularyOfAnotherKind) {
  const auto train = folder_.write("train.txt", "a\n");
  PrepareOptions options = words_of(train);
  options.vocabulary_file = folder_.path() / "v.json";
  Vocabulary::bytes().save(options.vocabulary_file);
  expect_error(ErrorKind::kUsage,
               {"--vocabulary-file: ", "v.json", "another kind", "expected --vocabulary byte"},
               [&] { static_cast<void>(prepare(options, out_)); });
}

// Prepared data that were damaged or mixed up afterwards.
class PreparedDamage : public testing::Test {
 protected:
  void SetUp() override {
    const auto train = folder_.write("train.txt", "a b a\nc\n");
    static_cast<void>(prepare(words_of(train), out_));
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
  change_info([](Json& json) { json["revision"] = 2; });
  refuse({"data.json", "another revision", "expected 1, got 2"});
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

// Anonymous resident memory of this process in bytes.
std::int64_t anonymous_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("RssAnon:")) return std::stoll(line.substr(8)) * 1024;
  }
  return -1;
}

// Growth of anonymous memory while a corpus of `bytes` is prepared, opened and read through.
std::int64_t growth_for(const TestFolder& folder, std::int64_t bytes) {
  const fs::path text = folder.path() / str(bytes, ".txt");
  {
    std::ofstream out(text, std::ios::binary);
    std::string line;
    for (std::int64_t written = 0, i = 0; written < bytes; ++i) {
      line = str("word", i % 5000, " and word", (i * 31) % 5000, " follow each other\n");
      out << line;
      written += static_cast<std::int64_t>(line.size());
    }
  }
  const std::int64_t before = anonymous_bytes();
  std::int64_t most = before;
  PrepareOptions options = words_of(text);
  options.on_tokens = [&](std::int64_t) { most = std::max(most, anonymous_bytes()); };
  static_cast<void>(prepare(options, folder.path() / str("out", bytes)));
  config::DataConfig config;
  config.prepared = folder.path() / str("out", bytes);
  const Dataset dataset(config);
  const auto stream = dataset.make_stream(
      Split::kTrain, {.lanes = 4, .segment = 512, .epochs = 1, .is_training = true});
  for (Segment segment; stream->next(segment);) continue;
  EXPECT_LT(0, before);
  return std::max(most, anonymous_bytes()) - before;
}

// A corpus 32 times as large needs no more memory: ids are written while they come and then mapped.
// Ids in memory would be 16 MB more. scripts/check_large_corpus.sh does the same with 2 GB.
TEST(Prepare, NeedsNoMoreMemoryForALargerText) {
  const TestFolder folder;
  const std::int64_t small = growth_for(folder, 2'000'000);
  const std::int64_t large = growth_for(folder, 64'000'000);
  EXPECT_LT(large - small, 6'000'000) << small << " and " << large << " bytes";
}

}  // namespace
}  // namespace mneme::data
