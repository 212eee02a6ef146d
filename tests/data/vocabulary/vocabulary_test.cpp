#include "host/data/vocabulary/vocabulary.hpp"

#include <string>
#include <vector>

#include "tests/data/data_files.hpp"

namespace mneme::data {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> symbols_of(const Vocabulary& vocabulary) {
  std::vector<std::string> symbols;
  for (std::int64_t id = 0; id < vocabulary.size(); ++id) symbols.push_back(vocabulary.symbol(id));
  return symbols;
}

Vocabulary choices_of(std::string_view text, const WordOptions& options = {}) {
  const std::vector<NamedText> training = {{"train.txt", text}};
  return Vocabulary::words(training, options);
}

Vocabulary characters_of(std::string_view text) {
  const std::vector<NamedText> training = {{"train.txt", text}};
  return Vocabulary::characters(training);
}

Vocabulary without_newline(std::string_view text) {
  const std::vector<NamedText> training = {{"train.txt", text}};
  return Vocabulary::bytes_without_newline(training);
}

std::vector<std::int32_t> ids_of(const Vocabulary& vocabulary, std::string_view text) {
  std::vector<std::int32_t> ids;
  vocabulary.encode({"other.txt", text}, ids);
  return ids;
}

TEST(Vocabulary, BytesTakeAnyFile) {
  const Vocabulary vocabulary = Vocabulary::bytes();
  EXPECT_EQ(vocabulary.size(), 256);
  std::string text;
  for (int i = 0; i < 256; ++i) text += static_cast<char>(i);
  std::vector<std::int32_t> ids;
  const EncodeCounts counts = vocabulary.encode({"x", text}, ids);
  for (int i = 0; i < 256; ++i) EXPECT_EQ(ids[static_cast<std::size_t>(i)], i);
  EXPECT_EQ(counts.tokens, 256);
  EXPECT_EQ(counts.characters, 256);
  EXPECT_EQ(counts.lines, 1);
  EXPECT_EQ(vocabulary.decode(ids), text);
  EXPECT_FALSE(vocabulary.unknown_id());
}

TEST(Vocabulary, CharactersAreSortedCodePoints) {
  const Vocabulary vocabulary = characters_of("b\u20aca\u00e9\nb");
  EXPECT_THAT(symbols_of(vocabulary), ElementsAre("\n", "a", "b", "\u00e9", "\u20ac"));
  const std::vector<std::int32_t> ids = ids_of(vocabulary, "\u00e9\na");
  EXPECT_THAT(ids, ElementsAre(3, 0, 1));
  EXPECT_EQ(vocabulary.decode(ids), "\u00e9\na");
  EXPECT_FALSE(vocabulary.unknown_id());
}

TEST(Vocabulary, NamesThePlaceOfAnUnknownCharacter) {
  const Vocabulary vocabulary = characters_of("ab\n");
  expect_error(ErrorKind::kUsage,
               {"other.txt:2:2: a character that the training text does not have: expected one of "
                "its 3 characters, got \"\u00e9\"",
                "data.train"},
               [&] { static_cast<void>(ids_of(vocabulary, "ab\nb\u00e9")); });
}

TEST(Vocabulary, RefusesCharactersThatAreNotUtf8) {
  expect_error(ErrorKind::kUsage, {"train.txt:1:2: the text is not UTF-8"},
               [] { static_cast<void>(characters_of("a\xff")); });
  const Vocabulary vocabulary = characters_of("ab\n");
  expect_error(ErrorKind::kUsage, {"other.txt:1:3: the text is not UTF-8"},
               [&] { static_cast<void>(ids_of(vocabulary, "ab\xff")); });
}

TEST(Vocabulary, RefusesATrainingTextWithoutSymbols) {
  expect_error(ErrorKind::kUsage, {"train.txt", "no character"},
               [] { static_cast<void>(characters_of("")); });
  expect_error(ErrorKind::kUsage, {"train.txt", "no word", "data.train"},
               [] { static_cast<void>(choices_of(" \n \n")); });
}

TEST(Vocabulary, OrdersWordsAsTheOfficialVocabularyDoes) {
  const Vocabulary vocabulary = choices_of("c a b <unk> a\n\nb a c <unk> d\n");
  EXPECT_THAT(symbols_of(vocabulary), ElementsAre("<eos>", "a", "c", "b", "<unk>", "d"));
  EXPECT_EQ(vocabulary.unknown_id(), 4);
  EXPECT_TRUE(vocabulary.adds_eos());
}

TEST(Vocabulary, AddsUnknownLastWhenTheTrainingTextHasNone) {
  const Vocabulary vocabulary = choices_of("b a a\n");
  EXPECT_THAT(symbols_of(vocabulary), ElementsAre("<eos>", "a", "b", "<unk>"));
  std::vector<std::int32_t> ids;
  const EncodeCounts counts = vocabulary.encode({"x", "a z\ny b"}, ids);
  EXPECT_THAT(ids, ElementsAre(1, 3, 0, 3, 2, 0));
  EXPECT_EQ(counts.tokens, 6);
  EXPECT_EQ(counts.unknown, 2);
  EXPECT_EQ(counts.lines, 2);
  EXPECT_EQ(counts.characters, 7);
  EXPECT_EQ(vocabulary.decode(ids), "a <unk>\n<unk> b\n");
}

TEST(Vocabulary, DoesNotCountAWrittenUnknownAsUnknown) {
  const Vocabulary vocabulary = choices_of("a <unk>\n");
  std::vector<std::int32_t> ids;
  EXPECT_EQ(vocabulary.encode({"x", "<unk> z"}, ids).unknown, 1);
}

TEST(Vocabulary, TakesAWrittenEosForTheEndOfALine) {
  const Vocabulary vocabulary = choices_of("a <eos> <eos> <eos> b\n");
  EXPECT_THAT(symbols_of(vocabulary), ElementsAre("<eos>", "a", "b", "<unk>"));
  EXPECT_THAT(ids_of(vocabulary, "a <eos>\n"), ElementsAre(1, 0, 0));
}

TEST(Vocabulary, LeavesOutEosOnRequest) {
  const Vocabulary vocabulary = choices_of("b a\na\n", {.add_eos = false});
  EXPECT_THAT(symbols_of(vocabulary), ElementsAre("a", "b", "<unk>"));
  EXPECT_THAT(ids_of(vocabulary, "b\na\n"), ElementsAre(1, 0));
  EXPECT_EQ(vocabulary.decode(ids_of(vocabulary, "b\na\n")), "b a");
}

TEST(Vocabulary, DropsRareWords) {
  const Vocabulary vocabulary = choices_of("a a b b c\n", {.min_count = 2});
  EXPECT_THAT(symbols_of(vocabulary), ElementsAre("<eos>", "a", "b", "<unk>"));
  EXPECT_THAT(ids_of(vocabulary, "c a"), ElementsAre(3, 1, 0));
}

TEST(Vocabulary, KeepsToItsBound) {
  for (std::int64_t bound = 3; bound <= 8; ++bound) {
    const Vocabulary vocabulary = choices_of("a a a b b <unk> c d\n", {.max_size = bound});
    EXPECT_EQ(vocabulary.size(), std::min<std::int64_t>(bound, 6));
    EXPECT_TRUE(vocabulary.unknown_id());
    EXPECT_EQ(vocabulary.find("a"), 1);
  }
}

TEST(Vocabulary, CountsItsTrainingText) {
  const Vocabulary words = choices_of("a a b <eos> c\nb a d\n", {.min_count = 2});
  EXPECT_THAT(symbols_of(words), ElementsAre("<eos>", "a", "b", "<unk>"));
  EXPECT_THAT(words.counts(), ElementsAre(3, 3, 2, 2));  // two line ends and a written one; c, d
  EXPECT_THAT(choices_of("a <unk> a b\n", {.max_size = 3}).counts(), ElementsAre(1, 2, 2));
  EXPECT_THAT(characters_of("ba\nb").counts(), ElementsAre(1, 1, 2));
  EXPECT_TRUE(Vocabulary::bytes().counts().empty());
}

TEST(Vocabulary, NumbersCharactersByCountOnRequest) {
  const std::vector<NamedText> texts = {{"a", "cba"}, {"b", "ab\u00e9b"}};
  const Vocabulary vocabulary = Vocabulary::characters(texts, CharacterOrder::kCount);
  EXPECT_THAT(symbols_of(vocabulary), ElementsAre("b", "a", "c", "\u00e9"));
  EXPECT_THAT(vocabulary.counts(), ElementsAre(3, 2, 1, 1));
}

// prep_enwik8.py: bytes by falling count, no newline.
TEST(Vocabulary, LeavesOutNewlinesOfBytes) {
  const std::vector<NamedText> texts = {{"a", "x\nzz\n"}, {"b", "\xffyz\n"}};
  const Vocabulary vocabulary = Vocabulary::bytes_without_newline(texts);
  EXPECT_THAT(symbols_of(vocabulary), ElementsAre("z", "x", "\xff", "y"));
  EXPECT_THAT(vocabulary.counts(), ElementsAre(3, 1, 1, 1));
  EXPECT_TRUE(vocabulary.drops_newlines());
  std::vector<std::int32_t> ids;
  const EncodeCounts counts = vocabulary.encode({"c", "z\ny\n\n"}, ids);
  EXPECT_THAT(ids, ElementsAre(0, 3));
  EXPECT_EQ(counts.tokens, 2);
  EXPECT_EQ(counts.bytes, 2);
  EXPECT_EQ(counts.characters, 2);
  EXPECT_EQ(counts.lines, 3);
  expect_error(ErrorKind::kUsage, {"c:2:2: a byte that the vocabulary", "4 bytes", "got 113"}, [&] {
    vocabulary.encode({"c", "z\nyq"}, ids);
  });
  const std::vector<NamedText> blank = {{"blank.txt", "\n\n"}};
  expect_error(ErrorKind::kUsage, {"blank.txt", "no byte but newlines"},
               [&] { static_cast<void>(Vocabulary::bytes_without_newline(blank)); });
}

TEST(Vocabulary, CountsWordsOfEveryKindOfText) {
  const std::string text = "a bc \n<eos>\n  d";
  std::vector<std::int32_t> ids;
  EXPECT_EQ(choices_of(text).encode({"x", text}, ids).words, 3);
  EXPECT_EQ(choices_of(text, {.add_eos = false}).encode({"x", text}, ids).words, 4);
  EXPECT_EQ(characters_of(text).encode({"x", text}, ids).words, 4);
  EXPECT_EQ(Vocabulary::bytes().encode({"x", text}, ids).words, 4);
}

TEST(Vocabulary, CountsLinesOfMessagesInTheWholeText) {
  const std::string whole = "ab\nab\nb\xff";
  const Vocabulary vocabulary = characters_of("ab\n");
  std::vector<std::int32_t> ids;
  expect_error(ErrorKind::kUsage, {"x:3:2: the text is not UTF-8", "0xff at byte offset 7"}, [&] {
    vocabulary.encode({"x", std::string_view(whole).substr(6), whole}, ids);
  });
}

TEST(Vocabulary, HasAChecksumOfWhatDecidesTheIds) {
  const std::string digest = choices_of("a b\n").sha256();
  EXPECT_EQ(choices_of("a a b\n").sha256(), digest);  // other counts, equal ids
  EXPECT_NE(choices_of("b a\n").sha256(), digest);
  EXPECT_NE(choices_of("a b\n", {.add_eos = false}).sha256(), digest);
  EXPECT_NE(characters_of("ab").sha256(), characters_of("abc").sha256());
  EXPECT_THAT(choices_of("a b\n").summary(),
              HasSubstr("word vocabulary of 4 symbols, sha256 " + digest.substr(0, 12)));
}

TEST(Vocabulary, RefusesBadOptions) {
  expect_error(ErrorKind::kUsage, {"data.vocabulary_size", "at least 3", "got 2"},
               [] { static_cast<void>(choices_of("a\n", {.max_size = 2})); });
  expect_error(ErrorKind::kUsage, {"data.min_count", "at least 1", "got 0"},
               [] { static_cast<void>(choices_of("a\n", {.min_count = 0})); });
}

TEST(Vocabulary, RefusesAnIdOutOfRange) {
  const Vocabulary vocabulary = choices_of("a\n");
  expect_error(ErrorKind::kUsage, {"token id 3", "expected 0 to 2", "word"},
               [&] { static_cast<void>(vocabulary.symbol(3)); });
  expect_error(ErrorKind::kUsage, {"token id -1"},
               [&] { static_cast<void>(vocabulary.decode(std::vector<std::int32_t>{-1})); });
}

TEST(VocabularyFile, RoundTrips) {
  const TestFolder folder;
  for (const Vocabulary& vocabulary :
       {Vocabulary::bytes(), characters_of("a\u00e9\n\"\\\x01"), choices_of("a \u00e9\" b\\ a\n"),
        choices_of("a b\n", {.add_eos = false}), without_newline("a\n\xff\n")}) {
    const auto path = folder.path() / "vocabulary.json";
    vocabulary.save(path);
    const Vocabulary loaded = Vocabulary::load(path);
    EXPECT_TRUE(loaded == vocabulary);
    EXPECT_EQ(loaded.counts(), vocabulary.counts());
    EXPECT_EQ(loaded.sha256(), vocabulary.sha256());
  }
}

TEST(VocabularyFile, SaysWhatIsWrong) {
  const TestFolder folder;
  const auto refuse = [&](const std::string& text, const std::vector<std::string>& parts) {
    const auto path = folder.write("vocabulary.json", text);
    SCOPED_TRACE(text);
    expect_error(ErrorKind::kUsage, parts, [&] { static_cast<void>(Vocabulary::load(path)); });
  };
  const std::string head = R"({"format":"mneme.vocabulary","revision":1,)";
  refuse("{", {"vocabulary.json: not a vocabulary", "expected a JSON file", "run folder"});
  refuse("[]", {"expected a JSON object", "got array"});
  refuse("{}", {": format", "no such key"});
  refuse(R"({"format":"other"})", {": format", "got \"other\""});
  refuse(R"({"format":"mneme.vocabulary","revision":2})", {": revision", "expected 1, got 2"});
  refuse(head + R"("kind":"gpt9"})",
         {": kind", "\"byte\", \"char\", \"word\" or \"tokenizer\"", "\"gpt9\""});
  refuse(head + R"("kind":"word","symbols":["a"]})", {": add_eos", "no such key"});
  refuse(head + R"("kind":"word","add_eos":1,"symbols":["a"]})", {": add_eos", "true or false"});
  refuse(head + R"("kind":"char"})", {": symbols", "no such key"});
  refuse(head + R"("kind":"char","symbols":[]})", {": symbols", "an array of strings", "[]"});
  refuse(head + R"("kind":"char","symbols":{}})", {": symbols", "an array of strings", "object"});
  refuse(head + R"("kind":"char","symbols":["a",1]})", {": symbols[1]", "a string", "got 1"});
  refuse(head + R"("kind":"char","symbols":["a",""]})", {": symbols[1]", "at least one character"});
  refuse(head + R"("kind":"char","symbols":["ab"]})", {": symbols[0]", "one character", "\"ab\""});
  refuse(head + R"("kind":"char","symbols":["a","a"]})", {": symbols[1]", "not given before"});
  refuse(head + R"("kind":"word","add_eos":true,"symbols":["<eos>","a"]})", {"<unk>", "none"});
  refuse(head + R"("kind":"word","add_eos":true,"symbols":["<unk>","a"]})", {"<eos>", "none"});
  refuse(head + R"("kind":"byte","bytes":[]})", {": bytes", "0 to 255", "got []"});
  refuse(head + R"("kind":"byte","bytes":[7,10]})", {": bytes[1]", "without 10", "got 10"});
  refuse(head + R"("kind":"byte","bytes":[7,7]})", {": bytes[1]", "different"});
  refuse(head + R"("kind":"char","symbols":["a"],"counts":[1,2]})",
         {": counts", "1 in all", "got 2 in all"});
  refuse(head + R"("kind":"char","symbols":["a"],"counts":[-1]})", {": counts[0]", "got -1"});
  expect_error(ErrorKind::kRun, {"missing.json"},
               [&] { static_cast<void>(Vocabulary::load(folder.path() / "missing.json")); });
}

}  // namespace
}  // namespace mneme::data
