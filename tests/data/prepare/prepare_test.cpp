#include "host/data/prepare/prepare.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "host/base/file/checksum.hpp"
#include "host/base/file/file.hpp"
#include "host/base/json_text.hpp"
#include "host/data/dataset.hpp"
#include "host/data/prepare/prepared.hpp"
#include "tests/base/log_capture.hpp"
#include "tests/data/data_files.hpp"

namespace mneme::data {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

PrepareOptions prepare_words_of(const fs::path& train, const fs::path& valid = {}) {
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
  const Json json = prepare(prepare_words_of(train, valid), out);
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
    EXPECT_EQ(a->counts.words, b->counts.words);
    EXPECT_EQ(a->counts.bytes, b->counts.bytes);
    EXPECT_EQ(a->counts.characters, b->counts.characters);
    EXPECT_EQ(a->counts.lines, b->counts.lines);
    EXPECT_EQ(a->counts.unknown, b->counts.unknown);
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
    PrepareOptions options = prepare_words_of(folder.write("long.txt", text));
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

TEST(Prepare, LeavesHiddenFilesAndCopiesOfEditorsOut) {
  const TestFolder folder;
  fs::create_directories(folder.path() / "books" / "inner");
  static_cast<void>(folder.write("books/a.txt", "A"));
  static_cast<void>(folder.write("books/a.txt~", "old"));
  static_cast<void>(folder.write("books/.DS_Store", "\xff"));
  PrepareOptions options;
  options.files[0] = {folder.path() / "books"};
  test::LogCapture log;
  const Json json = prepare(options, folder.path() / "out");
  ASSERT_EQ(json.at("splits").at("train").at("sources").size(), 1U);
  EXPECT_THAT(log.warnings(),
              ElementsAre(AllOf(HasSubstr("--train: "), HasSubstr("books: hidden files"),
                                HasSubstr(".DS_Store, a.txt~")),
                          HasSubstr("not searched: inner")));
  // A file that is named itself is read.
  options.files[0] = {folder.path() / "books" / "a.txt~"};
  static_cast<void>(prepare(options, folder.path() / "named"));
  EXPECT_THAT(ids_of(PreparedFolder::open(folder.path() / "named").corpus(Split::kTrain).tokens),
              ElementsAre('o', 'l', 'd'));
}

TEST(Prepare, ReadsFilesWhoseNamesAreNotUtf8) {
  const TestFolder folder;
  PrepareOptions options = prepare_words_of(folder.write("caf\xe9.txt", "a\n"));
  static_cast<void>(prepare(options, folder.path() / "out"));
  const Json json = parse_json(read_file(folder.path() / "out" / "data.json"));
  const std::string path = json.at("splits").at("train").at("sources").at(0).at("path");
  EXPECT_THAT(path, testing::EndsWith("caf\uFFFD.txt"));
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

TEST(Prepare, SetsCountsBesideThePublishedOnes) {
  Json info = Json::parse(R"({"vocabulary": {"size": 5}, "splits": {
      "train": {"tokens": 88982818, "documents": 1, "sources": [{"bytes": 60}, {"bytes": 40}]},
      "test": {"tokens": 7, "documents": 60, "sources": []}}})");
  const auto text_of = [&](Preparation preparation) {
    std::string text;
    for (const PublishedCount& count : published_counts(preparation, info)) {
      text += str(count.what, ' ', count.here, '/', count.published, ' ');
    }
    return text;
  };
  EXPECT_EQ(text_of(Preparation::kNone), "");
  EXPECT_EQ(text_of(Preparation::kEnwik8), "train tokens 88982818/88982818 test tokens 7/4943417 ");
  EXPECT_EQ(text_of(Preparation::kText8), "vocabulary 5/27 train source bytes 100/100000000 ");
  EXPECT_EQ(text_of(Preparation::kWikitext103),
            "vocabulary 5/267735 train tokens 88982818/103227021 test tokens 7/245569 test "
            "documents 60/60 ");
}

// The folder of public data sets: MNEME_DATA, else data/ of the checkout, where `mneme data sets`
// puts them, else public data beside the checkout.
fs::path public_data() {
  if (const char* const named = std::getenv("MNEME_DATA")) return named;
  const fs::path source = MNEME_SOURCE_DIR;
  return fs::exists(source / "data") ? source / "data" : source.parent_path() / "shared" / "data";
}

TEST(Prepare, GivesThePublishedCountsOfWikitext103) {
  const fs::path data = public_data();
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

// Fails when a part of a folder was left.
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
               [&] { static_cast<void>(prepare(prepare_words_of(train), out_)); });
  expect_nothing_left();
}

