#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "host/generate/text.hpp"
#include "tests/base/temporary_folder.hpp"

namespace mneme::generate {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::vector<data::NamedText> kTraining = {{.source = "t", .text = "the cat\nthe dog\n"}};

data::NamedText named(const std::string& text) { return {.source = "--prompt", .text = text}; }

std::vector<std::string> symbols(const data::Vocabulary& vocabulary, const Prompt& prompt) {
  std::vector<std::string> out;
  for (const std::int32_t id : prompt.ids) out.push_back(vocabulary.symbol(id));
  return out;
}

template <typename F>
std::string refusal(const F& f) {
  std::string message = test::error_of([&] { static_cast<void>(f()); });
  EXPECT_THAT(message, testing::StartsWith("2: "));
  return message;
}

TEST(Prompt, LinesEndWhereTheTextSaysSo) {
  const data::Vocabulary words = data::Vocabulary::words(kTraining);
  const auto of = [&](const std::string& text, bool keeps_eos = true) {
    return symbols(words, encode_prompt(words, named(text), keeps_eos));
  };
  EXPECT_THAT(of("the cat"), ElementsAre("the", "cat"));
  EXPECT_THAT(of("the cat\n"), ElementsAre("the", "cat", "<eos>"));
  EXPECT_THAT(of("the\ncat "), ElementsAre("the", "<eos>", "cat"));
  EXPECT_THAT(of("the\ncat\n", false), ElementsAre("the", "cat"));
  EXPECT_THAT(of(""), ElementsAre());
  EXPECT_THAT(of("  "), ElementsAre());
}

TEST(Prompt, NamesWordsThatBecomeUnknown) {
  const data::Vocabulary words = data::Vocabulary::words(kTraining);
  const Prompt prompt = encode_prompt(words, named("the zebra\nand zebra cat"));
  EXPECT_THAT(symbols(words, prompt),
              ElementsAre("the", "<unk>", "<eos>", "<unk>", "<unk>", "cat"));
  EXPECT_EQ(prompt.unknown, 3);
  EXPECT_EQ(prompt.unknown_words, 2);
  EXPECT_EQ(prompt.unknown_list, "\"zebra\" at --prompt:1:5, \"and\" at --prompt:2:1");
  EXPECT_THAT(encode_prompt(words, named("a b c d e f g f")).unknown_list,
              testing::EndsWith("\"e\" at --prompt:1:9 and 2 more"));
}

TEST(Prompt, CharactersThatTheVocabularyLacksAreRefusedTogether) {
  const data::Vocabulary characters = data::Vocabulary::characters(kTraining);
  EXPECT_EQ(encode_prompt(characters, named("the dog")).ids.size(), 7U);
  const std::string message =
      refusal([&] { return encode_prompt(characters, named("the d\u00e9\nQX \u00e9")); });
  EXPECT_THAT(message, HasSubstr("the vocabulary lacks characters of it"));
  EXPECT_THAT(message, HasSubstr("\"\u00e9\" at --prompt:1:6, \"Q\" at --prompt:2:1, \"X\""));
  const std::string many = refusal([&] { return encode_prompt(characters, named("ABCDEFGH")); });
  EXPECT_THAT(many, HasSubstr("\"E\" at --prompt:1:5 and 3 more"));
}

TEST(Prompt, BytesThatTheVocabularyLacksAreRefused) {
  EXPECT_EQ(encode_prompt(data::Vocabulary::bytes(), named("\xff\n")).ids.size(), 2U);
  const data::Vocabulary few = data::Vocabulary::bytes_without_newline(kTraining);
  EXPECT_EQ(encode_prompt(few, named("the\ndog")).ids.size(), 6U);
  EXPECT_THAT(refusal([&] { return encode_prompt(few, named("the Dog")); }),
              HasSubstr("\"D\" at --prompt:1:5"));
}

TEST(Prompt, TextThatIsNoUtf8IsRefused) {
  for (const data::Vocabulary& vocabulary :
       {data::Vocabulary::words(kTraining), data::Vocabulary::characters(kTraining)}) {
    EXPECT_THAT(refusal([&] { return encode_prompt(vocabulary, named("the \xff")); }),
                HasSubstr("--prompt:1:5"));
  }
}

TEST(Prompt, ReadsIds) {
  EXPECT_THAT(parse_prompt_ids("1,2, 30").ids, ElementsAre(1, 2, 30));
  EXPECT_THAT(parse_prompt_ids("").ids, ElementsAre());
  for (const char* text : {"1,", "a", "1 2", "1,,2", "99999999999"}) {
    const std::string message = refusal([&] { return parse_prompt_ids(text); });
    EXPECT_THAT(message, HasSubstr("--prompt-ids")) << text;
    EXPECT_THAT(message, HasSubstr("1,2,3")) << text;
  }
}

}  // namespace
}  // namespace mneme::generate
