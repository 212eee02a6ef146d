#include "host/data/dataset.hpp"

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "host/base/file/checksum.hpp"
#include "tests/base/log_capture.hpp"
#include "tests/data/data_files.hpp"

namespace mneme::data {
namespace {

using config::DataConfig;
using config::Task;
using testing::ElementsAre;

TEST(Dataset, ReadsATextWithBytes) {
  const TestFolder folder;
  DataConfig config;
  config.train = folder.write("train.txt", "abcdefghij");
  config.valid = folder.write("valid.txt", "\xff\xfe zz");
  const Dataset dataset(config);
  EXPECT_EQ(dataset.vocabulary_size(), 256);
  ASSERT_NE(dataset.vocabulary(), nullptr);
  EXPECT_TRUE(dataset.has(Split::kTrain));
  EXPECT_TRUE(dataset.has(Split::kValid));
  EXPECT_FALSE(dataset.has(Split::kTest));
  EXPECT_FALSE(dataset.has_sources());
  EXPECT_FALSE(dataset.is_endless());

  const auto stream =
      dataset.make_stream(Split::kTrain, {.lanes = 2, .segment = 3, .is_training = true});
  TokenSegment segment;
  ASSERT_TRUE(stream->next(segment));
  EXPECT_THAT(segment.inputs, ElementsAre('a', 'b', 'c', 'f', 'g', 'h'));
  EXPECT_EQ(dataset.corpus(Split::kTrain)->sha256, sha256_file(config.train));
}

TEST(Dataset, MakesTheVocabularyFromTheTrainingText) {
  const TestFolder folder;
  DataConfig config;
  config.vocabulary = config::Vocabulary::kWord;
  config.train = folder.write("train.txt", "b a a\n");
  config.test = folder.write("test.txt", "a z\n");
  const Dataset dataset(config);
  EXPECT_EQ(dataset.vocabulary_size(), 4);
  EXPECT_THAT(ids_of(dataset.corpus(Split::kTest)->tokens), ElementsAre(1, 3, 0));
  EXPECT_EQ(dataset.corpus(Split::kTest)->counts.unknown, 1);

  config.vocabulary_size = 3;
  EXPECT_EQ(Dataset(config).vocabulary_size(), 3);

  config.vocabulary = config::Vocabulary::kChar;
  expect_error(ErrorKind::kUsage, {"test.txt:1:3", "got \"z\""}, [&] { Dataset{config}; });
  config.test = folder.write("test.txt", "ab\n");
  EXPECT_EQ(Dataset(config).vocabulary_size(), 4);
}

TEST(Dataset, WarnsWhereASplitHoldsTheTrainingText) {
  const TestFolder folder;
  DataConfig config;
  config.train = folder.write("train.txt", "abcdefghij");
  config.valid = config.train;
  config.test = folder.write("copy.txt", "abcdefghij");
  {
    const test::LogCapture log;
    const Dataset dataset(config);
    EXPECT_THAT(log.text(), testing::HasSubstr("data.valid: it holds the same text as data.train "
                                               "(the same file): "));
    EXPECT_THAT(log.text(),
                testing::HasSubstr("data.test: it holds the same text as data.train: "));
  }
  config.valid = folder.write("valid.txt", "abcdefghik");
  config.test.clear();
  const test::LogCapture log;
  const Dataset dataset(config);
  EXPECT_EQ(log.text(), "");
}

TEST(Dataset, ReadsOnlyWhatIsAskedFor) {
  const TestFolder folder;
  DataConfig config;
  config.vocabulary = config::Vocabulary::kWord;
  config.train = folder.path() / "gone.txt";
  config.test = folder.write("test.txt", "a z\n");
  const std::vector<NamedText> training = {{"t", "b a a\n"}};
  const Vocabulary vocabulary = Vocabulary::words(training);
  const Dataset dataset(config, {.splits = {Split::kTest}, .vocabulary = vocabulary});
  EXPECT_EQ(dataset.vocabulary_size(), 4);
  EXPECT_FALSE(dataset.has(Split::kTrain));
  EXPECT_TRUE(dataset.has(Split::kTest));
  expect_error(ErrorKind::kUsage, {"data.train: ", "gone.txt", "no such file"},
               [&] { Dataset(config, {.splits = {Split::kTest}}); });
}

TEST(Dataset, RefusesAnotherKindOfVocabulary) {
  const TestFolder folder;
  DataConfig config;
  config.train = folder.write("train.txt", "b a a\n");
  const std::vector<NamedText> training = {{"t", "b a a\n"}};
  expect_error(ErrorKind::kUsage,
               {"data.vocabulary", "stored vocabulary", "expected \"word\", got \"byte\""},
               [&] { Dataset(config, {.vocabulary = Vocabulary::words(training)}); });
}

TEST(Dataset, CutsOneFileIntoSplits) {
  const TestFolder folder;
  DataConfig config;
  config.train = folder.write("all.txt", "0123456789");
  config.split = {0.6, 0.2, 0.2};
  const Dataset dataset(config);
  EXPECT_EQ(dataset.corpus(Split::kTrain)->size(), 6);
  EXPECT_THAT(ids_of(dataset.corpus(Split::kValid)->tokens), ElementsAre('6', '7'));
  EXPECT_THAT(ids_of(dataset.corpus(Split::kTest)->tokens), ElementsAre('8', '9'));
  EXPECT_EQ(dataset.corpus(Split::kValid)->sha256, sha256_hex(std::string_view("67")));
  EXPECT_EQ(dataset.corpus(Split::kValid)->key, "data.valid");
  config.split = {0.8, 0.2, 0.0};
  EXPECT_FALSE(Dataset(config).has(Split::kTest));

  // The vocabulary is that of the training part.
  config.vocabulary = config::Vocabulary::kWord;
  config.train = folder.write("words.txt", "a b\na a\nc a\n");
  config.split = {0.5, 0.5, 0.0};
  const Dataset words(config);
  EXPECT_FALSE(words.vocabulary()->find("c"));
  EXPECT_EQ(words.corpus(Split::kValid)->counts.unknown, 1);
  EXPECT_THAT(words.training_counts(), ElementsAre(2, 3, 1, 0));
}

TEST(Dataset, FindsDocumentsInsideTexts) {
  const TestFolder folder;
  DataConfig config;
  config.train = folder.write("train.txt", "abc\n--\nde\n");
  config.documents = config::Documents::kMark;
  config.document_mark = "--";
  const Dataset dataset(config);
  EXPECT_THAT(dataset.corpus(Split::kTrain)->documents, ElementsAre(0, 4));
  EXPECT_EQ(dataset.corpus(Split::kTrain)->size(), 7);
}

TEST(Dataset, TakesASavedVocabulary) {
  const TestFolder folder;
  DataConfig config;
  config.vocabulary = config::Vocabulary::kWord;
  config.train = folder.write("train.txt", "z z\n");
  const std::vector<NamedText> other = {{"t", "b a a\n"}};
  config.vocabulary_file = folder.path() / "vocabulary.json";
  Vocabulary::words(other).save(config.vocabulary_file);
  const Dataset dataset(config);
  EXPECT_EQ(dataset.vocabulary_size(), 4);
  EXPECT_DOUBLE_EQ(dataset.corpus(Split::kTrain)->counts.unknown_share(), 1.0);
  EXPECT_THAT(dataset.training_counts(), ElementsAre(1, 2, 1, 0));

  config.add_eos = false;
  expect_error(ErrorKind::kUsage,
               {"data.add_eos", "data.vocabulary_file", "vocabulary.json", "expected true"},
               [&] { Dataset{config}; });
  config.vocabulary = config::Vocabulary::kChar;
  expect_error(ErrorKind::kUsage,
               {"data.vocabulary", "data.vocabulary_file", "expected \"word\", got \"char\""},
               [&] { Dataset{config}; });
  config.vocabulary_file = folder.path() / "none.json";
  expect_error(ErrorKind::kUsage, {"data.vocabulary_file: ", "none.json", "no such file"},
               [&] { Dataset{config}; });
}

TEST(Dataset, LeavesOutRareWords) {
  const TestFolder folder;
  DataConfig config;
  config.vocabulary = config::Vocabulary::kWord;
  config.train = folder.write("train.txt", "b a a\n");
  config.min_count = 2;
  config.add_eos = false;
  const Dataset dataset(config);
  EXPECT_THAT(ids_of(dataset.corpus(Split::kTrain)->tokens), ElementsAre(1, 0, 0));
  EXPECT_EQ(dataset.corpus(Split::kTrain)->counts.unknown, 1);
}

TEST(Dataset, RefusesAnEmptyValidationSet) {
  const TestFolder folder;
  DataConfig config;
  config.train = folder.write("train.txt", "abc");
  config.valid = folder.write("valid.txt", "");
  expect_error(ErrorKind::kUsage, {"data.valid: ", "valid.txt", "the file is empty"},
               [&] { Dataset{config}; });
  config.vocabulary = config::Vocabulary::kWord;
  config.add_eos = false;
  config.valid = folder.write("valid.txt", "\n \n");
  expect_error(ErrorKind::kUsage, {"data.valid: ", "valid.txt", "no token"},
               [&] { Dataset{config}; });
}

TEST(Dataset, ReadsIds) {
  const TestFolder folder;
  DataConfig config;
  config.task = Task::kTokens;
  config.train =
      folder.write_ids<std::int32_t>("a.safetensors", "tokens", {2, 3}, {0, 5, 1, 2, 3, 4});
  const Dataset dataset(config);
  EXPECT_EQ(dataset.vocabulary_size(), 6);
  EXPECT_EQ(dataset.vocabulary(), nullptr);
  const auto stream = dataset.make_stream(Split::kTrain, {.lanes = 2, .segment = 2, .epochs = 1});
  TokenSegment segment;
  ASSERT_TRUE(stream->next(segment));
  EXPECT_THAT(segment.inputs, ElementsAre(0, 5, 2, 3));
  EXPECT_THAT(segment.targets, ElementsAre(5, 1, 3, 4));

  config.vocabulary_size = 9;
  EXPECT_EQ(Dataset(config).vocabulary_size(), 9);
  config.vocabulary_size = 5;
  expect_error(ErrorKind::kUsage, {"tokens[0, 1]", "vocabulary size 5", "got 5"},
               [&] { Dataset{config}; });
}

TEST(Dataset, HoldsOtherSplitsToTheTrainingIds) {
  const TestFolder folder;
  DataConfig config;
  config.task = Task::kTokens;
  config.train = folder.write_ids<std::int64_t>("a.safetensors", "input", {3}, {0, 2, 1});
  config.valid = folder.write_ids<std::int64_t>("b.safetensors", "input", {2}, {0, 3});
  expect_error(ErrorKind::kUsage, {"b.safetensors: tensor input[1]", "vocabulary size 3"},
               [&] { Dataset{config}; });
  expect_error(ErrorKind::kUsage, {"b.safetensors", "vocabulary size 3"},
               [&] { Dataset(config, {.splits = {Split::kValid}}); });
  config.vocabulary_size = 4;
  const Dataset dataset(config, {.splits = {Split::kValid}});
  EXPECT_FALSE(dataset.has(Split::kTrain));
  EXPECT_TRUE(dataset.has(Split::kValid));

  config.vocabulary_size = 0;
  config.train.clear();
  expect_error(ErrorKind::kUsage, {"data.vocabulary_size", "not known", "neither"},
               [&] { Dataset{config}; });
}

// As segments are: what `mneme config check` says without reading them.
TEST(Dataset, WhetherTargetsHaveSourcesIsKnownBeforeReading) {
  DataConfig config;
  for (const Task task : {Task::kText, Task::kTokens, Task::kDialogue}) {
    config.task = task;
    EXPECT_FALSE(has_sources(config)) << config::to_word(task);
  }
  config.sequences = {
      .length = 24, .alphabet = 8, .train_sequences = 4, .valid_sequences = 2, .test_sequences = 2};
  for (const Task task : {Task::kMotif, Task::kSorting, Task::kCopy}) {
    config.task = task;
    EXPECT_EQ(has_sources(config), task != Task::kSorting) << config::to_word(task);
    EXPECT_EQ(has_sources(config), Dataset(config).has_sources()) << config::to_word(task);
  }
}

TEST(Dataset, GeneratesMotifs) {
  DataConfig config;
  config.task = Task::kMotif;
  config.motif.alphabet = 32;
  const Dataset dataset(config);
  EXPECT_EQ(dataset.vocabulary_size(), 32);
  EXPECT_TRUE(dataset.has_sources());
  EXPECT_TRUE(dataset.is_endless());
  EXPECT_EQ(dataset.corpus(Split::kTrain), nullptr);
  TokenSegment train;
  TokenSegment valid;
  ASSERT_TRUE(dataset.make_stream(Split::kTrain, {.lanes = 2, .segment = 8})->next(train));
  ASSERT_TRUE(dataset.make_stream(Split::kValid, {.lanes = 2, .segment = 8})->next(valid));
  EXPECT_EQ(train.source.size(), 16U);
  EXPECT_NE(train.inputs, valid.inputs);
}

TEST(Dataset, SaysWhatIsNotAvailable) {
  const TestFolder folder;
  DataConfig config;
  config.train = folder.write("train.txt", "abc");
  expect_error(ErrorKind::kUsage, {"data.test", "there is no test data", "set data.test"},
               [&] { static_cast<void>(Dataset(config).make_stream(Split::kTest, {})); });
  config.vocabulary = config::Vocabulary::kTokenizer;
  expect_error(ErrorKind::kUsage,
               {"data.vocabulary_file", "not built from a text", "tokenizer.json", "got none"},
               [&] { Dataset{config}; });
  DataConfig none;
  none.vocabulary = config::Vocabulary::kWord;
  expect_error(ErrorKind::kUsage, {"data.train", "no text to read"}, [&] { Dataset{none}; });
}

TEST(Dataset, DescribesItself) {
  const TestFolder folder;
  DataConfig config;
  config.vocabulary = config::Vocabulary::kWord;
  config.train = folder.write("train.txt", "b a\n");
  const Json text = Dataset(config).describe();
  EXPECT_EQ(text["task"], "text");
  EXPECT_EQ(text["vocabulary"], "word");
  EXPECT_EQ(text["vocabulary_size"], 4);
  EXPECT_EQ(text["train"]["tokens"], 3);
  EXPECT_EQ(text["train"]["documents"], 1);
  EXPECT_EQ(text["train"]["unknown"], 0);
  EXPECT_EQ(text["train"]["bytes"], 4);
  EXPECT_EQ(text["train"]["sha256"], sha256_file(config.train));
  EXPECT_FALSE(text.contains("valid"));

  config.task = Task::kMotif;
  const Json motif = Dataset(config).describe();
  EXPECT_EQ(motif["task"], "motif");
  EXPECT_EQ(motif["period_max"], config.motif.period_max);
}

}  // namespace
}  // namespace mneme::data
