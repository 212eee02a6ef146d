// The tokenizer of a pretrained model as the vocabulary of a text.
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "host/data/dataset.hpp"
#include "host/data/prepare/prepare.hpp"
#include "host/data/prepare/prepared.hpp"
#include "host/data/tokenizer/tokenizer.hpp"
#include "host/data/vocabulary/vocabulary.hpp"
#include "tests/data/data_files.hpp"
#include "tests/data/tokenizer_files.hpp"

namespace mneme::data {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;

Vocabulary pretrained(const std::string& kind) {
  return load_vocabulary(trained_tokenizer(kind), VocabularyKind::kTokenizer, "test");
}

config::DataConfig tokenizer_config(const fs::path& text, const fs::path& vocabulary) {
  config::DataConfig config;
  config.train = text;
  config.vocabulary = config::Vocabulary::kTokenizer;
  config.vocabulary_file = vocabulary;
  return config;
}

TEST(TokenizerVocabulary, EncodesCountsAndDecodes) {
  const Vocabulary vocabulary = pretrained("gpt2");
  EXPECT_EQ(vocabulary.kind(), VocabularyKind::kTokenizer);
  EXPECT_EQ(vocabulary.size(), vocabulary.tokenizer()->size());
  const std::string text = "the house\nreads caf\u00e9<|endoftext|> \U0001F600\n";
  std::vector<std::int32_t> ids;
  const EncodeCounts counts = vocabulary.encode({"x.txt", text}, ids);
  EXPECT_EQ(ids, vocabulary.tokenizer()->encode(text));
  EXPECT_EQ(counts.tokens, static_cast<std::int64_t>(ids.size()));
  EXPECT_EQ(counts.lines, 2);
  EXPECT_EQ(counts.words, 5);
  EXPECT_EQ(counts.unknown, 0);
  EXPECT_EQ(counts.bytes, static_cast<std::int64_t>(text.size()));
  EXPECT_EQ(counts.characters, count_characters(text));
  EXPECT_EQ(vocabulary.decode(ids), text);
  EXPECT_FALSE(vocabulary.unknown_id());
  EXPECT_TRUE(vocabulary.find("<|endoftext|>"));
  expect_error(ErrorKind::kUsage, {"x.txt:1:3", "byte offset 2", "not UTF-8"}, [&] {
    vocabulary.encode({"x.txt", "ab\xFF"}, ids);
  });
}

TEST(TokenizerVocabulary, SymbolsAreTheBytesInsideAText) {
  const Vocabulary bytes = pretrained("gpt2");
  EXPECT_EQ(bytes.symbol(*bytes.find("\u0120model")), " model");
  EXPECT_EQ(bytes.symbol(*bytes.find("\u010a")), "\n");
  EXPECT_EQ(bytes.symbol(*bytes.find("\u00c3")), "\xC3");  // half of a character
  const Vocabulary pieces = pretrained("llama2");
  EXPECT_EQ(pieces.symbol(*pieces.find("\u2581")), " ");
  EXPECT_EQ(pieces.symbol(*pieces.find("<0x0A>")), "\n");
  EXPECT_EQ(pieces.unknown_id(), 0);
  expect_error(ErrorKind::kUsage, {"token id 950", "0 to 949", "tokenizer vocabulary"},
               [&] { static_cast<void>(pieces.symbol(950)); });
}

TEST(TokenizerVocabulary, IsReadBackFromItsFile) {
  const TestFolder folder;
  for (const char* kind : {"llama3", "vocab_and_merges"}) {
    const Vocabulary vocabulary = pretrained(kind);
    const fs::path file = folder.path() / "vocabulary.json";
    vocabulary.save(file);
    const Vocabulary read = Vocabulary::load(file);
    EXPECT_TRUE(read == vocabulary) << kind;
    EXPECT_EQ(read.sha256(), vocabulary.tokenizer()->sha256());
    EXPECT_EQ(read.size(), vocabulary.size());
    EXPECT_EQ(read.tokenizer()->encode("the caf\u00e9"),
              vocabulary.tokenizer()->encode("the caf\u00e9"));
    EXPECT_TRUE(load_vocabulary(file, VocabularyKind::kTokenizer, "test") == vocabulary);
  }
  EXPECT_FALSE(pretrained("gpt2") == pretrained("smollm"));
}

TEST(TokenizerVocabulary, RefusesAFileWithoutItsTexts) {
  const TestFolder folder;
  const std::string head = R"({"format": "mneme.vocabulary", "revision": 1, "kind": "tokenizer")";
  fs::path file = folder.write("v.json", head + "}");
  expect_error(ErrorKind::kUsage, {"v.json: files", "no such key"},
               [&] { static_cast<void>(Vocabulary::load(file)); });
  for (const char* files : {"3", "{\"tokenizer.json\": 3}"}) {
    file = folder.write("v.json", head + ", \"files\": " + files + "}");
    expect_error(ErrorKind::kUsage, {"v.json: files", "texts of a tokenizer's files", "number"},
                 [&] { static_cast<void>(Vocabulary::load(file)); });
  }
  for (const char* files : {"{}", "[]", "{\"notes.txt\": \"x\"}"}) {
    file = folder.write("v.json", head + ", \"files\": " + files + "}");
    expect_error(ErrorKind::kUsage, {"v.json", "there is no tokenizer"},
                 [&] { static_cast<void>(Vocabulary::load(file)); });
  }
  file = folder.write("v.json", head + R"(, "files": {"tokenizer.json": "{\"model\": 3}"}})");
  expect_error(ErrorKind::kUsage, {"v.json: tokenizer.json: model"},
               [&] { static_cast<void>(Vocabulary::load(file)); });
}

