#include "host/data/corpus/corpus.hpp"

#include <functional>
#include <string>
#include <vector>

#include "host/base/file/checksum.hpp"
#include "host/base/log.hpp"
#include "tests/base/temporary_folder.hpp"
#include "tests/data/data_files.hpp"

namespace mneme::data {
namespace {

using testing::ElementsAre;

Corpus encode_files(const std::vector<std::filesystem::path>& paths, const std::string& key,
                    const Vocabulary& vocabulary, const DocumentOptions& options = {}) {
  return encode_corpus(paths, key, TextFiles(paths, key).texts(), vocabulary, options);
}

Corpus bytes_of(const std::vector<std::filesystem::path>& paths) {
  return encode_files(paths, "data.train", Vocabulary::bytes());
}

TEST(Corpus, MakesADocumentOfEachFile) {
  const TestFolder folder;
  const auto a = folder.write("a.txt", "abc");
  const auto b = folder.write("b.txt", "\xff\n");
  const Corpus corpus = bytes_of({a, b});
  EXPECT_THAT(ids_of(corpus.tokens), ElementsAre('a', 'b', 'c', 255, '\n'));
  EXPECT_THAT(corpus.documents, ElementsAre(0, 3));
  EXPECT_EQ(corpus.counts.bytes, 5);
  EXPECT_EQ(corpus.counts.lines, 1);
  EXPECT_THAT(corpus.files, ElementsAre(a, b));
  EXPECT_EQ(corpus.sha256, sha256_hex(sha256_hex(std::string_view("abc")) + "\n" +
                                      sha256_hex(std::string_view("\xff\n")) + "\n"));
}

TEST(Corpus, CountsWordsAndCharacters) {
  const TestFolder folder;
  const auto path = folder.write("a.txt", "d\u00e9j\u00e0 vu\nzz\n");
  const std::vector<NamedText> training = {{"t", "d\u00e9j\u00e0 vu\n"}};
  const Corpus corpus = encode_files({path}, "data.valid", Vocabulary::words(training));
  EXPECT_EQ(corpus.size(), 5);  // deja vu <eos> <unk> <eos>
  EXPECT_EQ(corpus.counts.unknown, 1);
  EXPECT_EQ(corpus.counts.words, 3);
  EXPECT_EQ(corpus.tokens.width(), 1);
  EXPECT_DOUBLE_EQ(corpus.counts.unknown_share(), 1.0 / 3.0);
  EXPECT_EQ(corpus.summary(), "5 tokens, 1 document, 3 words, 1 of them unknown (33.33 %)");
  EXPECT_EQ(corpus.counts.lines, 2);
  EXPECT_EQ(corpus.counts.bytes, 13);
  EXPECT_EQ(corpus.counts.characters, 11);
  EXPECT_EQ(corpus.sha256, sha256_file(path));
  EXPECT_EQ(corpus.key, "data.valid");
}

TEST(Corpus, FindsDocumentsInsideAText) {
  const TestFolder folder;
  const std::vector<std::filesystem::path> files = {folder.write("a.txt", "#\na b\n#\n#\nc\n"),
                                                    folder.write("b.txt", "a\n")};
  const std::vector<NamedText> training = {{"t", "a b\n"}};
  const Corpus corpus = encode_files(files, "data.train", Vocabulary::words(training),
                                     {.unit = config::Documents::kMark, .mark = "#"});
  EXPECT_THAT(ids_of(corpus.tokens), ElementsAre(1, 2, 0, 3, 0, 1, 0));
  EXPECT_THAT(corpus.documents, ElementsAre(0, 3, 5));
  EXPECT_EQ(corpus.counts.bytes, 8);  // the marks stand for nothing
  EXPECT_EQ(corpus.counts.lines, 3);
  EXPECT_EQ(corpus.counts.words, 4);
}

// The warnings of `act`.
std::vector<std::string> warnings_of(const std::function<void()>& act) {
  std::vector<std::string> warnings;
  const LogListener listener([&](LogLevel level, std::string_view text) {
    if (level == LogLevel::kWarning) warnings.emplace_back(text);
    return false;
  });
  act();
  return warnings;
}

TEST(Corpus, WarnsOfAMarkThatNeverOccurs) {
  const std::vector<NamedText> texts = {{"a.txt", "one\n##\ntwo\n"}, {"b.txt", "three\n"}};
  const auto encode = [&](config::Documents unit, const std::string& mark) {
    return warnings_of([&] {
      static_cast<void>(encode_corpus({}, "data.valid", texts, Vocabulary::bytes(), {unit, mark}));
    });
  };
  // In one of them: separators need not be in each file.
  EXPECT_THAT(encode(config::Documents::kMark, "##"), testing::IsEmpty());
  EXPECT_THAT(encode(config::Documents::kFile, ""), testing::IsEmpty());
  EXPECT_THAT(encode(config::Documents::kMark, "#"),
              ElementsAre("data.valid: a.txt and 1 more: no line is equal to the mark \"#\", which "
                          "begins a document: each text is one document; correct the mark if there "
                          "should be more"));
}

TEST(Corpus, WarnsOfHeadingsThatNeverOccur) {
  const auto encode = [&](const std::string& text) {
    const std::vector<NamedText> texts = {{"a.txt", text}};
    return warnings_of([&] {
      static_cast<void>(encode_corpus({}, "data.train", texts, Vocabulary::bytes(),
                                      {config::Documents::kHeading, ""}));
    });
  };
  EXPECT_THAT(encode("\n = One = \n\ntext\n"), testing::IsEmpty());
  EXPECT_THAT(encode("= One =\n"), testing::IsEmpty());
  EXPECT_THAT(encode("text\n = One = \n\n = = Section = = \n"),
              ElementsAre("data.train: a.txt: no line is a heading like \" = Title = \" after a "
                          "blank line, which begins a document: each text is one document; correct "
                          "data.documents if there should be more"));
}

TEST(Corpus, SaysThatAByteOrderMarkWasSkipped) {
  const std::string file =
      "\xEF\xBB\xBF"
      "one two\n";
  const std::vector<NamedText> texts = {text_of_file("a.txt", file)};
  Corpus corpus;
  const auto warnings = warnings_of(
      [&] { corpus = encode_corpus({}, "data.train", texts, Vocabulary::words(texts), {}); });
  EXPECT_THAT(warnings,
              ElementsAre("data.train: a.txt: the byte order mark at its start is no part "
                          "of the text and was skipped"));
  const std::vector<NamedText> plain = {{"b.txt", "one two\n"}};
  const Vocabulary vocabulary = Vocabulary::words(plain);
  EXPECT_EQ(Vocabulary::words(texts).sha256(), vocabulary.sha256());
  EXPECT_EQ(corpus.counts.bytes, 8);
  EXPECT_EQ(corpus.sha256, encode_corpus({}, "k", plain, vocabulary, {}).sha256);
}

TEST(Corpus, NamesTextsOfUtf16) {
  const std::string file("\xFF\xFEo\0n\0", 6);
  const std::vector<NamedText> texts = {text_of_file("a.txt", file)};
  EXPECT_THAT(test::error_of([&] { static_cast<void>(Vocabulary::words(texts)); }),
              testing::HasSubstr("a.txt:1:1: the text is not UTF-8: expected valid UTF-8, got byte "
                                 "0xff at byte offset 0; it begins with a mark of UTF-16: convert "
                                 "the file (iconv -f UTF-16 -t UTF-8)"));
  EXPECT_THAT(
      warnings_of([&] {
        static_cast<void>(encode_corpus({}, "data.train", texts, Vocabulary::bytes(), {}));
      }),
      ElementsAre(testing::HasSubstr("data.train: a.txt: it begins with a mark of UTF-16")));
}

// Without a mark a text of Latin letters is valid UTF-8, of twice the characters.
TEST(Corpus, RefusesTextsOfUtf16WithoutAMark) {
  const std::string file("o\0n\0e\0\n\0", 8);
  const std::vector<NamedText> texts = {text_of_file("a.txt", file)};
  for (const Vocabulary& vocabulary : {Vocabulary::words(texts), Vocabulary::characters(texts)}) {
    EXPECT_THAT(
        test::error_of([&] { static_cast<void>(encode_corpus({}, "k", texts, vocabulary, {})); }),
        testing::HasSubstr(
            "a.txt: the text is not UTF-8: expected valid UTF-8, got NUL bytes at "
            "the places of UTF-16LE; convert the file (iconv -f UTF-16LE -t UTF-8)"));
  }
  // What is binary can be a corpus of bytes.
  Corpus corpus;
  EXPECT_THAT(warnings_of([&] { corpus = encode_corpus({}, "k", texts, Vocabulary::bytes(), {}); }),
              ElementsAre("k: a.txt: its NUL bytes are those of UTF-16LE, of which every byte "
                          "becomes a token; convert the file (iconv -f UTF-16LE -t UTF-8) if it is "
                          "a text"));
  EXPECT_EQ(corpus.size(), 8);
}

TEST(Corpus, KeepsIdsInTheWidthOfTheVocabulary) {
  std::string text;
  for (int i = 0; i < 300; ++i) text += str("w", i, " ");
  const std::vector<NamedText> training = {{"t", text}};
  const Vocabulary vocabulary = Vocabulary::words(training);
  const Corpus corpus = encode_corpus({}, "data.train", training, vocabulary);
  EXPECT_EQ(corpus.tokens.width(), 2);
  ASSERT_EQ(corpus.tokens.pieces().size(), 1U);
  EXPECT_EQ(corpus.tokens.pieces()[0].size(), 2U * 301U);
  EXPECT_EQ(corpus.tokens[299], 300);
}

TEST(Corpus, RefusesFilesThatAreNone) {
  const TestFolder folder;
  const auto refuse = [&](const std::filesystem::path& path,
                          const std::vector<std::string>& parts) {
    expect_error(ErrorKind::kUsage, parts, [&] { static_cast<void>(bytes_of({path})); });
  };
  refuse(folder.path() / "no.txt", {"data.train: ", "no.txt", "a text file", "no such file"});
  refuse(folder.path(),
         {"data.train: ", "got a folder",
          "name one file in data.train; a folder of texts is read by mneme data prepare"});
  refuse("/dev/null", {"data.train: /dev/null", "no regular file", "copy it"});
  refuse("", {"data.train", "got no path"});
  refuse(folder.write("empty.txt", ""), {"empty.txt", "the file is empty", "0 bytes"});
  expect_error(ErrorKind::kUsage, {"data.train", "no text to read", "set data.train"},
               [] { static_cast<void>(bytes_of({})); });
}

TEST(Corpus, RefusesPackedFilesAndPointers) {
  const TestFolder folder;
  const auto refuse = [&](const std::filesystem::path& path,
                          const std::vector<std::string>& parts) {
    expect_error(ErrorKind::kUsage, parts, [&] { static_cast<void>(bytes_of({path})); });
  };
  refuse(folder.write("text.gz", "\x1F\x8B\x08."),
         {"data.train: ", "text.gz: the file is packed", "expected a text file",
          "got data packed by gzip", "unpack it: gunzip -k "});
  refuse(folder.write("table", "PAR1....PAR1"),
         {"data.train: ", "the file is no text", "got a Parquet table", "pandas.read_parquet"});
  refuse(folder.write("pointer.txt",
                      "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n"),
         {"data.train: ", "pointer.txt: the file is a pointer of Git LFS", "git lfs pull"});
  static_cast<void>(folder.write("beside.txt.xz", "any"));
  refuse(folder.path() / "beside.txt",
         {"data.train: ", "got a packed file beside it", "unpack it: xz -dk ", "beside.txt.xz"});
}

TEST(Corpus, RefusesATextWithoutWords) {
  const TestFolder folder;
  const std::vector<NamedText> training = {{"t", "a b\n"}};
  const Vocabulary vocabulary = Vocabulary::words(training, {.add_eos = false});
  const auto path = folder.write("blank.txt", " \n\n");
  expect_error(ErrorKind::kUsage,
               {"data.test: ", "blank.txt", "no token", "3 bytes without a word"},
               [&] { static_cast<void>(encode_files({path}, "data.test", vocabulary)); });
}

TEST(IdCorpus, ReadsOneLaneOrSeveral) {
  const TestFolder folder;
  const auto one = folder.write_ids<std::int64_t>("1.safetensors", "input", {4}, {3, 1, 0, 2});
  EXPECT_THAT(ids_of(read_id_corpus(one, "data.train", 4).tokens), ElementsAre(3, 1, 0, 2));
  EXPECT_THAT(read_id_corpus(one, "data.train", 4).documents, ElementsAre(0));

  const auto two = folder.write_ids<std::int32_t>("2.safetensors", "tokens", {2, 2}, {3, 1, 0, 2});
  const Corpus corpus = read_id_corpus(two, "data.train", 0);
  EXPECT_THAT(ids_of(corpus.tokens), ElementsAre(3, 1, 0, 2));
  EXPECT_THAT(corpus.documents, ElementsAre(0, 2));
  EXPECT_EQ(corpus.sha256, sha256_file(two));
  EXPECT_EQ(corpus.counts.bytes, 0);
}

// Ids with a tensor of documents beside them.
std::filesystem::path write_documents(const TestFolder& folder, std::vector<std::int64_t> shape,
                                      const std::vector<std::int32_t>& documents,
                                      DType dtype = DType::I32) {
  const std::vector<std::int64_t> ids = {3, 1, 0, 2};
  SafetensorsWriter writer;
  writer.add("tokens", DType::I64, std::move(shape), ids.data());
  writer.add("documents", dtype, {static_cast<std::int64_t>(documents.size())}, documents.data());
  writer.write(folder.path() / "documents.safetensors");
  return folder.path() / "documents.safetensors";
}

TEST(IdCorpus, TakesTheDocumentsOfTheFile) {
  const TestFolder folder;
  const auto path = write_documents(folder, {4}, {0, 1, 3});
  EXPECT_THAT(read_id_corpus(path, "data.train", 4).documents, ElementsAre(0, 1, 3));
}

TEST(IdCorpus, RefusesDocumentsThatAreNone) {
  const TestFolder folder;
  const auto refuse = [&](const std::filesystem::path& path,
                          const std::vector<std::string>& parts) {
    expect_error(ErrorKind::kUsage, parts,
                 [&] { static_cast<void>(read_id_corpus(path, "data.train", 4)); });
  };
  const std::string where = "documents.safetensors: tensor documents";
  refuse(write_documents(folder, {4}, {1, 3}),
         {where + "[0]: it does not hold the first token of each document", "expected 0, got 1",
          "leave the tensor out"});
  refuse(write_documents(folder, {4}, {0, 2, 2}), {where + "[2]", "from 3 to 3", "got 2"});
  refuse(write_documents(folder, {4}, {0, 4}), {where + "[1]", "from 1 to 3", "got 4"});
  refuse(write_documents(folder, {4}, {}), {where, "of the shape [d]", "got I32 [0]"});
  refuse(write_documents(folder, {4}, {0, 1}, DType::F32), {where, "got F32 [2]"});
  refuse(write_documents(folder, {2, 2}, {0, 1}), {where, "ids of the shape [n]", "[2, 2]"});
}

TEST(IdCorpus, ReadsEveryIntegerType) {
  const TestFolder folder;
  const auto expect = [&](DType dtype, const auto& ids) {
    SafetensorsWriter writer;
    writer.add("tokens", dtype, {static_cast<std::int64_t>(ids.size())}, ids.data());
    const auto path = folder.path() / str(dtype_name(dtype), ".safetensors");
    writer.write(path);
    const Corpus corpus = read_id_corpus(path, "data.train", 0);
    EXPECT_THAT(ids_of(corpus.tokens), ElementsAre(0, 200, 7));
    EXPECT_EQ(corpus.tokens.width(), static_cast<int>(sizeof ids[0]));  // as in the file: mapped
  };
  expect(DType::U8, std::vector<std::uint8_t>{0, 200, 7});
  expect(DType::U16, std::vector<std::uint16_t>{0, 200, 7});
  expect(DType::U32, std::vector<std::uint32_t>{0, 200, 7});
  expect(DType::I32, std::vector<std::int32_t>{0, 200, 7});
  expect(DType::I64, std::vector<std::int64_t>{0, 200, 7});
}

TEST(IdCorpus, NamesThePlaceOfAnIdOutOfRange) {
  const TestFolder folder;
  const auto one = folder.write_ids<std::int64_t>("1.safetensors", "input", {3}, {0, 1, 7});
  expect_error(ErrorKind::kUsage,
               {"1.safetensors: tensor input[2]: a token id out of range: expected 0 to 6 "
                "(vocabulary size 7), got 7",
                "data.vocabulary_size"},
               [&] { static_cast<void>(read_id_corpus(one, "data.train", 7)); });
  EXPECT_NO_THROW(static_cast<void>(read_id_corpus(one, "data.train", 8)));

  const auto two = folder.write_ids<std::int32_t>("2.safetensors", "tokens", {2, 2}, {0, 1, 2, -1});
  expect_error(ErrorKind::kUsage,
               {"tensor tokens[1, 1]", "got -1; correct the ids: the least one is 0"},
               [&] { static_cast<void>(read_id_corpus(two, "data.train", 9)); });

  const auto big = folder.write_ids<std::int64_t>("3.safetensors", "input", {1}, {1LL << 31});
  expect_error(ErrorKind::kUsage,
               {"tensor input[0]",
                "expected 0 to 2147483646, got 2147483648; correct the ids: no "
                "vocabulary has ids beyond 2147483646"},
               [&] { static_cast<void>(read_id_corpus(big, "data.train", 0)); });
}

TEST(IdCorpus, AllowsNoTargetWhereAsked) {
  const TestFolder folder;
  const auto path = folder.write_ids<std::int64_t>("1.safetensors", "target", {1, 3}, {0, -1, 2});
  const IdRows rows = read_ids(SafetensorsFile::open(path), "target", 3, -1);
  EXPECT_EQ(rows.rows, 1);
  EXPECT_EQ(rows.columns, 3);
  EXPECT_THAT(rows.ids, ElementsAre(0, -1, 2));
}

// No key changes the vocabulary of the model that scores them.
TEST(IdCorpus, GivesNoKeyForIdsBeyondAModelsVocabulary) {
  const TestFolder folder;
  const auto refuse = [&](std::int64_t id, const std::string& hint) {
    const auto path = folder.write_ids<std::int64_t>("1.safetensors", "target", {1}, {id});
    expect_error(ErrorKind::kUsage, {str("got ", id, "; ", hint)}, [&] {
      static_cast<void>(read_ids(SafetensorsFile::open(path), "target", 3, -1));
    });
  };
  refuse(3, "correct the ids: the model's vocabulary is fixed");
  refuse(-2, "correct the ids: the least one is -1");
}

TEST(IdCorpus, RefusesFilesWithoutIds) {
  const TestFolder folder;
  const auto refuse = [&](const std::filesystem::path& path,
                          const std::vector<std::string>& parts) {
    expect_error(ErrorKind::kUsage, parts,
                 [&] { static_cast<void>(read_id_corpus(path, "data.valid", 10)); });
  };
  refuse(folder.path() / "no.safetensors", {"data.valid: ", "a safetensors file", "no such file"});
  refuse(folder.path(), {"data.valid: ", "got a folder"});
  refuse(folder.write("text.safetensors", "some text"), {"data.valid: ", "text.safetensors"});
  refuse(folder.write_ids<std::int64_t>("other.safetensors", "ids", {1}, {1}),
         {"other.safetensors: no token ids", "\"input\" or \"tokens\"", "the tensors [ids]"});
  refuse(folder.write_ids<std::int64_t>("deep.safetensors", "input", {1, 1, 1}, {1}),
         {"tensor input: it does not hold lanes", "[n] or [lanes, n]", "got [1, 1, 1]"});
  refuse(folder.write_ids<std::int64_t>("none.safetensors", "input", {0}, {}),
         {"tensor input", "at least one id", "got [0]"});

  const std::vector<std::int64_t> ids = {1};
  SafetensorsWriter both;
  both.add("input", DType::I64, {1}, ids.data());
  both.add("tokens", DType::I64, {1}, ids.data());
  both.write(folder.path() / "both.safetensors");
  refuse(folder.path() / "both.safetensors", {"no token ids", "got both"});

  const std::vector<float> numbers = {1.0F};
  SafetensorsWriter floats;
  floats.add("input", DType::F32, {1}, numbers.data());
  floats.write(folder.path() / "floats.safetensors");
  refuse(folder.path() / "floats.safetensors", {"tensor input", "I32 or I64", "got F32"});
}

}  // namespace
}  // namespace mneme::data
