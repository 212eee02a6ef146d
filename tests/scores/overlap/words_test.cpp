#include "host/scores/overlap/words.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "host/scores/overlap/porter_stemmer.hpp"

namespace mneme::scores {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(ScoreWords, OfRougeAreRunsOfAsciiLettersAndDigits) {
  EXPECT_THAT(rouge_words("It's 10/10, naïve\tWOW!", false),
              ElementsAre("it", "s", "10", "10", "na", "ve", "wow"));
  EXPECT_THAT(rouge_words("", false), IsEmpty());
  EXPECT_THAT(rouge_words(" ... \n—", true), IsEmpty());
}

TEST(ScoreWords, OfRougeTakeLettersWhoseLowerCaseIsAscii) {
  // U+0130 is "i" and a combining dot in lower case, U+212A (the Kelvin sign) is "k".
  EXPECT_THAT(rouge_words("\u0130stanbul \u212A2", false), ElementsAre("i", "stanbul", "k2"));
}

TEST(ScoreWords, OfRougeAreStemmedFromFourLettersOn) {
  EXPECT_THAT(rouge_words("flies was cats ran running", true),
              ElementsAre("fli", "was", "cat", "ran", "run"));
}

TEST(ScoreWords, OfF1HaveNoPunctuationAndNoArticles) {
  EXPECT_THAT(f1_words("The actor's, an \"A\" list -- it's the_end a-b"),
              ElementsAre("actors", "list", "its", "theend", "ab"));
  // Punctuation beyond ASCII stays, and an article beside it is one.
  EXPECT_THAT(f1_words("the–cat “An” don’t"), ElementsAre("–cat", "“", "”", "don’t"));
  // Letters of all scripts are letters: no article inside these words.
  EXPECT_THAT(f1_words("äa THÉ theé x²a"), ElementsAre("äa", "thé", "theé", "x²a"));
  EXPECT_THAT(f1_words("a the ... an"), IsEmpty());
}

TEST(ScoreWords, OfMeteorKeepPunctuation) {
  EXPECT_THAT(meteor_words(" Good, THE\u3000movie.\n"), ElementsAre("good,", "the", "movie."));
  EXPECT_THAT(meteor_words(" \n"), IsEmpty());
}

TEST(ScoreWords, ShowBytesThatAreNoUtf8AsReplacements) {
  EXPECT_THAT(meteor_words("a\xff\xc3 b"), ElementsAre("a\uFFFD\uFFFD", "b"));
  EXPECT_THAT(f1_words("the\xff"), ElementsAre("\uFFFD"));
  EXPECT_THAT(rouge_words("ab\xff"
                          "cd",
                          false),
              ElementsAre("ab", "cd"));
  EXPECT_EQ(porter_stem("cats\xff"), "cats\uFFFD");
}

TEST(ScoreWords, LowerCapitalSigmaToOneFormEverywhere) {
  EXPECT_EQ(to_utf8(lower_case("ΟΔΟΣ")), "οδοσ");  // Python writes a final sigma, ς
}

TEST(PorterStem, KeepsShortAndIrregularWords) {
  EXPECT_EQ(porter_stem(""), "");
  EXPECT_EQ(porter_stem("s"), "s");
  EXPECT_EQ(porter_stem("is"), "is");
  EXPECT_EQ(porter_stem("news"), "news");
  EXPECT_EQ(porter_stem("dying"), "die");
}

TEST(PorterStem, DiffersFromTheAlgorithmOf1980AsNltkDoes) {
  EXPECT_EQ(porter_stem("always"), "alway");    // 1980: alwai
  EXPECT_EQ(porter_stem("apology"), "apolog");  // apologi
  EXPECT_EQ(porter_stem("aging"), "age");       // ag
  EXPECT_EQ(porter_stem("cried"), "cri");
  EXPECT_EQ(porter_stem("tied"), "tie");            // ti
  EXPECT_EQ(porter_stem("beautifully"), "beauti");  // beautifulli
}

TEST(PorterStem, CountsLettersAndNotBytes) {
  EXPECT_EQ(porter_stem("és"), "és");  // two letters
  EXPECT_EQ(porter_stem("cafés"), "café");
}

}  // namespace
}  // namespace mneme::scores