TEST(TokenizerVocabulary, OfTiktokenAloneSaysHowItIsConverted) {
  const TestFolder folder;
  const fs::path model = folder.write("tokenizer.model", "IQ== 0\nIg== 1\n");
  const fs::path train = folder.write("train.txt", "a\n");
  const std::string command = str("AutoTokenizer.from_pretrained('", folder.path().string(),
                                  "').save_pretrained('", folder.path().string(), "')\"");
  expect_error(ErrorKind::kUsage,
               {"there is no tokenizer", "got tokenizer.model, which is not read, alone",
                "write the model's tokenizer.json", command},
               [&] { Dataset{tokenizer_config(train, folder.path())}; });
  for (const fs::path& file : {model, folder.write("o200k.tiktoken", "IQ== 0\n")}) {
    expect_error(ErrorKind::kUsage,
                 {file.string() + ": a vocabulary of tiktoken is not read",
                  "expected a tokenizer.json, or a tokenizer.model of sentencepiece", command},
                 [&] { Dataset{tokenizer_config(train, file)}; });
  }
  EXPECT_EQ(find_unread_vocabulary(folder.path()), "o200k.tiktoken");
  EXPECT_EQ(find_unread_vocabulary(trained_tokenizer("smollm")), "");
  EXPECT_EQ(find_unread_vocabulary(folder.path() / "absent"), "");
  static_cast<void>(folder.write("tokenizer.json", "{}"));
  EXPECT_EQ(find_unread_vocabulary(folder.path()), "");
}

TEST(TokenizerVocabulary, OfNoKnownFormSaysThatItMayBeDamaged) {
  const TestFolder folder;
  const fs::path train = folder.write("train.txt", "a\n");
  const auto refuse = [&](const std::string& bytes, const std::vector<std::string>& texts) {
    const fs::path other = folder.write("other.model", bytes);
    const fs::path model = folder.write("tokenizer.model", bytes);
    for (const fs::path& given : {other, model, folder.path()}) {
      std::vector<std::string> all = texts;
      all.push_back((given == other ? other : model).string() + ": ");
      expect_error(ErrorKind::kUsage, all, [&] { Dataset{tokenizer_config(train, given)}; });
    }
  };
  refuse("", {"the file is empty", "got 0 bytes; fetch it again"});
  for (const char* const bytes : {"IQ==", "IQ== \n", "IQ== x\n", " 0\n", "I\xB3== 0\n", "\x01"}) {
    refuse(bytes, {"no model of sentencepiece or tiktoken", "bytes that begin otherwise",
                   "it may be damaged: fetch it again"});
  }
}

TEST(TokenizerVocabulary, OfAPointerSaysHowItIsFetched) {
  const TestFolder folder;
  const fs::path train = folder.write("train.txt", "a\n");
  const std::string pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n";
  static_cast<void>(folder.write("tokenizer.json", pointer));
  expect_error(ErrorKind::kUsage,
               {"tokenizer.json: the file is a pointer of Git LFS", "git lfs pull"},
               [&] { Dataset{tokenizer_config(train, folder.path())}; });
  fs::remove(folder.path() / "tokenizer.json");
  static_cast<void>(folder.write("tokenizer.model", pointer));
  expect_error(ErrorKind::kUsage,
               {"tokenizer.model: the file is a pointer of Git LFS", "git lfs pull"},
               [&] { Dataset{tokenizer_config(train, folder.path())}; });
  const fs::path vocabulary = folder.write("vocabulary.json", pointer);
  expect_error(ErrorKind::kUsage, {"vocabulary.json: the file is a pointer of Git LFS"},
               [&] { static_cast<void>(Vocabulary::load(vocabulary)); });
}