TEST_F(PrepareFails, OnAFullDisk) {
  const auto train = folder_.write("train.txt", std::string(8'000'000, 'x'));
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
               [&] { static_cast<void>(prepare(prepare_words_of(train), "/proc/mneme/out")); });
  expect_nothing_left();
}

TEST_F(PrepareFails, WhereSomethingIs) {
  const auto train = folder_.write("train.txt", "a\n");
  expect_error(ErrorKind::kUsage, {"the place is taken", "got a folder with files", "--out"},
               [&] { static_cast<void>(prepare(prepare_words_of(train), folder_.path())); });
  expect_error(ErrorKind::kUsage, {"the place is taken", "got a file"},
               [&] { static_cast<void>(prepare(prepare_words_of(train), train)); });
  fs::create_directory(out_);
  static_cast<void>(
      prepare(prepare_words_of(train), out_.string() + "/"));  // an empty folder may be there
  EXPECT_FALSE(names_in(out_).empty());
}

TEST_F(PrepareFails, WhereALinkIs) {
  const auto train = folder_.write("train.txt", "a\n");
  const TestFolder elsewhere;
  fs::create_directory_symlink(elsewhere.path(), out_);
  PrepareOptions options = prepare_words_of(train);
  options.on_work = [](const std::string& work) { FAIL() << work << " before the refusal"; };
  expect_error(ErrorKind::kUsage, {"the place is taken", "got a link"},
               [&] { static_cast<void>(prepare(options, out_)); });
  EXPECT_TRUE(names_in(elsewhere.path()).empty());
}

// What a killed process with the same id left; ids repeat in containers.
TEST_F(PrepareFails, NotBesideTheFolderOfAKilledProcess) {
  const auto train = folder_.write("train.txt", "a\n");
  const fs::path left = folder_.path() / str(".out.", ::getpid(), ".tmp");
  fs::create_directory(left);
  std::ofstream(left / "train.safetensors") << "half";
  static_cast<void>(prepare(prepare_words_of(train), out_));
  EXPECT_EQ(PreparedFolder::open(out_).corpus(Split::kTrain).size(), 2);
  EXPECT_EQ(read_file(left / "train.safetensors"), "half");
}

TEST_F(PrepareFails, OnAFolderWithoutFiles) {
  const auto train = folder_.write("train.txt", "a\n");
  const TestFolder bare;
  fs::create_directory(bare.path() / "inner");
  expect_error(ErrorKind::kUsage, {"--valid: ", "there is no text to read", "no file in it"},
               [&] { static_cast<void>(prepare(prepare_words_of(train, bare.path()), out_)); });
  PrepareOptions options = prepare_words_of(train);
  options.files[0].push_back(bare.path());
  expect_error(ErrorKind::kUsage, {"--train: ", "no file in it"},
               [&] { static_cast<void>(prepare(options, out_)); });
  expect_nothing_left();
}

// JSON cannot hold it, which the end of the work would be too late to find out.
TEST_F(PrepareFails, OnAMarkThatIsNotUtf8) {
  const TestFolder elsewhere;
  PrepareOptions options = prepare_words_of(elsewhere.write("a.txt", "a\n"));
  options.on_work = [](const std::string& work) { FAIL() << work << " before the refusal"; };
  options.documents = {.unit = config::Documents::kMark, .mark = "x\xff"};
  expect_error(ErrorKind::kUsage, {"--document-mark: ", "data.json cannot keep it", "UTF-8"},
               [&] { static_cast<void>(prepare(options, out_)); });
}

