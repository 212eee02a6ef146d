#include <gtest/gtest.h>

#include "host/data/text/text.hpp"
#include "host/data/vocabulary/vocabulary.hpp"
#include "host/generate/text.hpp"
#include "tests/data/tokenizer_files.hpp"

namespace mneme::generate {
namespace {

// The words of `text` after the first `before`, written one at a time.
std::string written(const std::string& text, bool detokenises, std::ptrdiff_t before = 0) {
  const std::vector<data::NamedText> training = {{.source = "text", .text = text}};
  const data::Vocabulary vocabulary = data::Vocabulary::words(training);
  std::vector<std::int32_t> ids;
  vocabulary.encode(training[0], ids);
  TokenWriter writer(&vocabulary, detokenises);
  writer.follow({ids.begin(), ids.begin() + before});
  ids.erase(ids.begin(), ids.begin() + before);
  std::string out;
  for (const std::int32_t id : ids) out += writer.add(id);
  if (!detokenises) {
    EXPECT_EQ(out, vocabulary.decode(ids));
  }
  return out;
}

TEST(TokenWriter, JoinsWordsWithBlanksAndEndsLines) {
  EXPECT_EQ(written("the cat , sat\non a @-@ mat\n", false), "the cat , sat\non a @-@ mat\n");
}

TEST(TokenWriter, DetokenisesWhatMosesAndWikiTextTookApart) {
  EXPECT_EQ(
      written("The \" well @-@ known \" cat ( aged 3 @.@ 5 ) , which cost $ 1 @,@ 000 ; it 's "
              "old , is n't it ?\n",
              true),
      "The \"well-known\" cat (aged 3.5), which cost $1,000; it's old, isn't it?\n");
  EXPECT_EQ(written("\" One\nTwo \" three\n", true), "\"One\nTwo \"three\n");
  EXPECT_EQ(written("the dogs ' tails : 5 % of [ all ] \u00a3 2 .\n", true),
            "the dogs' tails: 5% of [all] \u00a32.\n");
}

TEST(TokenWriter, PutsCurlyQuotesOnTheirSides) {
  EXPECT_EQ(
      written(
          "\u201c it \u2019s \u2018 old \u2019 , \u201d the dogs \u2019 owners did n\u2019t say\n",
          true),
      "\u201cit\u2019s \u2018old\u2019,\u201d the dogs\u2019 owners didn\u2019t say\n");
}

TEST(TokenWriter, ClosesQuotationsOfThePrompt) {
  EXPECT_EQ(written("four @-@ five \" three \" two\n", true, 4), "three\" two\n");
  EXPECT_EQ(written("\" one \" two \" three\n", true, 4), "\"three\n");
  EXPECT_EQ(written("one \"\n\" two \"\n", true, 3), "\"two\"\n");  // of a line before
  EXPECT_EQ(written("one two three\n", false, 1), "two three\n");
}

data::Vocabulary pretrained(const std::string& kind) {
  return data::load_vocabulary(data::trained_tokenizer(kind), data::VocabularyKind::kTokenizer,
                               "test");
}

TEST(TokenWriter, WritesWholeCharactersOfATokenizer) {
  const data::Vocabulary bytes = pretrained("gpt2");
  const std::string text = "the \U0001F600<|endoftext|> house";
  std::vector<std::int32_t> ids;
  bytes.encode({.source = "text", .text = text}, ids);
  TokenWriter writer(&bytes, true);
  std::string out;
  for (const std::int32_t id : ids) {
    const std::string piece = writer.add(id);
    EXPECT_NO_THROW(data::check_utf8({.source = "piece", .text = piece}));
    out += piece;
  }
  EXPECT_EQ(out + writer.end(), text);
}

TEST(TokenWriter, GoesOnBehindThePromptOfATokenizer) {
  const data::Vocabulary pieces = pretrained("llama2");
  const Prompt prompt = encode_prompt(pieces, {.source = "prompt", .text = "the house \u4e8c"});
  EXPECT_EQ(prompt.unknown, 0);
  TokenWriter writer(&pieces, false);
  writer.follow({prompt.ids.begin(), prompt.ids.end() - 1});  // all but a byte of U+4E8C
  EXPECT_EQ(writer.add(prompt.ids.back()), "\u4e8c");
  const std::int32_t blank = *pieces.find("\u2581");
  EXPECT_EQ(writer.add(blank), " ");
  TokenWriter fresh(&pieces, false);
  EXPECT_EQ(fresh.add(blank), "");  // sentencepiece puts it before a text
}

// All text comes at the end, without the prompt's.
TEST(TokenWriter, LeavesThePromptOutWhereTheTextWaitsForItsEnd) {
  nlohmann::json json = data::small_tokenizer_json();
  json["decoder"] = nlohmann::json::parse(R"({"type": "Sequence", "decoders": [{"type": "Fuse"},
    {"type": "Replace", "pattern": {"String": "ab"}, "content": "x"}]})");
  const std::string_view marks[] = {"<turn>"};
  const data::Vocabulary waiting =
      data::Vocabulary::pretrained(
          std::make_shared<const data::Tokenizer>(data::tokenizer_of(json)))
          .with_marks(marks);
  TokenWriter writer(&waiting, false);
  writer.follow({3, 8, 1, 2});  // "c", the mark, "ab"
  EXPECT_EQ(writer.add(3), "");
  EXPECT_EQ(writer.end(), "c");
  // A mark ends the text before it.
  EXPECT_EQ(writer.add(3), "");
  EXPECT_EQ(writer.add(8), "c<turn>");
  EXPECT_EQ(writer.add(1), "");
  EXPECT_EQ(writer.end(), "a");
}

TEST(SampleText, EndsATokenizersTextAtASpecialTokenAndReplacesAnOpenCharacter) {
  const data::Vocabulary bytes = pretrained("gpt2");
  std::vector<std::int32_t> ids;
  bytes.encode({.source = "text", .text = "the house<|endoftext|>model"}, ids);
  SampleText sample(&bytes, false, {"<|endoftext|>"});
  for (const std::int32_t id : ids) static_cast<void>(sample.add(id));
  static_cast<void>(sample.end());
  EXPECT_TRUE(sample.is_stopped());
  EXPECT_EQ(sample.text(), "the house");
  SampleText open(&bytes, false, {});
  static_cast<void>(open.add(*bytes.find("\u00e2")));  // the byte 0xE2
  EXPECT_EQ(open.text(), "");
  EXPECT_EQ(open.end(), "\uFFFD");
}

TEST(TokenWriter, WritesBytesCharactersAndIdsAsTheyAre) {
  const data::Vocabulary bytes = data::Vocabulary::bytes();
  TokenWriter of_bytes(&bytes, true), of_ids(nullptr, false);
  std::string text;
  for (const char byte : {'a', ' ', ','}) text += of_bytes.add(byte);
  EXPECT_EQ(text, "a ,");
  text.clear();
  for (const std::int32_t id : {7, 12}) text += of_ids.add(id);
  EXPECT_EQ(text, "7 12");
}

}  // namespace
}  // namespace mneme::generate