TEST(TokenizerVocabulary, IsTheVocabularyOfADataset) {
  const TestFolder folder;
  const std::string text = "the house reads the model\nand remembers\n";
  const fs::path train = folder.write("train.txt", text);
  const fs::path kept = folder.path() / "kept.json";
  pretrained("smollm").save(kept);
  for (const fs::path& file :
       {trained_tokenizer("smollm"), trained_tokenizer("smollm") / "tokenizer.json", kept}) {
    const Dataset dataset(tokenizer_config(train, file));
    EXPECT_EQ(dataset.vocabulary_size(), 702);
    const auto ids = ids_of(dataset.corpus(Split::kTrain)->tokens);
    const auto expected = pretrained("smollm").tokenizer()->encode(text);
    EXPECT_EQ(ids, std::vector<std::int64_t>(expected.begin(), expected.end()));
    EXPECT_EQ(dataset.corpus(Split::kTrain)->counts.words, 7);
    EXPECT_TRUE(dataset.training_counts().empty());
  }
  config::DataConfig config = tokenizer_config(train, folder.path() / "absent");
  expect_error(ErrorKind::kUsage, {"absent", "there is no tokenizer"}, [&] { Dataset{config}; });
  config.vocabulary_file = kept;
  config.vocabulary = config::Vocabulary::kWord;
  expect_error(ErrorKind::kUsage, {"data.vocabulary", "expected \"tokenizer\", got \"word\""},
               [&] { Dataset{config}; });
}

TEST(TokenizerVocabulary, SharesOfATextBeginALine) {
  const TestFolder folder;
  config::DataConfig config = tokenizer_config(
      folder.write("t.txt", "the house\nreads\nthe model\nand on\n"), trained_tokenizer("gpt2"));
  config.split = {0.4, 0.3, 0.3};
  const Dataset dataset(config);
  const auto part = [&](Split split) {
    std::vector<std::int32_t> ids;
    for (const std::int64_t id : ids_of(dataset.corpus(split)->tokens)) {
      ids.push_back(static_cast<std::int32_t>(id));
    }
    return dataset.vocabulary()->decode(ids);
  };
  EXPECT_EQ(part(Split::kTrain), "the house\nreads\n");
  EXPECT_EQ(part(Split::kValid), "the model\n");
  EXPECT_EQ(part(Split::kTest), "and on\n");
}

TEST(TokenizerVocabulary, PreparedFoldersKeepTheTokenizer) {
  const TestFolder folder;
  PrepareOptions options;
  options.files[0] = {folder.write("t.txt", "the house\n<end>\nreads\n")};
  options.vocabulary = VocabularyKind::kTokenizer;
  expect_error(ErrorKind::kUsage, {"--vocabulary-file", "not built from a text"},
               [&] { static_cast<void>(prepare(options, folder.path() / "p")); });
  options.vocabulary_file = trained_tokenizer("gpt2");
  options.documents = {.unit = config::Documents::kMark, .mark = "<end>"};
  const Json info = prepare(options, folder.path() / "p");
  EXPECT_EQ(info.at("vocabulary").at("kind"), "tokenizer");
  EXPECT_EQ(info.at("vocabulary").at("sha256"), pretrained("gpt2").sha256());

  config::DataConfig config;
  config.prepared = folder.path() / "p";
  const Dataset dataset(config, {.vocabulary = pretrained("gpt2")});
  const std::shared_ptr<const Corpus> corpus = dataset.corpus(Split::kTrain);
  std::vector<std::int32_t> expected = pretrained("gpt2").tokenizer()->encode("the house\n");
  EXPECT_THAT(corpus->documents, ElementsAre(0, static_cast<std::int64_t>(expected.size())));
  const auto rest = pretrained("gpt2").tokenizer()->encode("reads\n");
  expected.insert(expected.end(), rest.begin(), rest.end());
  EXPECT_EQ(ids_of(corpus->tokens), std::vector<std::int64_t>(expected.begin(), expected.end()));
  expect_error(ErrorKind::kUsage, {"data.prepared", "another vocabulary", "--vocabulary tokenizer"},
               [&] { Dataset(config, {.vocabulary = pretrained("smollm")}); });
}

}  // namespace
}  // namespace mneme::data