TEST_F(PrepareFails, OnAFolderOfLeftovers) {
  const TestFolder folder;
  static_cast<void>(folder.write("a.txt~", "old"));
  expect_error(ErrorKind::kUsage, {"--train: ", "hidden files and copies of editors alone"},
               [&] { static_cast<void>(prepare(prepare_words_of(folder.path()), out_)); });
}

TEST_F(PrepareFails, OnABrokenLinkInAFolder) {
  const TestFolder folder;
  static_cast<void>(folder.write("a.txt", "a"));
  fs::create_symlink("/mnt/gone/b.txt", folder.path() / "b.txt");
  expect_error(ErrorKind::kUsage,
               {"--train: ",
                "/b.txt: the data cannot be read: expected a text file, got a "
                "symbolic link to /mnt/gone/b.txt, which is not there"},
               [&] { static_cast<void>(prepare(prepare_words_of(folder.path()), out_)); });
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

// Before a token is encoded: the pass over the text that makes its vocabulary can be long, too.
TEST_F(PrepareFails, WhenItsVocabularyIsInterrupted) {
  std::string text;
  for (int i = 0; i < 1'500'000; ++i) text += "a ";
  const auto train = folder_.write("train.txt", text);
  const auto expect_interrupted = [&](PrepareOptions options) {
    std::string work;
    options.on_work = [&](const std::string& begun) { work = begun; };
    options.on_tokens = [](std::int64_t tokens) {
      EXPECT_GE(tokens, 1'000'000);
      throw 5;
    };
    EXPECT_THROW(static_cast<void>(prepare(options, out_)), int);
    EXPECT_EQ(work, "build the vocabulary");
    expect_nothing_left();
  };
  expect_interrupted(prepare_words_of(train));
  PrepareOptions options;
  options.files[0] = {train};
  options.vocabulary = VocabularyKind::kChar;
  expect_interrupted(options);
  for (const Preparation preparation : {Preparation::kEnwik8, Preparation::kText8}) {
    options.preparation = preparation;
    expect_interrupted(options);
  }
}

TEST_F(PrepareFails, OnAVocabularyOfAnotherKind) {
  const auto train = folder_.write("train.txt", "a\n");
  PrepareOptions options = prepare_words_of(train);
  options.vocabulary_file = folder_.path() / "v.json";
  Vocabulary::bytes().save(options.vocabulary_file);
  expect_error(ErrorKind::kUsage,
               {"--vocabulary-file: ", "v.json", "another kind", "expected --vocabulary byte"},
               [&] { static_cast<void>(prepare(options, out_)); });
}

// With these files the counts would not be the published ones.
TEST_F(PrepareFails, OnAVocabularyWithOtherLineEndsThanThePreparation) {
  const std::vector<NamedText> texts = {{"t", "a b\nc\n"}};
  PrepareOptions options;
  options.files.fill({folder_.write("train.txt", texts.front().text)});
  options.vocabulary_file = folder_.path() / "v.json";
  const auto refused = [&](Preparation preparation, const Vocabulary& vocabulary,
                           const std::string& expected) {
    vocabulary.save(options.vocabulary_file);
    options.preparation = preparation;
    expect_error(ErrorKind::kUsage,
                 {"--vocabulary-file: ",
                  str("no vocabulary of --preparation ", to_word(preparation)), expected},
                 [&] { static_cast<void>(prepare(options, out_)); });
  };
  refused(Preparation::kEnwik8, Vocabulary::bytes(), "leaves newlines out");
  refused(Preparation::kWikitext103, Vocabulary::words(texts, {.add_eos = false}), "an <eos>");
  Vocabulary::bytes_without_newline(texts).save(options.vocabulary_file);
  options.preparation = Preparation::kEnwik8;
  EXPECT_EQ(prepare(options, out_)["splits"]["train"]["tokens"], 4);
}

}  // namespace
}  // namespace mneme::data
