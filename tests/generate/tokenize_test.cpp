#include "host/generate/tokenize.hpp"

#include <gtest/gtest.h>

#include "host/generate/text.hpp"

namespace mneme::generate {
namespace {

data::Vocabulary words_of(const std::string& training) {
  return data::Vocabulary::words(std::vector<data::NamedText>{{.source = "t", .text = training}});
}

TEST(Tokenize, TakesApartWhatMosesAndWikiTextDid) {
  const data::Vocabulary vocabulary = words_of("Hi , there .\n");
  const auto of = [&](const std::string& text) { return tokenize(text, vocabulary); };
  EXPECT_EQ(of("Hi, there."), "Hi , there .");
  EXPECT_EQ(of("a well-known mother-in-law"), "a well @-@ known mother @-@ in @-@ law");
  EXPECT_EQ(of("1,000 or 3.5 or 1,234,567.25"), "1 @,@ 000 or 3 @.@ 5 or 1 @,@ 234 @,@ 567 @.@ 25");
  EXPECT_EQ(of("(he said: \"No!\") [2] $5 50%"), "( he said : \" No ! \" ) [ 2 ] $ 5 50 %");
  EXPECT_EQ(of("it's the dogs' 'tis"), "it 's the dogs ' ' tis");
  EXPECT_EQ(of("it\u2019s 5\u20ac \u2013 \u201cyes\u201d\u2026"),
            "it \u2019s 5 \u20ac \u2013 \u201c yes \u201d \u2026");
  EXPECT_EQ(of("wait... what?!"), "wait ... what ? !");
  EXPECT_EQ(of("na\u00efve \u4e2d\u6587, \u0434\u0430."),
            "na\u00efve \u4e2d\u6587 , \u0434\u0430 .");
  EXPECT_EQ(of("and/or a--b -5 rock-"), "and / or a--b -5 rock-");
}

TEST(Tokenize, WhiteSpaceStays) {
  const data::Vocabulary vocabulary = words_of("a b ,\n");
  EXPECT_EQ(tokenize("", vocabulary), "");
  EXPECT_EQ(tokenize("  a\n\nb, \t", vocabulary), "  a\n\nb , \t");
}

TEST(Tokenize, BytesThatAreNoUtf8StayForTheErrorOfTheEncoder) {
  EXPECT_EQ(tokenize("a\xff, b", words_of("a b ,\n")), "a\xff , b");
}

TEST(Tokenize, TheVocabularyDecidesAboutPeriodsAndApostrophes) {
  const data::Vocabulary vocabulary =
      words_of("Mr. Hill of the U.S. said no . no . I do n't know . you don 't know . etc. no.\n");
  const auto of = [&](const std::string& text) { return tokenize(text, vocabulary); };
  EXPECT_EQ(of("Mr. Hill left the U.S., etc."), "Mr. Hill left the U.S. , etc.");
  EXPECT_EQ(of("He knew (no.)"), "He knew ( no . )");  // "no" is more frequent than "no."
  EXPECT_EQ(of("I don't, know."), "I don 't , know .");
  EXPECT_EQ(tokenize("I don't", words_of("I do n't\n")), "I do n't");
  EXPECT_EQ(tokenize("I can't", words_of("I do n't\n")), "I can 't");  // neither is known
}

TEST(Tokenize, WordsThatTheTrainingTextHasStayWhole) {
  const std::string tokenised = "the <unk> @-@ man 's $ 3 @.@ 5 @,@ ... is n't \" Mr. <eos> \" .";
  EXPECT_EQ(tokenize(tokenised, words_of(tokenised + "\n")), tokenised);
  // A text that no tokeniser took apart: "," is no word of it.
  EXPECT_EQ(tokenize("Hi, you", words_of("Hi, there. Hi you\n")), "Hi, you");
}

TEST(Tokenize, IsUndoneByDetokenizing) {
  const std::string written = "Don't you know (Mr. Hill) 1,000 well-known men's \"names\"; 3.5%?";
  const data::Vocabulary vocabulary = words_of(
      "Don 't you know ( Mr. Hill ) 1 @,@ 000 well @-@ known men 's \" names \" ; 3 @.@ 5 "
      "% ?");
  const Prompt prompt =
      encode_prompt(vocabulary, {.source = "--prompt", .text = tokenize(written, vocabulary)});
  EXPECT_EQ(prompt.unknown, 0);
  TokenWriter writer(&vocabulary, true);
  std::string text;
  for (const std::int32_t id : prompt.ids) text += writer.add(id);
  EXPECT_EQ(text, written);
}

}  // namespace
}  // namespace mneme::generate
